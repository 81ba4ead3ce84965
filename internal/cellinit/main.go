// Package cellinit is the inside of the wall: the launcher that starts cells
// and the init that is PID 1 of one. Both are modes of one small program.
//
// Data flows one way: the launcher receives descriptors and forks init; init
// receives one arm frame, builds the root, seals itself, proves it and waits;
// then it receives one job frame, forks the guest and reports its end. See
// docs/architecture.md.
//
// There is no os/signal here (it costs 2 ms and breaks wait4), no shell, and
// no path of the host that did not come in the arm frame.
package cellinit

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Name is argv[0] of both modes.
const Name = "glovebox-init"

// Modes, as argv[1].
const (
	ModeLauncher = "launcher"
	ModeInit     = "init"
)

// Descriptors both sides agree on. 0, 1 and 2 are /dev/null.
const (
	FDControl = 3 // the socket to the host
	FDSelf    = 4 // launcher only: the program that init is started from
	FDStdin   = 4 // init only: the guest's descriptors
	FDStdout  = 5
	FDStderr  = 6
)

// Main runs the mode named in args, which is os.Args, and does not return. The
// calling goroutine must be locked to the main thread since an init function:
// the thread that is PID 1's leader must never become the sealed one.
func Main(args []string) {
	if len(args) != 2 || args[0] != Name {
		usage()
	}
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	switch args[1] {
	case ModeLauncher:
		launcherMain()
	case ModeInit:
		initMain()
	}
	usage()
}

func usage() {
	fmt.Fprintln(os.Stderr, Name+": started by Glovebox, not by hand")
	os.Exit(2)
}

// closeFrom closes every descriptor from first on, whatever the program that
// started us had open.
func closeFrom(first int) error {
	return unix.CloseRange(uint(first), ^uint(0)>>33, 0)
}
