// Package matrix boots real Debian kernels under QEMU and runs programs inside.
//
// Control groups, Landlock and the rest of what a cell is made of differ from
// kernel to kernel, and a developer's machine has just one. This package gets
// a kernel package through a private apt directory, packs the programs under
// test into an initramfs, boots the two without a network or a disk, and hands
// back what every program printed and how it ended:
//
//	k, err := matrix.Fetch(ctx, "6.1", "amd64")
//	vm := matrix.VM{Kernel: k, Cgroup: "v2", Files: matrix.NewTree()}
//	vm.Files.AddFile("/opt/cgroup.test", "/tmp/cgroup.test")
//	out, err := vm.Run(ctx, []matrix.Command{{Path: "/opt/cgroup.test"}})
//
// KVM is not needed: a cloud kernel boots in about two seconds when its
// processor is emulated. What is dangerous to a host runs in such a machine and
// nowhere else.
//
// The package needs apt-get, dpkg-deb, QEMU and the Go toolchain.
package matrix
