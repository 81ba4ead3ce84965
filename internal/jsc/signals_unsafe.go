package jsc

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The engine stops threads with a signal when it collects, if there is more
// than one that has used it. Its handler would then run on the stack of
// whatever the thread does, a goroutine's small one too. Here one thread uses
// the engine, and it collects there, so the signal is never sent; and if it
// were, the process must end and not go on with a broken stack.
const gcSignal = unix.SIGUSR1

// lastSignal is the highest number that the kernel has.
const lastSignal = 64

// action is the kernel's struct for rt_sigaction, the same size everywhere here.
type action struct{ handler, flags, restorer, mask uint64 }

func getAction(signal uintptr) (a action, err error) {
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, signal, 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	if errno != 0 {
		return a, fmt.Errorf("jsc: signal %d: %w", signal, errno)
	}
	return a, nil
}

func setAction(signal uintptr, a action) error {
	if _, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&a)), 0, 8, 0, 0); errno != 0 {
		return fmt.Errorf("jsc: signal %d: %w", signal, errno)
	}
	return nil
}

// actions reads what the process does on each signal.
func actions() (all [lastSignal + 1]action, err error) {
	for n := uintptr(1); n <= lastSignal; n++ {
		if all[n], err = getAction(n); err != nil {
			return all, err
		}
	}
	return all, nil
}

// chooseSignal gives the engine a signal that nobody listens to. Go's own
// handler is taken away first, or the engine would complain on stderr.
func (e *Engine) chooseSignal() error {
	if err := setAction(uintptr(gcSignal), action{}); err != nil {
		return err
	}
	if e.fn.configureSignal != 0 && call(e.fn.configureSignal, uintptr(gcSignal))&0xff == 0 {
		return errors.New("jsc: the engine does not take the signal for its collector")
	}
	var err error
	e.before, err = actions()
	return err
}

// settleSignals is called once the engine has installed its handlers. One of
// another signal than the collector's is an error: it would stand in Go's way.
// The collector's is taken away, so that the signal ends the process.
func (e *Engine) settleSignals() error {
	after, err := actions()
	if err != nil {
		return err
	}
	for n := 1; n <= lastSignal; n++ {
		if n != int(gcSignal) && after[n] != e.before[n] {
			return fmt.Errorf("jsc: the engine has taken signal %d", n)
		}
	}
	if after[gcSignal] == e.before[gcSignal] {
		return fmt.Errorf("jsc: the engine does not use signal %d for its collector", gcSignal)
	}
	return setAction(uintptr(gcSignal), action{})
}
