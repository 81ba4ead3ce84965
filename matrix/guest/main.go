//go:build linux

// Command guest is the first process of a matrix machine. It mounts what a
// Linux system has, runs the commands of the job, reports on the second serial
// port and powers the machine off.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/matrix/job"
)

func main() {
	if os.Args[0] == noSeccomp {
		fmt.Fprintln(os.Stderr, "guest:", withoutSeccomp(os.Args))
		os.Exit(127)
	}
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(2)
	}
	runtime.LockOSThread() // the root is changed here, before other threads matter
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Fprintln(os.Stderr, "guest: power off:", err)
	}
	time.Sleep(time.Hour) // the end of the first process is a panic
}

// check makes sure that this is the first process of a matrix machine. It
// mounts /proc for that, but only as the first process.
func check() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("this is the first process of a test machine and nothing else")
	}
	if _, err := os.Stat(job.Path); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	args, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(args)), job.CmdlineMark) {
		return fmt.Errorf("the kernel was not started with %s", job.CmdlineMark)
	}
	return nil
}

// run does the job.
func run() error {
	text, err := os.ReadFile(job.Path)
	if err != nil {
		return err
	}
	var j job.Job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	if err := mount("devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	port, err := openPort("/dev/" + j.Port)
	if err != nil {
		return err
	}
	frames := job.NewWriter(port)
	if err := frames.Write(job.Frame{Kind: job.Hello, Text: release()}); err != nil {
		return err
	}
	note := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			frames.Write(job.Frame{Kind: job.Note, Text: err.Error()})
		}
	}
	if err := setUp(j, note); err != nil {
		note(err)
		return err
	}
	r := newRunner(frames, j)
	for i := range j.Commands {
		r.run(i)
		// What is known goes out before a later command can spoil the machine.
		if err := drain(port); err != nil {
			return err
		}
	}
	if err := frames.Write(job.Frame{Kind: job.Done}); err != nil {
		return err
	}
	return drain(port)
}

// openPort opens a serial port that passes every byte as it is.
func openPort(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(f.Fd()) // also makes writes wait for the port
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	t.Ispeed, t.Ospeed = unix.B115200, unix.B115200
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// drain waits until the port has sent everything. The runtime's own signals may
// interrupt it.
func drain(port *os.File) error {
	for {
		if err := unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// release is the kernel's release.
func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	text, _, _ := bytes.Cut(u.Release[:], []byte{0})
	return string(text)
}
