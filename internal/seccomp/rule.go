package seccomp

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is one of the three answers.
type Kind int

// The three answers of a policy.
const (
	Allow  Kind = iota // the kernel runs the call
	Refuse             // the call returns an errno
	Kill               // the cell ends

	learnt // of a trace alone: let through although the policy refuses it
)

// Answer is what the policy says to one call.
type Answer struct {
	Kind  Kind
	Errno unix.Errno // set for Refuse only

	denied bool // never to be lifted by With; the caller sees no difference
}

// String is "allow", "kill", or "errno" with the errno's name.
func (a Answer) String() string {
	switch a.Kind {
	case Allow:
		return "allow"
	case Kill:
		return "kill"
	case learnt:
		return "learnt"
	}
	return "errno " + unix.ErrnoName(a.Errno)
}

func (a Answer) canonical() string {
	if a.denied {
		return "denied " + unix.ErrnoName(a.Errno)
	}
	return a.String()
}

// row is what the policy says to one system call: the first branch whose conditions all hold decides,
// else last.
type row struct {
	name     string
	branches []branch
	last     Answer
	reason   string
}

type branch struct {
	conds  []cond
	answer Answer
}

// op is how a condition compares an argument.
type op int

const (
	opIs   op = iota // (argument & mask) is one of values
	opOnly           // no bit outside mask
	opAny            // at least one bit of mask
	opNone           // no bit of mask
	opNull           // a pointer that is wholly zero
)

// cond is one comparison. width is the kernel's width of the parameter in bits: 16, 32 or 64. In a branch
// that allows, bits above it must be zero; in a branch that refuses they do not matter, as they do not to
// the kernel.
type cond struct {
	arg    int
	width  int
	op     op
	mask   uint64
	values []uint64
}

func widthMask(bits int) uint64 { return ^uint64(0) >> (64 - bits) }

// alwaysDenied reports whether no branch of the row allows anything and the answer may not be lifted.
func (r *row) alwaysDenied() bool {
	for _, b := range r.branches {
		if b.answer.Kind == Allow {
			return false
		}
	}
	return r.last.Kind == Kill || r.last.denied
}

func (r *row) canonical() string {
	var b strings.Builder
	for _, br := range r.branches {
		b.WriteString("if ")
		for i, c := range br.conds {
			if i > 0 {
				b.WriteString(" and ")
			}
			b.WriteString(c.canonical())
		}
		fmt.Fprintf(&b, " : %s ; ", br.answer.canonical())
	}
	if len(r.branches) > 0 {
		b.WriteString("else ")
	}
	b.WriteString(r.last.canonical())
	return b.String()
}

func (c cond) canonical() string {
	if c.op == opNull {
		return fmt.Sprintf("arg%d:ptr null", c.arg)
	}
	s := fmt.Sprintf("arg%d:u%d ", c.arg, c.width)
	switch c.op {
	case opOnly:
		return s + fmt.Sprintf("only %#x", c.mask)
	case opAny:
		return s + fmt.Sprintf("any %#x", c.mask)
	case opNone:
		return s + fmt.Sprintf("none %#x", c.mask)
	}
	if c.mask != widthMask(c.width) {
		s += fmt.Sprintf("mask %#x ", c.mask)
	}
	s += "is"
	for _, v := range c.values {
		s += fmt.Sprintf(" %#x", v)
	}
	return s
}
