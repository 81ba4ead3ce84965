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

// fdLow bounds the descriptors that are looked at one by one: those that the runtime
// opens as the program starts have the lowest numbers.
const fdLow = 64

// closeFrom closes every descriptor from first to before last (0 for all), whatever the
// program that started us had open, but for what this program's own runtime waits with:
// where the host program is its own init, a package of its may have had the runtime
// open that before main, and without it the runtime ends the process.
func closeFrom(first, last int) error {
	for ; first < fdLow && (last == 0 || first < last); first++ {
		if !runtimes(first) {
			_ = unix.Close(first) // or there is none
		}
	}
	switch {
	case last == 0:
		return unix.CloseRange(uint(first), ^uint(0)>>33, 0)
	case first < last:
		return unix.CloseRange(uint(first), uint(last)-1, 0)
	}
	return nil
}

// runtimes tells whether a descriptor is an epoll or an eventfd of the runtime. What was
// inherited is not closed on exec, or it would not have been.
func runtimes(fd int) bool {
	const anonInode = 0x09041934 // ANON_INODE_FS_MAGIC of magic.h
	var st unix.Statfs_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC != 0 && unix.Fstatfs(fd, &st) == nil && st.Type == anonInode
}
