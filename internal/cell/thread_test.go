package cell

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// endThreads has so many threads end, by goroutines that exit while locked.
func endThreads(n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(runtime.LockOSThread)
	}
	all.Wait()
}

var errKilled = errors.New("killed with its thread")

// childOfThread starts a child from a thread that then ends, and tells how the
// child ended.
func childOfThread() error {
	cmd := exec.Command("/bin/sleep", "20")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
	}()
	if err := <-started; err != nil {
		return err
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return errKilled
	}
	return err
}
