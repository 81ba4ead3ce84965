package seccomp

// Action is what the policy says to call nr of the ABI with these arguments. It reads the rows one by one
// and shares nothing with the compiler, so that each can be tested against the other. For Aarch64 and
// X86_64 nr is the number as the kernel sees it, x32's bit 30 included; every call of I386 and X32 is of
// the kill class.
func (p *Policy) Action(a Arch, nr int, args [6]uint64) Answer {
	if a != X86_64 && a != Aarch64 {
		return Answer{Kind: Kill}
	}
	nr32 := uint32(nr)
	if a == X86_64 && nr32&x32Bit != 0 && nr32&0x80000000 == 0 {
		return Answer{Kind: Kill}
	}
	name := ""
	if nr32 < x32Bit {
		name = Name(a, int(nr32))
	}
	r, ok := p.rows[name]
	if !ok {
		return Answer{Kind: Refuse, Errno: enosys}
	}
	for _, b := range r.branches {
		if b.holds(args) {
			return b.answer.public()
		}
	}
	return r.last.public()
}

// public drops what only With needs, so that answers compare by what the caller sees.
func (a Answer) public() Answer { return Answer{Kind: a.Kind, Errno: a.Errno} }

func (b branch) holds(args [6]uint64) bool {
	for _, c := range b.conds {
		v := args[c.arg]
		low := v & widthMask(c.width)
		if b.answer.Kind == Allow && v != low {
			return false
		}
		if !c.matches(low) {
			return false
		}
	}
	return true
}

func (c cond) matches(v uint64) bool {
	switch c.op {
	case opOnly:
		return v&^c.mask == 0
	case opAny:
		return v&c.mask != 0
	case opNone:
		return v&c.mask == 0
	case opNull:
		return v == 0
	}
	for _, want := range c.values {
		if v&c.mask == want {
			return true
		}
	}
	return false
}
