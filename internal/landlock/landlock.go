// Package landlock names the rights of Landlock and makes rulesets of them: a
// thin layer over three system calls, see landlock(7) and linux/landlock.h.
//
// Which rights a kernel can refuse is told by its ABI version alone. [Handled]
// gives all of them, so that nothing is silently left out; a right that a
// ruleset handles is refused wherever no rule allows it.
package landlock

import "golang.org/x/sys/unix"

// Rights on files, with the ABI version that brought them where it is not 1.
const (
	Execute uint64 = 1 << iota
	WriteFile
	ReadFile
	ReadDir
	RemoveDir
	RemoveFile
	MakeChar
	MakeDir
	MakeReg
	MakeSock
	MakeFifo
	MakeBlock
	MakeSym
	Refer    // 2
	Truncate // 3
	IoctlDev // 5
)

// OfFiles are the rights that a rule about something else than a directory can have.
const OfFiles = Execute | WriteFile | ReadFile | Truncate | IoctlDev

// Rights on the network, ABI 4.
const (
	BindTCP uint64 = 1 << iota
	ConnectTCP
)

// Scopes, ABI 6: what ends at the edge of a domain.
const (
	ScopeAbstractUnix uint64 = 1 << iota
	ScopeSignal
)

// since are the rights on files by the version that brought them.
var since = []struct {
	abi    int
	rights uint64
}{{1, MakeSym<<1 - 1}, {2, Refer}, {3, Truncate}, {5, IoctlDev}}

// ABI asks the kernel for the newest version that it knows; 0 means none.
func ABI() int {
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	if errno != 0 {
		return 0
	}
	return int(r)
}

// Handled are the rights on files that a kernel of this version can refuse.
func Handled(abi int) uint64 {
	var all uint64
	for _, s := range since {
		if abi >= s.abi {
			all |= s.rights
		}
	}
	return all
}

// HandledNet are the rights on the network.
func HandledNet(abi int) uint64 {
	if abi < 4 {
		return 0
	}
	return BindTCP | ConnectTCP
}

// Scopes are the scopes.
func Scopes(abi int) uint64 {
	if abi < 6 {
		return 0
	}
	return ScopeAbstractUnix | ScopeSignal
}
