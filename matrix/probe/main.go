//go:build linux

// Command probe prints what the running kernel has of the things that a cell
// is made of, as a JSON object of strings. An argument is the folder of a
// cgroup hierarchy in which it may make a group for a moment.
//
// A system call is asked for with arguments that it must refuse or that change
// nothing; only the answer ENOSYS, or EINVAL to a flag, says that it is not
// there.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// facts are the answers by name.
type facts map[string]string

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		return
	}
	f := facts{}
	f.self()
	f.calls()
	f.flags()
	f.security()
	f.namespaces()
	if len(os.Args) > 1 {
		f.cgroup(os.Args[1])
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}

// self tells as whom and where the probe runs.
func (f facts) self() {
	f["uid"] = strconv.Itoa(os.Getuid())
	text, _ := os.ReadFile("/proc/self/cgroup") // an old kernel has none before a mount
	f["own cgroup"] = strings.TrimSpace(string(text))
	_, err := os.Stat("/proc/1")
	f["process 1 seen"] = yes(err == nil)
}

// yes turns a finding into a word.
func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// badFD is a descriptor that is never open.
const badFD = ^uintptr(0)

// calls asks for whole system calls.
func (f facts) calls() {
	for name, call := range map[string][4]uintptr{
		"mount_setattr":    {unix.SYS_MOUNT_SETATTR, badFD, 0, 0},
		"openat2":          {unix.SYS_OPENAT2, badFD, 0, 0},
		"clone3":           {unix.SYS_CLONE3, 0, 0, 0},
		"open_tree":        {unix.SYS_OPEN_TREE, badFD, 0, 0},
		"fsopen":           {unix.SYS_FSOPEN, 0, 0, 0},
		"pidfd_open":       {unix.SYS_PIDFD_OPEN, badFD, 0, 0},
		"pidfd_getfd":      {unix.SYS_PIDFD_GETFD, badFD, badFD, 0},
		"close_range":      {unix.SYS_CLOSE_RANGE, 0xffffffff, 0xffffffff, 0},
		"faccessat2":       {unix.SYS_FACCESSAT2, badFD, 0, 0},
		"process_mrelease": {unix.SYS_PROCESS_MRELEASE, badFD, 0, 0},
		"memfd_secret":     {unix.SYS_MEMFD_SECRET, 0xffffffff, 0, 0},
		"io_uring_setup":   {unix.SYS_IO_URING_SETUP, 0, 0, 0},
		"statmount":        {unix.SYS_STATMOUNT, 0, 0, 0},
		"mseal":            {unix.SYS_MSEAL, 0, 0, 0},
	} {
		_, _, errno := unix.Syscall6(call[0], call[1], call[2], call[3], 0, 0, 0)
		f["call "+name] = yes(errno != unix.ENOSYS)
	}
}

// flags asks for flags of system calls that are older than the flag.
func (f facts) flags() {
	_, _, errno := unix.Syscall(unix.SYS_CLOSE_RANGE, 0xffffffff, 0xffffffff, unix.CLOSE_RANGE_CLOEXEC)
	f["CLOSE_RANGE_CLOEXEC"] = yes(errno == 0)
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	f["MFD_NOEXEC_SEAL"] = yes(err == nil)
	if err == nil {
		unix.Close(fd)
	}
	f["vm.memfd_noexec"] = sysctl("vm/memfd_noexec")
	_, err = unix.PrctlRetInt(unix.PR_GET_MDWE, 0, 0, 0, 0)
	f["PR_SET_MDWE"] = yes(err == nil)
}

// security asks for Landlock and seccomp.
func (f facts) security() {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	f["landlock ABI"] = strconv.Itoa(int(abi))
	if errno != 0 {
		f["landlock ABI"] = "none (" + unix.ErrnoName(errno) + ")"
	}
	// A filter at no address is refused with EFAULT when its flags are known.
	for name, flags := range map[string]uintptr{
		"seccomp filter":        0,
		"seccomp user notify":   unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		"seccomp wait killable": unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
	} {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
		f[name] = yes(errno == unix.EFAULT)
	}
	f["unprivileged_userns_clone"] = sysctl("kernel/unprivileged_userns_clone")
	f["unprivileged_bpf_disabled"] = sysctl("kernel/unprivileged_bpf_disabled")
	f["io_uring_disabled"] = sysctl("kernel/io_uring_disabled")
	f["yama ptrace_scope"] = sysctl("kernel/yama/ptrace_scope")
}

// sysctl is a kernel setting.
func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(text))
}

// childArgument makes the probe do nothing, as its own child.
const childArgument = "-child"

// spawn starts the probe as a child with these attributes.
func spawn(attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/proc/self/exe", childArgument)
	cmd.SysProcAttr = attr
	return cmd.Run()
}

// namespaces makes each kind for a child, as the user that the probe runs as.
func (f facts) namespaces() {
	me, group := os.Getuid(), os.Getgid()
	for name, flag := range map[string]uintptr{
		"mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		f["namespace "+name] = yes(spawn(&syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | flag,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: me, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: group, Size: 1}},
		}) == nil)
	}
	_, err := os.Stat("/proc/self/ns/time")
	f["time namespace"] = yes(err == nil)
}

// cgroup looks at the files of a new group. Root does it where the hierarchy
// begins, which passes its controllers on.
func (f facts) cgroup(root string) {
	group := filepath.Join(root, "probe")
	if err := os.Mkdir(group, 0o755); err != nil {
		f["cgroup"] = err.Error()
		return
	}
	defer os.Remove(group)
	for _, name := range []string{
		"cgroup.kill", "cgroup.freeze", "cgroup.pressure", "memory.max", "memory.peak", "memory.reclaim", "memory.oom.group",
		"memory.swap.max", "memory.zswap.max", "pids.max", "pids.peak", "cpu.max", "cpu.stat", "io.max",
		"memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
	} {
		_, err := os.Stat(filepath.Join(group, name))
		f["cgroup "+name] = yes(err == nil)
	}
	f["cgroup memory.peak reset"] = yes(resettable(filepath.Join(group, "memory.peak")))
	dir, err := os.Open(group)
	if err != nil {
		f["cgroup"] = err.Error()
		return
	}
	defer dir.Close()
	f["CLONE_INTO_CGROUP"] = yes(spawn(&syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}) == nil)
}

// resettable says whether a high-water mark can be set back.
func resettable(name string) bool {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_, err = file.WriteString("reset")
	return errors.Join(err, file.Close()) == nil
}
