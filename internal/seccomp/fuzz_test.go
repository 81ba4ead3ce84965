package seccomp

import "testing"

// FuzzCompile makes a policy of any text that parses and any call, and asks the compiler, the plain
// compiler and the policy.
func FuzzCompile(f *testing.F) {
	f.Add("ioctl if arg1:u32 any 1 : kill ; if arg1:u32 none 2 : allow ; else errno ENOTTY # x", uint32(16), uint64(0), uint64(3), uint64(0), uint64(0))
	f.Add("read if arg0:u16 only 7 and arg1:ptr null : allow ; else kill # x", uint32(0), uint64(1<<16), uint64(0), uint64(0), uint64(0))
	f.Add("mmap if arg0:u64 mask ~1 is 0x100000002 2 4 : allow ; if arg1:u64 any 0x100000000 : kill ; else allow # x",
		uint32(9), uint64(1<<32|3), uint64(1<<32), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, text string, nr uint32, a0, a1, a2, a3 uint64) {
		parser := newParser(func(string) ([]byte, error) { return nil, ErrUnknownProfile })
		if len(text) > 2000 || parser.parse("fuzz", text) != nil {
			return
		}
		p, err := newPolicy(parser.rows)
		if err != nil {
			t.Fatal(err)
		}
		args := [6]uint64{a0, a1, a2, a3, a0 ^ a1, a2 &^ a3}
		for _, a := range []Arch{X86_64, Aarch64} {
			prog, err := p.Compile(a, false)
			if err != nil {
				continue // larger than the kernel takes
			}
			fast, slow := newMachine(t, prog), newMachine(t, naive(p, a, false, false))
			try := []int{int(nr)}
			for name := range p.rows {
				if n, ok := Number(a, name); ok {
					try = append(try, n)
				}
			}
			for _, n := range try {
				want := value(p.Action(a, n, args), false)
				got, plain := fast.run(t, a.audit(), n, args), slow.run(t, a.audit(), n, args)
				if got != want || plain != want {
					t.Fatalf("%s %d %#x: compiled %#x, plain %#x, policy %#x\n%s", a, n, args, got, plain, want, p)
				}
			}
		}
	})
}

// FuzzCall asks the compiled profiles and their policies about any call.
func FuzzCall(f *testing.F) {
	all := variants(f)
	machines := make([]*machine, len(all))
	for i, v := range all {
		machines[i] = compile(f, v.policy, v.arch, v.notify)
	}
	f.Add(uint32(16), uint64(0), uint64(0x5412|1<<32), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(56), uint64(0x10000011), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(44), uint64(3), uint64(1), uint64(1), uint64(0x4000), uint64(1<<32), uint64(16))
	f.Add(uint32(0x40000000|101), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, nr uint32, a0, a1, a2, a3, a4, a5 uint64) {
		args := [6]uint64{a0, a1, a2, a3, a4, a5}
		for i, v := range all {
			want := value(v.policy.Action(v.arch, int(nr), args), v.notify)
			if got := machines[i].run(t, v.arch.audit(), int(nr), args); got != want {
				t.Errorf("%s %d %#x: program %#x, policy %#x", v.name, nr, args, got, want)
			}
		}
	})
}

// BenchmarkCompile is the whole way from the embedded text to the program.
func BenchmarkCompile(b *testing.B) {
	for range b.N {
		p, err := Load("language", Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Compile(X86_64, true); err != nil {
			b.Fatal(err)
		}
	}
}

// Programs stay far below the kernel's limit, and the figures in the package comment stay true.
func TestSize(t *testing.T) {
	for _, v := range variants(t) {
		prog, err := v.policy.Compile(v.arch, v.notify)
		if err != nil {
			t.Fatal(err)
		}
		if len(prog) > 600 {
			t.Errorf("%s: %d instructions", v.name, len(prog))
		}
		if raw := Encode(prog); len(raw) != 8*len(prog) || raw[0] != byte(prog[0].Code) || raw[4] != byte(prog[0].K) {
			t.Errorf("%s: encoded as % x …", v.name, raw[:8])
		}
		t.Logf("%s: %d instructions, %d plain, %d spans", v.name, len(prog),
			len(naive(v.policy, v.arch, v.notify, false)), len(v.policy.spans(v.arch)))
	}
}
