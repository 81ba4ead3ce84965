package seccomp

import "golang.org/x/sys/unix"

// naive compiles a policy in the plainest way: one number after another, one test after another, nothing
// shared. It exists to be compared with the real compiler. With careless it forgets the upper half of every
// register, the mistake that a differential test has to find.
func naive(p *Policy, a Arch, notify, careless bool) []unix.SockFilter {
	n := &plain{careless: careless, kill: value(Answer{Kind: Kill}, notify)}
	n.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArch)
	n.skip(unix.BPF_JEQ, a.audit(), 1, 0)
	n.answer(Answer{Kind: Kill})
	if a == X86_64 {
		n.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offNumber)
		n.skip(unix.BPF_JSET, 0x80000000, 0, 1)
		n.answer(Answer{Kind: Refuse, Errno: enosys})
		n.skip(unix.BPF_JSET, 0x40000000, 0, 1)
		n.answer(Answer{Kind: Kill})
	}
	for _, name := range p.names() {
		nr, ok := Number(a, name)
		if !ok {
			continue
		}
		n.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offNumber)
		n.skip(unix.BPF_JEQ, uint32(nr), 1, 0)
		n.leave()
		r := p.rows[name]
		outer := n.exits
		n.exits = nil
		for _, b := range r.branches {
			for _, c := range b.conds {
				n.test(c, b.answer.Kind == Allow)
			}
			n.answer(b.answer)
			n.arrive()
		}
		n.answer(r.last)
		n.exits = outer
		n.arrive()
	}
	n.answer(Answer{Kind: Refuse, Errno: enosys})
	return n.prog
}

// plain appends instructions; exits are the jumps that wait for the end of the block they leave.
type plain struct {
	prog     []unix.SockFilter
	exits    []int
	kill     uint32
	careless bool
}

func (n *plain) op(code uint16, k uint32) {
	n.prog = append(n.prog, unix.SockFilter{Code: code, K: k})
}

func (n *plain) skip(cmp uint16, k uint32, yes, no uint8) {
	n.prog = append(n.prog, unix.SockFilter{Code: unix.BPF_JMP | cmp | unix.BPF_K, Jt: yes, Jf: no, K: k})
}

func (n *plain) leave() {
	n.exits = append(n.exits, len(n.prog))
	n.op(unix.BPF_JMP|unix.BPF_JA, 0)
}

func (n *plain) arrive() {
	for _, at := range n.exits {
		n.prog[at].K = uint32(len(n.prog) - at - 1)
	}
	n.exits = nil
}

func (n *plain) answer(a Answer) {
	v := value(a, false)
	if a.Kind == Kill {
		v = n.kill
	}
	n.op(unix.BPF_RET|unix.BPF_K, v)
}

func (n *plain) loadWord(arg, half int) {
	n.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, uint32(offArgs+8*arg+4*half))
}

// test falls through if the condition holds and leaves the branch if not.
func (n *plain) test(c cond, exact bool) {
	if exact && c.width < 64 && !n.careless {
		n.loadWord(c.arg, 1)
		n.skip(unix.BPF_JEQ, 0, 1, 0)
		n.leave()
		n.loadWord(c.arg, 0)
		n.skip(unix.BPF_JSET, ^uint32(widthMask(c.width)), 0, 1)
		n.leave()
	}
	wide := c.width == 64 && !n.careless
	switch c.op {
	case opNull:
		n.values(c.arg, wide, ^uint64(0), []uint64{0})
	case opIs:
		n.values(c.arg, wide, c.mask, c.values)
	case opOnly:
		n.clear(c.arg, wide, ^c.mask&widthMask(c.width))
	case opNone:
		n.clear(c.arg, wide, c.mask)
	case opAny:
		n.loadWord(c.arg, 0)
		n.skip(unix.BPF_JSET, uint32(c.mask), 3, 0)
		n.loadWord(c.arg, 1)
		n.skip(unix.BPF_JSET, uint32(c.mask>>32), 1, 0)
		n.leave()
	}
}

// clear demands that no bit of mask is set.
func (n *plain) clear(arg int, wide bool, mask uint64) {
	n.loadWord(arg, 0)
	n.skip(unix.BPF_JSET, uint32(mask), 0, 1)
	n.leave()
	if wide {
		n.loadWord(arg, 1)
		n.skip(unix.BPF_JSET, uint32(mask>>32), 0, 1)
		n.leave()
	}
}

// values demands one of the values after masking. Each value takes up to six instructions, and one that
// matches jumps to the end.
func (n *plain) values(arg int, wide bool, mask uint64, values []uint64) {
	var found []int
	for _, v := range values {
		if wide {
			n.loadWord(arg, 1)
			n.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, uint32(mask>>32))
			n.skip(unix.BPF_JEQ, uint32(v>>32), 0, 4)
		}
		n.loadWord(arg, 0)
		n.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, uint32(mask))
		n.skip(unix.BPF_JEQ, uint32(v), 0, 1)
		found = append(found, len(n.prog))
		n.op(unix.BPF_JMP|unix.BPF_JA, 0)
	}
	n.leave()
	for _, at := range found {
		n.prog[at].K = uint32(len(n.prog) - at - 1)
	}
}
