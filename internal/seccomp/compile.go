package seccomp

import (
	"encoding/binary"
	"fmt"
	"sort"

	"golang.org/x/sys/unix"
)

// maxProgram is the kernel's limit on the instructions of one filter (BPF_MAXINSNS).
const maxProgram = 4096

// Offsets into struct seccomp_data. Both ABIs are little-endian, so an argument's low word comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// Compile turns the policy into a filter for X86_64 or Aarch64. With notify, calls of the kill class are
// held and reported to the listener (SECCOMP_RET_USER_NOTIF), who must end the cell; without it the kernel
// kills the process. Either way they never run. It returns an error for another ABI and for a program
// above the kernel's limit.
func (p *Policy) Compile(a Arch, notify bool) ([]unix.SockFilter, error) {
	b := &builder{memo: map[node]int{}, kill: unix.SECCOMP_RET_KILL_PROCESS}
	if notify {
		b.kill = unix.SECCOMP_RET_USER_NOTIF
	}
	return p.compile(a, b)
}

// compile makes the program with the answers of a new builder.
func (p *Policy) compile(a Arch, b *builder) ([]unix.SockFilter, error) {
	if a != X86_64 && a != Aarch64 {
		return nil, fmt.Errorf("seccomp: no filter for %s", a)
	}
	start := b.search(p.spans(a))
	kill := b.answer(Answer{Kind: Kill})
	if a == X86_64 {
		start = b.guardX32(start, kill)
	}
	start = b.load(offNumber, start)
	start = b.jump(unix.BPF_JEQ, a.audit(), start, kill)
	b.load(offArch, start)
	if len(b.rev) > maxProgram {
		return nil, fmt.Errorf("seccomp: %d instructions, the kernel takes %d", len(b.rev), maxProgram)
	}
	return b.program(), nil
}

// Encode lays a program out as the kernel reads it (struct sock_filter, little-endian, 8 bytes each), so
// that a process without this package can load it.
func Encode(prog []unix.SockFilter) []byte {
	out := make([]byte, 0, 8*len(prog))
	for _, in := range prog {
		out = binary.LittleEndian.AppendUint16(out, in.Code)
		out = append(out, in.Jt, in.Jf)
		out = binary.LittleEndian.AppendUint32(out, in.K)
	}
	return out
}

// span is a run of numbers with one answer, up to the start of the next span.
type span struct {
	from uint32
	row  *row
}

// spans cuts the number line: neighbours whose rows read the same share a span. Numbers without a row
// answer ENOSYS.
func (p *Policy) spans(a Arch) []span {
	unknown := &row{last: Answer{Kind: Refuse, Errno: enosys}}
	byNumber := map[uint32]*row{}
	numbers := []uint32{}
	for name, r := range p.rows {
		if n, ok := Number(a, name); ok {
			byNumber[uint32(n)] = r
			numbers = append(numbers, uint32(n))
		}
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	out := []span{{0, unknown}}
	add := func(from uint32, r *row) {
		last := &out[len(out)-1]
		switch {
		case last.from == from:
			last.row = r
		case sameAnswer(last.row, r):
			return
		default:
			out = append(out, span{from, r})
		}
	}
	for _, n := range numbers {
		add(n, byNumber[n])
		if byNumber[n+1] == nil {
			add(n+1, unknown)
		}
	}
	return out
}

// sameAnswer compares what the kernel is told; a denied errno and a plain one are the same to it.
func sameAnswer(a, b *row) bool {
	return len(a.branches) == 0 && len(b.branches) == 0 && a.last.public() == b.last.public()
}

// search makes a balanced tree of comparisons over the spans, with the number in the accumulator.
func (b *builder) search(s []span) int {
	if len(s) == 1 {
		return b.row(s[0].row)
	}
	mid := len(s) / 2
	high := b.search(s[mid:])
	low := b.search(s[:mid])
	return b.jump(unix.BPF_JGE, s[mid].from, high, low)
}

// guardX32 sends x32 calls (bit 30 without bit 31) to the kill answer. Numbers with bit 31 reach no table
// in the kernel, so they answer ENOSYS like any unknown one.
func (b *builder) guardX32(native, kill int) int {
	negative := b.jump(unix.BPF_JGE, 0x80000000, b.answer(Answer{Kind: Refuse, Errno: enosys}), kill)
	return b.jump(unix.BPF_JGE, x32Bit, negative, native)
}

func (b *builder) answer(a Answer) int {
	switch a.Kind {
	case Allow:
		return b.ret(unix.SECCOMP_RET_ALLOW)
	case Refuse:
		if b.refuse != 0 {
			return b.ret(b.refuse)
		}
		return b.ret(unix.SECCOMP_RET_ERRNO | uint32(a.Errno))
	case learnt:
		return b.ret(JudgeLearn)
	}
	return b.ret(b.kill)
}

// row makes the block that decides one call.
func (b *builder) row(r *row) int {
	next := b.answer(r.last)
	for i := len(r.branches) - 1; i >= 0; i-- {
		br := r.branches[i]
		yes := b.answer(br.answer)
		for j := len(br.conds) - 1; j >= 0; j-- {
			yes = b.cond(br.conds[j], br.answer.Kind == Allow, yes, next)
		}
		next = yes
	}
	return next
}

// cond makes one comparison. exact, for branches that allow, demands zero above the parameter's width.
func (b *builder) cond(c cond, exact bool, yes, no int) int {
	low := uint32(offArgs + 8*c.arg)
	if c.width == 64 {
		return b.wide(c, low, yes, no)
	}
	mask := uint32(c.mask)
	if c.op == opOnly {
		mask |= ^uint32(widthMask(c.width)) // what lies above a 16-bit parameter is not its business
	}
	start := b.load(low, b.word(c.op, mask, low32(c.values), yes, no))
	if !exact {
		return start
	}
	if c.width == 16 {
		start = b.load(low, b.jump(unix.BPF_JSET, 0xffff0000, no, start))
	}
	return b.load(low+4, b.jump(unix.BPF_JEQ, 0, start, no))
}

// word compares the 32 bits in the accumulator.
func (b *builder) word(o op, mask uint32, values []uint32, yes, no int) int {
	switch o {
	case opOnly:
		return b.bits(^mask, no, yes)
	case opAny:
		return b.bits(mask, yes, no)
	case opNone:
		return b.bits(mask, no, yes)
	}
	for i := len(values) - 1; i >= 0; i-- {
		no = b.jump(unix.BPF_JEQ, values[i], yes, no)
	}
	if mask != ^uint32(0) {
		no = b.and(mask, no)
	}
	return no
}

// bits goes to set if the accumulator has a bit of mask, else to clear.
func (b *builder) bits(mask uint32, set, clear int) int {
	if mask == 0 {
		return clear
	}
	return b.jump(unix.BPF_JSET, mask, set, clear)
}

// wide compares a 64-bit parameter, word by word.
func (b *builder) wide(c cond, low uint32, yes, no int) int {
	high := low + 4
	hi, lo := uint32(c.mask>>32), uint32(c.mask)
	switch c.op {
	case opNull:
		return b.load(high, b.jump(unix.BPF_JEQ, 0, b.load(low, b.jump(unix.BPF_JEQ, 0, yes, no)), no))
	case opOnly:
		return b.load(high, b.bits(^hi, no, b.load(low, b.bits(^lo, no, yes))))
	case opNone:
		yes, no = no, yes
		fallthrough
	case opAny:
		rest := b.load(low, b.bits(lo, yes, no))
		if hi == 0 {
			return rest
		}
		return b.load(high, b.bits(hi, yes, rest))
	}
	// Values that share a high word are tested together.
	byHigh := map[uint32][]uint32{}
	var highs []uint32
	for _, v := range c.values {
		h := uint32(v >> 32)
		if byHigh[h] == nil {
			highs = append(highs, h)
		}
		byHigh[h] = append(byHigh[h], uint32(v))
	}
	for i := len(highs) - 1; i >= 0; i-- {
		inner := b.load(low, b.word(opIs, lo, byHigh[highs[i]], yes, no))
		no = b.load(high, b.word(opIs, hi, []uint32{highs[i]}, inner, no))
	}
	return no
}

func low32(values []uint64) []uint32 {
	out := make([]uint32, len(values))
	for i, v := range values {
		out[i] = uint32(v)
	}
	return out
}
