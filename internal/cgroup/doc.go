// Package cgroup gives every cell a control group of its own, with the limits
// already written before anything runs in it.
//
// The package works on cgroup v2, on cgroup v1 and on hosts that have both
// (hybrid: the controllers on v1 beside an empty v2 tree). It never moves,
// freezes, limits or kills a process that Glovebox did not start, and it makes
// directories only below one named "glovebox".
//
// # Life of a group
//
//	host, err := cgroup.Find()       // read only: what can this process use?
//	parent, err := host.Open()       // <ancestor>/glovebox/<instance>
//	group, err := parent.NewGroup()  // <instance>/<cell>, single use
//	err = group.SetLimits(limits)
//	files, err := group.EntryFiles() // how a process gets in, from birth
//	...
//	err = group.Remove()
//	err = parent.Close()
//
// # Where the groups go
//
// Find starts at the process's own group and walks up to the nearest one that
// can have children. On v1 that is any directory this process may write to, or
// one in which an administrator has made a "glovebox" directory that it may
// write to. On v2 the ancestor must also pass the memory and pids controllers
// (and cpu, if there is a choice) to its children: they are already in
// cgroup.subtree_control, or they can be put there because no process is a
// direct member of the ancestor. A group that the service manager has marked as
// delegated is a fence: what lies above it is used only if nothing below will do.
//
// One process may be moved on v2: this one. If its own group is the right place
// but has this process as its only member, Open moves the process (all its
// threads) into a leaf "glovebox-host" beside the cells, and Close moves it back.
//
// # How a process gets in
//
// A process is a member from birth; there is no moment at which it runs outside.
// On v2 the launcher clones into the directory descriptor (CLONE_INTO_CGROUP). On
// v1 a locked thread of the launcher writes "0" to each tasks descriptor and then
// forks: the child inherits the thread's groups.
//
// # Memory
//
// A sustained excess over the limit always ends in an OOM kill, which the counters
// show. A short spike that the kernel can absorb by dropping file pages of the
// cell is not an excess and is not reported as one; PeakBytes then equals the
// limit. Swap is never extra memory where the kernel can say so: see
// Host.SwapExtra for where it cannot.
package cgroup
