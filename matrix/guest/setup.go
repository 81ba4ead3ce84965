//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/matrix/job"
)

// setUp makes the initramfs a system that programs can run in. What fails
// without spoiling the rest is noted.
func setUp(j job.Job, note func(error)) error {
	for _, m := range j.Modules {
		note(loadModule(m))
	}
	if err := switchRoot(j); err != nil {
		return err
	}
	switch j.Cgroup {
	case "", "v2":
		if err := mount("cgroup2", cgroupRoot, "cgroup2", cgroupFlags, "nsdelegate,memory_recursiveprot"); err != nil {
			return err
		}
		note(enableControllers(cgroupRoot))
	case "v1", "hybrid":
		if err := mountV1(j.Cgroup == "hybrid", note); err != nil {
			return err
		}
	case "none":
	default:
		return fmt.Errorf("there is no cgroup mode %q", j.Cgroup)
	}
	if j.SwapMB > 0 {
		if err := addSwap(j.SwapMB); err != nil {
			return fmt.Errorf("swap: %w", err)
		}
	}
	note(unix.Sethostname([]byte("matrix")))
	note(loopbackUp())
	for name, value := range j.Sysctls {
		at := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if err := os.WriteFile(at, []byte(value), 0o644); err != nil {
			return fmt.Errorf("sysctl %s: %w", name, err)
		}
	}
	for _, c := range j.Commands {
		if err := addUser(c.UID); err != nil {
			return err
		}
	}
	return nil
}

// switchRoot makes the job's folder the root. It becomes a mount of its own,
// since pivot_root(2) and new user namespaces refuse the root that the kernel
// unpacked the initramfs into.
func switchRoot(j job.Job) error {
	const at = "/newroot"
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := mount(job.Root, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("/dev", at+"/dev", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move /dev: %w", err)
	}
	if err := unix.Unmount("/proc", 0); err != nil {
		return fmt.Errorf("unmount /proc: %w", err)
	}
	if err := unix.Chdir(at); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return mountAll(j)
}

// safe are the flags that a distribution mounts its system folders with.
const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountAll mounts the kernel's file systems and the volatile folders.
func mountAll(j job.Job) error {
	for _, m := range []struct {
		kind, at string
		flags    uintptr
		data     string
	}{
		{"proc", "/proc", safe, j.ProcOptions},
		{"sysfs", "/sys", safe, ""},
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666"},
		{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := mount(m.kind, m.at, m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// mount mounts kind at a folder and says in its error what and where.
func mount(what, at, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(what, at, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", what, at, err)
	}
	return nil
}

// loadModule loads a kernel module from the initramfs.
func loadModule(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}

// addSwap makes a compressed device in memory and swaps to it.
func addSwap(mb int) error {
	const device = "/dev/zram0"
	if err := os.WriteFile("/sys/block/zram0/disksize", []byte(strconv.Itoa(mb<<20)), 0o644); err != nil {
		return err
	}
	page := os.Getpagesize()
	head := make([]byte, page)
	order := func(at int, v uint32) {
		head[at], head[at+1], head[at+2], head[at+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
	order(1024, 1)                     // version
	order(1028, uint32(mb<<20/page-1)) // last page
	copy(head[page-10:], "SWAPSPACE2")
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(head, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return swapOn(device)
}

// loopbackUp brings the loopback device up, the only one that there is.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// home is the home directory of a user.
func home(uid int) string {
	if uid == 0 {
		return "/root"
	}
	return fmt.Sprintf("/home/u%d", uid)
}

// userName is the name of a user: the two that /etc/passwd of the tree has,
// and a made one for others.
func userName(uid int) string {
	switch uid {
	case 0:
		return "root"
	case 1000:
		return "user"
	}
	return fmt.Sprintf("u%d", uid)
}

// addUser makes a home directory, a runtime directory and an account.
func addUser(uid int) error {
	for dir, perm := range map[string]os.FileMode{home(uid): 0o700, fmt.Sprintf("/run/user/%d", uid): 0o700} {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, perm); err != nil {
			return err
		}
		if err := os.Chown(dir, uid, uid); err != nil {
			return err
		}
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil || strings.Contains(string(users), fmt.Sprintf(":x:%d:", uid)) {
		return err
	}
	f, err := os.OpenFile("/etc/passwd", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s:x:%d:%d::%s:/bin/sh\n", userName(uid), uid, uid, home(uid))
	return errors.Join(err, f.Close())
}
