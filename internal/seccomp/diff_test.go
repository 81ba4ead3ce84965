package seccomp

import (
	"fmt"
	"testing"
)

// interesting lists values around everything that a condition compares with: neighbours, single bits,
// every bit above the width, multiples of 4 GiB.
func interesting(c cond) []uint64 {
	base := append([]uint64{0, ^uint64(0), c.mask, ^c.mask}, c.values...)
	out := []uint64{1 << 32, 5 << 32, 1 << 63, 0xffffffff, 0x7fffffff, 0x80000000}
	for _, v := range base {
		out = append(out, v, v+1, v-1, v|0x10000)
		for bit := range 64 {
			if bit >= 32 || len(c.values) < 4 {
				out = append(out, v|1<<bit)
			}
		}
	}
	for bit := range 64 {
		out = append(out, 1<<bit, c.mask&^(1<<bit))
	}
	return out
}

// satisfying is a value that the condition accepts.
func satisfying(c cond) uint64 {
	switch c.op {
	case opIs:
		return c.values[0]
	case opAny:
		return c.mask & -c.mask
	case opNone:
		return ^c.mask & widthMask(c.width)
	case opOnly:
		return c.mask
	}
	return 0
}

// calls lists argument vectors for a row: each branch satisfied, then one argument at a time bent.
func calls(r *row) [][6]uint64 {
	seen := map[[6]uint64]bool{{}: true, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}: true}
	for _, b := range r.branches {
		var base [6]uint64
		for _, c := range b.conds {
			base[c.arg] = satisfying(c)
		}
		seen[base] = true
		for _, c := range b.conds {
			for _, v := range interesting(c) {
				bent := base
				bent[c.arg] = v
				seen[bent] = true
			}
		}
	}
	out := make([][6]uint64, 0, len(seen))
	for args := range seen {
		out = append(out, args)
	}
	return out
}

// numbers are all that any table has or may get, the x32 forms, and both ends of the range.
func numbers() []int {
	var out []int
	for n := range 1024 {
		out = append(out, n, n|x32Bit, n|0x80000000, n|0xc0000000)
	}
	return append(out, 1<<16, x32Bit-1, 0x7fffffff, 0xffffffff, 0xfffffffe)
}

// compare runs every number and every boundary call and reports up to limit disagreements.
func compare(t testing.TB, v variant, m *machine, limit int) []string {
	t.Helper()
	var wrong []string
	check := func(nr int, args [6]uint64) {
		want := value(v.policy.Action(v.arch, nr, args), v.notify)
		if got := m.run(t, v.arch.audit(), nr, args); got != want && len(wrong) < limit {
			wrong = append(wrong, fmt.Sprintf("%s: %s (%#x) %#x: program %#x, policy %#x",
				v.name, Name(v.arch, nr), nr, args, got, want))
		}
	}
	for _, nr := range numbers() {
		check(nr, [6]uint64{})
		check(nr, [6]uint64{1, 2, 3, 4, 5, 6})
	}
	for name, r := range v.policy.rows {
		if nr, ok := Number(v.arch, name); ok {
			for _, args := range calls(r) {
				check(nr, args)
			}
		}
	}
	return wrong
}

// The compiled program says what the policy says, for every number and around every boundary, with each
// bit above the kernel's width set.
//
// proves T-08 H-10
func TestProgramIsThePolicy(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.name, func(t *testing.T) {
			for _, w := range compare(t, v, compile(t, v.policy, v.arch, v.notify), 5) {
				t.Error(w)
			}
		})
	}
}

// Every test at every width, in branches that allow and that refuse, also those that no profile uses.
//
// proves H-10
func TestEveryTestAtEveryWidth(t *testing.T) {
	tests := []string{"is 1 0x8000", "mask 0x8006 is 2 0x8000", "only 0x8001", "any 0x8001", "none 0x8001"}
	wide := []string{"is 1 0x100000000 0x100000001", "mask 0xf0000000f is 0x100000001 2", "only 0x800000001",
		"any 0x800000001", "none 0x800000001", "any 0x800000000", "none 0x800000000", "only 0x800000000"}
	conds := []string{"arg0:ptr null"}
	for _, width := range []string{"u16", "u32", "u64"} {
		for _, test := range tests {
			conds = append(conds, "arg0:"+width+" "+test)
		}
	}
	for _, test := range wide {
		conds = append(conds, "arg0:u64 "+test)
	}
	for _, c := range conds {
		for _, branch := range []string{"allow ; else kill", "errno EPERM ; else allow"} {
			p := parsed(t, "read if "+c+" and arg5:u32 is 0 : "+branch+" # for the test")
			for _, a := range []Arch{X86_64, Aarch64} {
				v := variant{c + " : " + branch, p, a, false}
				for _, w := range append(compare(t, v, compile(t, p, a, false), 2),
					compare(t, v, newMachine(t, naive(p, a, false, false)), 2)...) {
					t.Error(w)
				}
			}
		}
	}
}

// The plain compiler agrees with the policy too, so the real one is right for two reasons.
//
// proves T-08
func TestPlainProgramIsThePolicy(t *testing.T) {
	for _, v := range variants(t) {
		for _, w := range compare(t, v, newMachine(t, naive(v.policy, v.arch, v.notify, false)), 5) {
			t.Error(w)
		}
	}
}

// Control: a compiler that looks at half of each register is found out, for each kind of rule.
//
// proves H-10
func TestHalfRegisterIsFoundOut(t *testing.T) {
	for _, v := range variants(t)[:2] {
		p := v.policy
		m := newMachine(t, naive(p, v.arch, v.notify, true))
		for _, name := range []string{"ioctl", "clone", "sendto", "prlimit64", "socketpair", "mknodat", "prctl"} {
			nr, _ := Number(v.arch, name)
			missed := true
			for _, args := range calls(p.rows[name]) {
				if m.run(t, v.arch.audit(), nr, args) != value(p.Action(v.arch, nr, args), v.notify) {
					missed = false
				}
			}
			if missed {
				t.Errorf("%s: a careless rule for %s passes", v.name, name)
			}
		}
	}
}

// Every entry of the machine but its own is of the kill class: all of i386, x32 and 32-bit ARM, and an
// unheard-of architecture.
//
// proves O-19
func TestForeignEntriesAreKilled(t *testing.T) {
	for _, v := range variants(t) {
		m := compile(t, v.policy, v.arch, v.notify)
		kill := value(Answer{Kind: Kill}, v.notify)
		for _, audit := range []uint32{auditI386, auditARM, auditAarch64, auditX86_64, 0, 0xffffffff, 0xc00000f3} {
			for nr := range 1024 {
				own := audit == v.arch.audit()
				if got := m.run(t, audit, nr, [6]uint64{}); !own && got != kill {
					t.Fatalf("%s: audit %#x, number %d answers %#x", v.name, audit, nr, got)
				}
				if v.arch == X86_64 && own {
					if got := m.run(t, audit, nr|x32Bit, [6]uint64{}); got != kill {
						t.Fatalf("%s: x32 number %d answers %#x", v.name, nr, got)
					}
				}
			}
		}
		// Control: the same number by the machine's own entry is not killed.
		nr, _ := Number(v.arch, "getpid")
		if got := m.run(t, v.arch.audit(), nr, [6]uint64{}); got != value(Answer{}, false) {
			t.Errorf("%s: getpid answers %#x", v.name, got)
		}
	}
	for _, a := range []Arch{I386, X32} {
		if got := load(t, "language", Options{}).Action(a, 20, [6]uint64{}); got.Kind != Kill {
			t.Errorf("%s: %v", a, got)
		}
	}
}

// With and without a listener the program differs in nothing but the answer of the kill class.
func TestListenerChangesOnlyTheKillClass(t *testing.T) {
	for _, v := range variants(t) {
		plain, err := v.policy.Compile(v.arch, false)
		if err != nil {
			t.Fatal(err)
		}
		told, err := v.policy.Compile(v.arch, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(plain) != len(told) {
			t.Fatalf("%s: %d and %d instructions", v.name, len(plain), len(told))
		}
		changed := 0
		for i := range plain {
			if plain[i] != told[i] {
				changed++
				want := plain[i]
				want.K = value(Answer{Kind: Kill}, true)
				if plain[i].K != value(Answer{Kind: Kill}, false) || told[i] != want {
					t.Errorf("%s: instruction %d: %v became %v", v.name, i, plain[i], told[i])
				}
			}
		}
		if changed == 0 {
			t.Errorf("%s: nothing is reported", v.name)
		}
	}
}
