package jsc

import (
	"fmt"
	"os"
	"strings"
)

// Mode says which of the engine's compilers run. The zero value is Interpreter.
type Mode int

const (
	Interpreter Mode = iota // no code is generated and no memory becomes executable
	Baseline                // template code, no speculation
	Full                    // every compiler that the engine has
)

var modeNames = [...]string{Interpreter: "interpreter", Baseline: "baseline", Full: "full"}

// String returns the mode's name as users write it.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return fmt.Sprintf("mode %d", int(m))
	}
	return modeNames[m]
}

// Options says how the engine is started. The zero value is the strictest.
type Options struct {
	Mode        Mode
	WebAssembly bool // have WebAssembly; by default the engine is told to have none

	// Files are all that may be mapped with the engine, absolute names without
	// symbolic links. Nil means Library.Files, which takes some milliseconds to find out.
	Files []string
}

// settings returns the engine's options, name and value, as it and its libraries
// take them from the environment. What the mode does not say is the same for all.
func (o Options) settings() ([]string, error) {
	list := []string{
		// Values are held from Go's stacks, which no collector scans: between a
		// call's return and JSValueProtect nothing may be collected.
		"JSC_useConcurrentGC=0",
		// The timer of the time limit sets a flag that code looks at, instead of
		// sending a signal to a thread that may be in Go.
		"JSC_usePollingTraps=1",
		"JSC_useSharedArrayBuffer=0",
		"JSC_useShadowRealm=0",
		"JSC_useProfiler=0",
		"JSC_useSamplingProfiler=0",
		"TZ=UTC",                          // the host's time zone is not the guest's business, and its file is not there
		"JSC_useWasmFaultSignalHandler=0", // no handler of SIGSEGV beside Go's
		"JSC_useWasmFastMemory=0",         // no reservations of gigabytes
		// One marker thread: a worker's processor time is limited, and a cell's threads are counted.
		"JSC_numberOfGCMarkers=1",
	}
	switch o.Mode {
	case Interpreter:
		list = append(list, "JSC_useJIT=0")
	case Baseline:
		list = append(list, "JSC_useJIT=1", "JSC_useDFGJIT=0", "JSC_useFTLJIT=0")
	case Full:
		list = append(list, "JSC_useJIT=1")
	default:
		return nil, fmt.Errorf("jsc: there is no %v", o.Mode)
	}
	if o.WebAssembly {
		list = append(list, "JSC_useWasm=1")
	} else {
		list = append(list, "JSC_useWasm=0")
	}
	return list, nil
}

// prefixes are names of the environment that the engine, its libraries, the C
// library or the loader listen to.
var prefixes = []string{"JSC_", "WTF_", "WEBKIT_", "G_", "GIO_", "GLIB_", "GOBJECT_", "ICU_", "MALLOC_", "GLIBC_", "LD_", "Malloc", "bmalloc_", "PAS_", "__XPC_"}

// alone are names without such a prefix.
var alone = []string{"GODEBUG", "GOTRACEBACK", "GCONV_PATH", "LOCPATH", "NLSPATH", "TZDIR", "TZ", "LANGUAGE", "LANG"}

// cleanEnvironment removes what could reach the engine from the process's
// environment and returns how many variables that were.
func cleanEnvironment() (int, error) {
	dropped := 0
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !listens(name) {
			continue
		}
		if err := os.Unsetenv(name); err != nil {
			return dropped, fmt.Errorf("jsc: %w", err)
		}
		dropped++
	}
	return dropped, nil
}

// listens says whether something in the process may read the variable.
func listens(name string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	for _, n := range alone {
		if name == n {
			return true
		}
	}
	return strings.HasPrefix(name, "LC_")
}
