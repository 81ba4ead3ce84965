package cell

import "slices"

// Loss is what becomes of a host that lacks a layer.
type Loss struct {
	// Layer is its name in the status.
	Layer string
	// Missing says on which hosts it does not hold.
	Missing string
	// Insisted says that [Require] refuses such a host. The two layers without it
	// are set where the host has them.
	Insisted bool
	// Runs says that [Auto] runs there all the same; where it does not, nothing can
	// be sealed or ended, and every mode refuses.
	Runs bool
	// Gone is what is then no longer stopped, and Bound what still bounds it. Both
	// are empty where nothing runs.
	Gone, Bound string
}

// Losses has a row for each layer of the status, in the order of the status.
func Losses() []Loss { return slices.Clone(losses) }

var losses = []Loss{
	{Layer: "namespaces", Insisted: true,
		Missing: "no user namespaces for this user: a kernel without them or with a limit of none, AppArmor's restriction, a container's filter"},
	{Layer: "root", Insisted: true, Missing: "a host that refuses mounts in a user namespace"},
	{Layer: "proc", Insisted: true, Missing: "a host whose own /proc is covered in part, as in Docker, so that the kernel lets nobody mount another"},
	{Layer: "landlock", Insisted: true, Runs: true,
		Missing: "Linux before 5.13, or a kernel built or booted without it",
		Gone:    "what lies in the cell's root and is open by its permissions is no longer refused by path: / can be listed, signals to init are no longer stopped by a domain",
		Bound:   "the root holds nothing of the host but read-only packages; namespaces, seccomp and permissions are as they were"},
	{Layer: "seccomp", Insisted: true, Runs: true,
		Missing: "a kernel without CONFIG_SECCOMP_FILTER, or an outer filter that answers ENOSYS",
		Gone:    "every system call of the kernel can be made: all of its surface, io_uring, keyrings, System V IPC and new user namespaces with capabilities in them among it, and no call ends a cell",
		Bound:   "no capability outside a namespace of the guest's own, no device, no path and no network of the host; a flaw of the kernel is the way out"},
	{Layer: "cgroup", Insisted: true, Runs: true,
		Missing: "no control group that this user may use, swap that groups do not count, or a kernel booted with cgroup.memory=nokmem",
		Gone:    "memory is no longer bounded by the kernel but sampled from /proc, so that a fast program can take more for a moment, and page cache, sockets and pipes do not count; neither the share of a processor nor the time of short-lived children is bounded; the kernel counts no memory, refused forks and kills",
		Bound:   "samples, one each 20 ms, end what is above its limit; RLIMIT_NPROC bounds processes; both wall clocks, RLIMIT_CPU for each process and the size of the cell's own file system hold. Where only swap is not counted, all but that holds"},
	{Layer: "rlimits", Insisted: true, Runs: true,
		Missing: "core dumps go to a program, and the inherited hard limit of cores is 0, which does not stop that and cannot be raised to the 1 that does",
		Gone:    "a crash starts the host's program for core dumps, with the guest's memory as its input",
		Bound:   "all other limits hold; the program is the host's own and was chosen by its owner"},
	{Layer: "privileges", Insisted: true, Missing: "a kernel that does not let a process give up its capabilities or ids"},
	{Layer: "self_test", Insisted: true, Missing: "a probe that was not refused, or a reading of the kernel that is not as it must be"},
	{Layer: "resource_probes", Insisted: true, Runs: true,
		Missing: "control groups without counters of processor time, tasks or kills, or none",
		Gone:    "nothing more than without control groups; figures that the kernel does not give are null in the result",
		Bound:   "the limits themselves, where there is a group"},
	{Layer: "termination", Insisted: true, Missing: "a cell that cannot be signalled or does not end"},
	{Layer: "time", Runs: true,
		Missing: "Linux before 6.3",
		Gone:    "the monotonic and boot clocks of a cell tell when the host was booted",
		Bound:   "a figure; no name, id or address is among it"},
	{Layer: "speculation", Runs: true,
		Missing: "a processor or kernel without one of the mitigations, or without core scheduling",
		Gone:    "programs of two cells, or of a cell and the host, may share a core with what speculation leaks there",
		Bound:   "the kernel's own mitigations; no secret belongs beside a stranger on one core"},
}
