package seccomp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// class is a set of calls around one boundary of a row.
type class struct {
	label string
	calls [][6]uint64
	shown []string // how each call is written, nil if the label says it
}

// everywhere are the classes that every number is asked with, whatever its row says.
func everywhere() []class {
	all := func(v uint64) [6]uint64 { return [6]uint64{v, v, v, v, v, v} }
	out := []class{{"zero", [][6]uint64{{}}, nil}, {"1..6", [][6]uint64{{1, 2, 3, 4, 5, 6}}, nil}}
	for _, b := range []struct {
		name string
		v    uint64
	}{{"2^16", 1 << 16}, {"2^31", 1 << 31}, {"2^32-1", 1<<32 - 1}, {"2^32", 1 << 32}, {"2^63", 1 << 63}, {"ones", ^uint64(0)}} {
		out = append(out, class{b.name, [][6]uint64{all(b.v)}, nil})
	}
	return out
}

// bends are what is done to the value that a test looks at.
var bends = []struct {
	name string
	of   func(uint64) uint64
}{
	{"", func(v uint64) uint64 { return v }},
	{"+1", func(v uint64) uint64 { return v + 1 }},
	{"-1", func(v uint64) uint64 { return v - 1 }},
	{"|2^16", func(v uint64) uint64 { return v | 1<<16 }},
	{"|2^32", func(v uint64) uint64 { return v | 1<<32 }},
	{"|2^63", func(v uint64) uint64 { return v | 1<<63 }},
}

// edges are the values at which a test changes its mind.
func edges(c cond) []uint64 {
	outside := ^c.mask & widthMask(c.width)
	switch c.op {
	case opIs:
		return append(slices.Clone(c.values), c.values[0]|outside&-outside)
	case opNull:
		return []uint64{0}
	}
	return []uint64{0, c.mask, c.mask & -c.mask, outside, outside & -outside, c.mask | outside&-outside}
}

// around are the classes of a row with tests: each branch satisfied but for one argument, which takes every
// value that the test compares with and is then bent.
func around(r *row) []class {
	var out []class
	for i, b := range r.branches {
		var base [6]uint64
		for _, c := range b.conds {
			base[c.arg] = satisfying(c)
		}
		for _, c := range b.conds {
			for _, bend := range bends {
				cl := class{label: fmt.Sprintf("if%d arg%d%s", i+1, c.arg, bend.name)}
				for _, v := range edges(c) {
					call := base
					call[c.arg] = bend.of(v)
					cl.calls = append(cl.calls, call)
					cl.shown = append(cl.shown, fmt.Sprintf("%#x", v))
				}
				out = append(out, cl)
			}
		}
	}
	return out
}

// spoken is what a filter's value means, in the words of the policy.
func spoken(v uint32) string {
	switch v & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(v & unix.SECCOMP_RET_DATA))
	case unix.SECCOMP_RET_KILL_PROCESS:
		return "kill"
	}
	return fmt.Sprintf("%#x", v)
}

// line is what the program answers to one number: one word, or a word for each class if they differ.
func line(t *testing.T, m *machine, audit uint32, nr int, r *row) string {
	classes := everywhere()
	if r != nil {
		classes = append(classes, around(r)...)
	}
	var parts, open []string // open are the classes that end in the answer of the part before
	first, mixed := "", false
	for _, c := range classes {
		groups, order := map[string][]string{}, []string{}
		for i, args := range c.calls {
			answer := spoken(m.run(t, audit, nr, args))
			if groups[answer] == nil {
				order = append(order, answer)
			}
			shown := ""
			if c.shown != nil {
				shown = c.shown[i]
			}
			if !slices.Contains(groups[answer], shown) {
				groups[answer] = append(groups[answer], shown)
			}
			mixed = mixed || first != "" && first != answer
			first = answer
		}
		if len(order) == 1 {
			if n := len(parts); n > 0 && len(open) > 0 && strings.HasSuffix(parts[n-1], ": "+order[0]) {
				parts = parts[:n-1]
			} else {
				open = nil
			}
			open = append(open, c.label)
			parts = append(parts, strings.Join(open, ", ")+": "+order[0])
			continue
		}
		open = nil
		for _, answer := range order {
			parts = append(parts, c.label+" of "+strings.Join(groups[answer], " ")+": "+answer)
		}
	}
	if !mixed {
		return first
	}
	return strings.Join(parts, "; ")
}

// entry is one way into the kernel: a value of seccomp_data.arch, the bit that marks its numbers, its names.
type entry struct {
	name  string
	audit uint32
	bit   int
	table Arch
	named bool
}

func entries(a Arch) []entry {
	if a == Aarch64 {
		return []entry{{"aarch64", auditAarch64, 0, Aarch64, true}, {"arm (32 bit)", auditARM, 0, 0, false}}
	}
	return []entry{{"x86_64", auditX86_64, 0, X86_64, true}, {"i386", auditI386, 0, I386, true}, {"x32", auditX86_64, x32Bit, X32, true}}
}

// answers writes what a program says to every number of every entry. Numbers without a name that answer alike
// share a line.
func answers(t *testing.T, v variant) string {
	m := compile(t, v.policy, v.arch, v.notify)
	var b strings.Builder
	fmt.Fprintf(&b, "# The answers of %s, from the compiled program. See answers_test.go for the classes.\n", v.name)
	for _, e := range entries(v.arch) {
		fmt.Fprintf(&b, "\n[%s]\n", e.name)
		for nr := 0; nr < 1024; nr++ {
			name := ""
			if e.named {
				name = Name(e.table, nr)
			}
			var r *row
			if e.table == v.arch {
				r = v.policy.rows[name]
			}
			said := line(t, m, e.audit, nr|e.bit, r)
			if name != "" {
				fmt.Fprintf(&b, "%d\t%s\t%s\n", nr, name, said)
				continue
			}
			last := nr
			for last+1 < 1024 && (!e.named || Name(e.table, last+1) == "") && line(t, m, e.audit, (last+1)|e.bit, nil) == said {
				last++
			}
			fmt.Fprintf(&b, "%d-%d\t-\t%s\n", nr, last, said)
			nr = last
		}
		for _, nr := range []int{1 << 16, x32Bit - 1, 0x7fffffff, 0x80000000, 0xbfffffff, 0xc0000000, 0xffffffff} {
			if nr&e.bit != 0 {
				continue // the same number as one before
			}
			fmt.Fprintf(&b, "%#x\t-\t%s\n", nr|e.bit, line(t, m, e.audit, nr|e.bit, nil))
		}
	}
	return b.String()
}

// Every number of every entry, with boundary arguments, answers what the checked-in file says. The file comes
// from the program and not from the policy, so that it holds compiler and policy alike.
//
// proves T-08 O-19
// proves part of H-40
func TestGoldenAnswers(t *testing.T) {
	for _, v := range profiles(t) {
		t.Run(v.name, func(t *testing.T) { golden(t, "answers/"+v.name+".txt", answers(t, v)) })
	}
}
