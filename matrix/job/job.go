// Package job is what the host and the first process of a matrix machine tell
// each other: the host leaves a [Job] in the initramfs, the machine answers
// with [Frame] lines on its second serial port.
package job

import "time"

// Path is where the job lies in the initramfs.
const Path = "/job.json"

// Root is the folder of the initramfs that becomes the root of the programs.
const Root = "/sysroot"

// CmdlineMark is the kernel argument without which the guest refuses to act as
// the first process, so that starting it elsewhere by mistake does nothing.
const CmdlineMark = "glovebox.matrix=1"

// DefaultTimeout bounds a command that names no timeout.
const DefaultTimeout = 60 * time.Second

// Job is everything that the guest does before it powers the machine off.
type Job struct {
	// Port is the serial port that the machine reports on, such as ttyS1.
	Port string
	// Cgroup is how control groups are mounted: "v2", "v1", "hybrid" or
	// "none".
	Cgroup string
	// Modules are kernel modules in the initramfs, in loading order.
	Modules []string
	// SwapMB is the size of a compressed swap device in memory; 0 is none.
	SwapMB int
	// ProcOptions are mount options of /proc, such as "hidepid=2".
	ProcOptions string
	// Sysctls are written before the first command, by dotted name.
	Sysctls map[string]string
	// Commands run one after another.
	Commands []Command
}

// Command is one program to run in the machine.
type Command struct {
	Path string   // absolute, in the machine
	Args []string // without the program's own name
	Env  []string // added to PATH, HOME, USER, TMPDIR
	Dir  string   // the home directory when empty
	UID  int      // user and group to run as; 0 is root

	// Timeout ends the program's session; 0 is DefaultTimeout.
	Timeout time.Duration

	// Cgroup is the control group to start in, below every mounted hierarchy
	// and without a leading slash; empty is the root group.
	Cgroup string
	// Delegate is an ancestor of Cgroup that UID owns, with what is below, as
	// a service manager leaves it for a user's session.
	Delegate string

	// NoSeccomp makes seccomp(2) and prctl(PR_SET_SECCOMP) answer as on a
	// kernel that lacks them.
	NoSeccomp bool
}

// Limit is the program's timeout with the default filled in.
func (c Command) Limit() time.Duration {
	if c.Timeout <= 0 {
		return DefaultTimeout
	}
	return c.Timeout
}
