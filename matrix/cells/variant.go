//go:build linux

// Package cells is the matrix of machines that Glovebox is held to: a table of
// kernels, architectures, userlands and of what a host may lack. In each machine
// tests and attacks run, and what status, require and auto say of it must agree.
// A machine in which no test or no attack ran has failed.
package cells

// Variant is what is special about a machine.
type Variant struct {
	Name  string
	About string // in a few words

	Cgroup    string            // as in matrix.VM
	Cmdline   []string          // kernel arguments
	Sysctls   map[string]string // written before the first program
	Proc      string            // mount options of /proc
	Swap      bool              // a swap device
	MemoryMB  int               // 0: enough
	NoSeccomp bool              // seccomp is answered as by a kernel without
	User      bool              // everything runs as an ordinary user
	Delegated bool              // who has control groups of his own

	// Lacks are the layers that do not hold there, besides Landlock on a kernel
	// without; Refuses says that auto runs nothing either.
	Lacks   []string
	Refuses bool

	// UserLacks, if it is not empty, are the layers that do not hold for an
	// ordinary user of the same machine, for whom auto runs nothing.
	UserLacks []string
}

// Variants are all of them, by name.
func Variants() []Variant { return variants }

var variants = []Variant{
	{Name: "full", About: "all that the kernel has", Cgroup: "v2"},
	{Name: "no-landlock", About: "started without Landlock in lsm=", Cgroup: "v2", Cmdline: []string{"lsm=apparmor"}, Lacks: []string{"landlock"}},
	{Name: "no-userns", About: "user namespaces for root alone", Cgroup: "v2",
		Sysctls: map[string]string{"kernel.unprivileged_userns_clone": "0"}, UserLacks: []string{"namespaces"}},
	{Name: "no-seccomp", About: "seccomp is answered with ENOSYS", Cgroup: "v2", NoSeccomp: true, Lacks: []string{"seccomp"}},
	{Name: "hidepid", About: "an ordinary user, from whom /proc hides all other processes", Cgroup: "v2", Proc: "hidepid=2", User: true, Delegated: true},
	{Name: "cgroup-v1", About: "control groups of version 1", Cgroup: "v1"},
	{Name: "hybrid", About: "control groups of version 1, and an empty hierarchy of version 2", Cgroup: "hybrid"},
	{Name: "delegated", About: "an ordinary user with a group of version 2 of his own", Cgroup: "v2", User: true, Delegated: true},
	{Name: "user", About: "an ordinary user without groups of his own", Cgroup: "v2", User: true, Lacks: []string{"cgroup", "resource_probes"}},
	{Name: "no-cgroup", About: "no control groups are mounted", Cgroup: "none", Lacks: []string{"cgroup", "resource_probes"}},
	{Name: "small-swap", About: "little memory, and swap", Cgroup: "v2", Swap: true, MemoryMB: 640},
	{Name: "v1-swap", About: "little memory, swap, control groups of version 1", Cgroup: "v1", Swap: true, MemoryMB: 640},
	{Name: "v1-uncounted-swap", About: "swap that no group counts", Cgroup: "v1", Swap: true, Cmdline: []string{"swapaccount=0"}, Lacks: []string{"cgroup"}},
}

// find returns the variant of a name.
func find(name string) (Variant, bool) {
	for _, v := range variants {
		if v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}
