package glovebox

// SandboxOffUnsafeForNegativeControlsOnly leaves the named layers out of every
// cell of a Box made with these options. It exists in test code alone; no flag,
// exported field or variable reaches it. The names are those of
// internal/cellinit and internal/cell: root, landlock, seccomp, notify, cgroup,
// rlimits, privileges, dumpable, signals, close_range, hidepid, procmask, time,
// cgroup_ns, pid, net, ipc, uts, deadline, sample, nproc; and nosuid, recursive (mount flags),
// mountcheck (the outside witness of the mounts), judge (a trace lets everything through), environ, speculation, groups, links (of artifacts).
func SandboxOffUnsafeForNegativeControlsOnly(o Options, layers ...string) Options {
	o.controlOff = append(o.controlOff, layers...)
	return o
}
