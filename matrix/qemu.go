//go:build linux

package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// KVMVariable is the environment variable that, when it is "1", makes machines
// use KVM. It is not used for its mere presence: there are virtual hosts where
// /dev/kvm opens and then runs nothing.
const KVMVariable = "GLOVEBOX_MATRIX_KVM"

// maxConsole is how much of a console is kept, the end of it.
const maxConsole = 1 << 20

// boot runs the machine until it is off, ctx ends, or it is silent for longer
// than the Boot time at its start. It hands the frames of the second serial
// port to collect and returns what came from the first.
func (vm VM) boot(ctx context.Context, initrd string, collect func(io.Reader, func()) error) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(vm.Boot, func() {
		cancel(fmt.Errorf("the guest did not answer in %v", vm.Boot))
	})
	defer watchdog.Stop()

	consoleR, consoleW, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer consoleR.Close()
	framesR, framesW, err := os.Pipe()
	if err != nil {
		consoleW.Close()
		return "", err
	}
	defer framesR.Close()

	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, vm.board().emulator, vm.arguments(initrd)...)
	cmd.Stderr = &complaints
	cmd.WaitDelay = 5 * time.Second
	cmd.ExtraFiles = []*os.File{consoleW, framesW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	console := &ring{max: maxConsole}
	var readers sync.WaitGroup
	readers.Go(func() { io.Copy(console, consoleR) })
	var collected error
	readers.Go(func() {
		collected = collect(framesR, func() { watchdog.Stop() })
		io.Copy(io.Discard, framesR) // the machine must not block on its way off
	})
	err = runLocked(cmd, consoleW, framesW)
	readers.Wait()
	switch {
	case ctx.Err() != nil && collected != nil:
		return console.String(), fmt.Errorf("%w; then %w", context.Cause(ctx), collected)
	case err != nil && collected != nil:
		return console.String(), fmt.Errorf("%s: %w: %s", vm.board().emulator, err, lastLines(complaints.String(), 4))
	}
	return console.String(), collected
}

// runLocked runs cmd on a thread that lives as long as cmd does, since the
// death of the thread that started a process is what PDEATHSIG looks at. It
// closes the caller's copies of the files that cmd got.
func runLocked(cmd *exec.Cmd, given ...*os.File) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		for _, f := range given {
			err = errors.Join(err, f.Close())
		}
		if cmd.Process != nil {
			err = errors.Join(err, cmd.Wait())
		}
		result <- err
	}()
	return <-result
}

// arguments are QEMU's. The machine has a processor, memory and two serial
// ports, and neither a disk nor a network.
func (vm VM) arguments(initrd string) []string {
	// One thread: with one for each processor QEMU does not see in time that another
	// processor has patched the kernel, which then ends with "Oops: int3".
	accel := "tcg,thread=single"
	if os.Getenv(KVMVariable) == "1" {
		accel = "kvm"
	}
	b := vm.board()
	return append([]string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-net", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-machine", b.machine, "-accel", accel, "-cpu", b.cpu, "-smp", vm.cpus(),
		"-m", fmt.Sprintf("%dM", vm.memoryMB()),
		"-kernel", vm.Kernel.Image, "-initrd", initrd, "-append", vm.cmdline(),
		"-add-fd", "fd=3,set=1", "-chardev", "file,id=console,path=/dev/fdset/1,append=on", "-serial", "chardev:console",
		"-add-fd", "fd=4,set=2", "-chardev", "file,id=frames,path=/dev/fdset/2,append=on",
	}, b.frames...)
}

// ring keeps the last max bytes, and up to as many before them.
type ring struct {
	max int
	buf []byte
}

func (r *ring) Write(p []byte) (int, error) {
	r.buf = append(r.buf, p...)
	if len(r.buf) > 2*r.max {
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-r.max:]...)
	}
	return len(p), nil
}

func (r *ring) String() string { return string(r.buf) }
