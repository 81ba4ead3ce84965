package seccomp

import "golang.org/x/sys/unix"

// far is the longest conditional jump that BPF can encode.
const far = 255

// node is an instruction with absolute targets; equal nodes are one instruction.
type node struct {
	code   uint16
	k      uint32
	yes    int
	no     int
	target int
}

// builder writes a program from its end to its start. BPF only jumps forward, so every target exists
// before the instruction that jumps to it. A position counts instructions from the end; an instruction at
// position p continues at p-1.
type builder struct {
	rev  []unix.SockFilter // rev[p] is the instruction at position p
	memo map[node]int      // where a node was written last
	kill uint32            // what answers the kill class
	// refuse answers every refusal in the place of its errno, unless it is 0.
	refuse uint32
}

func (b *builder) emit(n node, in unix.SockFilter) int {
	b.rev = append(b.rev, in)
	b.memo[n] = len(b.rev) - 1
	return len(b.rev) - 1
}

// known finds an equal instruction that a conditional jump written next, or after one stub, can reach.
func (b *builder) known(n node) (int, bool) {
	p, ok := b.memo[n]
	return p, ok && len(b.rev)-p < far
}

func (b *builder) ret(value uint32) int {
	n := node{code: unix.BPF_RET | unix.BPF_K, k: value}
	if p, ok := b.known(n); ok {
		return p
	}
	return b.emit(n, unix.SockFilter{Code: n.code, K: value})
}

func (b *builder) load(offset uint32, next int) int {
	return b.straight(node{code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, k: offset, target: next})
}

func (b *builder) and(mask uint32, next int) int {
	return b.straight(node{code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, k: mask, target: next})
}

// straight writes an instruction that always continues at n.target.
func (b *builder) straight(n node) int {
	if p, ok := b.known(n); ok {
		return p
	}
	if n.target != len(b.rev)-1 {
		b.hop(n.target)
	}
	return b.emit(n, unix.SockFilter{Code: n.code, K: n.k})
}

// hop writes an unconditional jump, whose distance is not limited. A return is copied instead, which is as
// short and saves a step.
func (b *builder) hop(target int) int {
	in := b.rev[target]
	if in.Code == unix.BPF_RET|unix.BPF_K {
		return b.emit(node{code: in.Code, k: in.K}, in)
	}
	n := node{code: unix.BPF_JMP | unix.BPF_JA, target: target}
	return b.emit(n, unix.SockFilter{Code: n.code, K: uint32(len(b.rev) - 1 - target)})
}

// jump writes a conditional jump; a target out of reach gets a stub beside it.
func (b *builder) jump(cmp uint16, k uint32, yes, no int) int {
	if yes == no {
		return yes
	}
	n := node{code: unix.BPF_JMP | cmp | unix.BPF_K, k: k, yes: yes, no: no}
	if p, ok := b.known(n); ok {
		return p
	}
	// The second stub moves the first target one further away, hence the margin.
	if len(b.rev)-1-yes > far-1 {
		yes = b.hop(yes)
	}
	if len(b.rev)-1-no > far-1 {
		no = b.hop(no)
	}
	return b.emit(n, unix.SockFilter{
		Code: n.code, K: k,
		Jt: uint8(len(b.rev) - 1 - yes), Jf: uint8(len(b.rev) - 1 - no),
	})
}

// program turns the instructions round.
func (b *builder) program() []unix.SockFilter {
	out := make([]unix.SockFilter, len(b.rev))
	for i, in := range b.rev {
		out[len(out)-1-i] = in
	}
	return out
}
