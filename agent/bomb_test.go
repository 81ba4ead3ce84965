package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/js"
)

// bombVar makes this program, as a child, read every bomb ("all"), or read one
// without a bound ("control").
const bombVar = "GLOVEBOX_TEST_TOOL_BOMB"

const bombStack = 64 << 20 // Go allows 1 GB

// bombHeads are what stands before bombLength bytes of a bomb's repeated part.
var bombHeads = []string{"", `{"type":"object","properties":{"a":`, `{"pattern":"`, `{"enum":[`, `[{"name":"a","inputSchema":`, `[{"name":"`, "http://x/", "http://["}

var bombParts = []string{"(", "[", "`${", `{"a":`, "<!--", "/*", `{"not":`, `{"allOf":[`, `\u0041`, "%25", "../", "a.", "é", "\x00", "*/", "\n", "[^", "1,", `{},`, "{\"a\":{\"a\":0}},"}

// bombReaders are the entries for text of strangers.
var bombReaders = map[string]func(string) bool{
	"url":    func(s string) bool { _, err := egress.Parse(s); return err != nil },
	"origin": func(s string) bool { _, err := egress.ParseOrigin(s); return err != nil },
	"schema": func(s string) bool {
		_, err := NewCatalog([]Tool{{Name: "t", InputSchema: json.RawMessage(s), Func: SchemaFunc(nothing)}}, CatalogOptions{})
		return err != nil
	},
	"name": func(s string) bool {
		_, err := NewCatalog([]Tool{{Name: s, Func: func() {}}}, CatalogOptions{})
		return err != nil
	},
	"guest": func(s string) bool { return checkName(GuestName(s)) != "" },
	"doc": func(s string) bool {
		return len(strings.Join(docLines(s, maxToolDoc), "\n")) <= 2*maxToolDoc
	},
	"list": func(s string) bool {
		_, err := ParseTools([]byte(s), "", func(context.Context, string, map[string]any) (any, error) { return nil, nil })
		return err != nil
	},
	"value":  func(s string) bool { return new(js.Value).UnmarshalBinary([]byte(s)) != nil },
	"search": func(s string) bool { return len((&Catalog{}).search(s)) == 0 },
}

// readBombs returns what was wrong with reading them.
func readBombs() (bad []string) {
	debug.SetMaxStack(bombStack)
	for _, head := range bombHeads {
		for _, part := range bombParts {
			text := head + strings.Repeat(part, bombLength/len(part))
			for name, read := range bombReaders {
				if why := readBomb(read, text); why != "" {
					bad = append(bad, fmt.Sprintf("%s of %q and many %q: %s", name, head, part, why))
				}
			}
		}
	}
	return bad
}

// readBomb says what was wrong with reading one, in the best of five tries.
func readBomb(read func(string) bool, text string) (why string) {
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		refused := read(text)
		took := cpuTime() - start
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		if refused && took <= bombTime && used <= 64<<20 {
			return ""
		}
		why = fmt.Sprintf("refused %v, %v, %d MiB", refused, took, used>>20)
	}
	return why
}

// bombTime is 50 ms, twice since the collector's threads count too.
const bombTime = 100 * time.Millisecond

// cpuTime is what this process has used: tests share the machine.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nest is a reader without a bound.
func nest(s string) int {
	if s == "" || s[0] != '[' {
		return 0
	}
	return 1 + nest(s[1:])
}

func bombChild(what string) {
	if what == "control" {
		debug.SetMaxStack(bombStack)
		fmt.Println(nest(strings.Repeat("[", 16<<20)))
		return
	}
	for _, b := range readBombs() {
		fmt.Println(b)
	}
	fmt.Println("read")
}

// TestBombs: 16 MiB of what nests or escapes, given to each entry for text of
// strangers in a process of its own, is refused in time, with little memory and a
// small stack. The control: a reader without a bound ends its process, which
// nothing recovers.
//
// proves part of H-48
func TestBombs(t *testing.T) {
	run := func(what string) (string, error) {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), bombVar+"="+what)
		out, err := child.CombinedOutput()
		return string(out), err
	}
	if out, err := run("all"); err != nil || out != "read\n" {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := run("control")
	if status, ok := errors.AsType[*exec.ExitError](err); !ok || status.ExitCode() != 2 || !strings.Contains(out, "stack overflow") {
		t.Errorf("the control: %v\n%.300s", err, out)
	}
}
