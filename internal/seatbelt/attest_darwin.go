package seatbelt

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Held is what the probes need from before the profile: a descriptor with a
// path, and the registry of drivers. The zero value has neither.
type Held struct {
	fd    int
	iokit *registry
}

// Hold gets it. Call it before Apply.
func Hold() (*Held, error) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("seatbelt: /dev/null: %w", err)
	}
	iokit, err := loadRegistry()
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Held{fd, iokit}, nil
}

// Attest tries each probe in the process that Apply has confined. The error joins
// those that were not refused, and those of which nobody knows: only EPERM and
// EACCES are refusals, an accident such as ENOENT is none.
func (h *Held) Attest() error {
	defer unix.Close(h.fd)
	var errs []error
	for _, p := range Probes() {
		switch err := attempts[p](h); {
		case err == nil:
			errs = append(errs, fmt.Errorf("seatbelt: %v: %s", p, p.What()))
		case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
			errs = append(errs, fmt.Errorf("seatbelt: %v: %w, which is no refusal", p, err))
		}
	}
	return errors.Join(errs...)
}

// attempts have one for each probe; nil is success. None leaves anything behind
// but what a breach makes, which is removed at once.
var attempts = [probes]func(*Held) error{
	ReadFile:       func(*Held) error { return opened("/private/etc/hosts", unix.O_RDONLY) },
	WriteFile:      writeFile,
	Exec:           exec,
	Connect:        socket,
	ProcessInfo:    func(*Held) error { return processInfo() },
	ProcessArgs:    func(*Held) error { _, err := unix.SysctlRaw("kern.procargs2", os.Getppid()); return err },
	Sysctl:         func(*Held) error { _, err := unix.Sysctl("kern.hostname"); return err },
	HostUUID:       func(*Held) error { return hostUUID() },
	IOKitUUID:      func(h *Held) error { return h.iokit.platformUUID() },
	SysVSemaphores: func(*Held) error { return made(unix.SYS_SEMGET, unix.SYS_SEMCTL, 1) },
	SysVMemory:     func(*Held) error { return made(unix.SYS_SHMGET, unix.SYS_SHMCTL, 4096) },
	SysVQueues:     func(*Held) error { return made(unix.SYS_MSGGET, unix.SYS_MSGCTL, 0) },
	GetPath:        func(h *Held) error { return getPath(h.fd) },
}

func opened(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func writeFile(*Held) error {
	name := fmt.Sprintf("/private/tmp/glovebox-probe-%d", os.Getpid())
	err := opened(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err == nil {
		_ = unix.Unlink(name)
	}
	return err
}

// exec tries to replace the process: if it works, the worker is gone and has
// said nothing.
func exec(*Held) error { return unix.Exec("/usr/bin/true", []string{"true"}, nil) }

func socket(*Held) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// made makes something of System V and removes it. Queues have one argument less.
func made(get, control, size uintptr) error {
	const private, mode, remove = 0, 0o600, 0
	args := [3]uintptr{private, size, mode}
	if get == unix.SYS_MSGGET {
		args = [3]uintptr{private, mode, 0}
	}
	id, _, errno := unix.Syscall(get, args[0], args[1], args[2])
	if errno != 0 {
		return errno
	}
	if control == unix.SYS_SEMCTL {
		unix.Syscall(control, id, 0, remove)
	} else {
		unix.Syscall(control, id, remove, 0)
	}
	return nil
}
