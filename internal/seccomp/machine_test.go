package seccomp

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// machine runs a filter outside the kernel.
type machine struct {
	vm *bpf.VM
	in [64]byte
}

func newMachine(t testing.TB, prog []unix.SockFilter) *machine {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(prog))
	for i, in := range prog {
		raw[i] = bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	list, whole := bpf.Disassemble(raw)
	if !whole {
		t.Fatal("the program has instructions that the interpreter does not know")
	}
	vm, err := bpf.NewVM(list)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{vm: vm}
}

// run gives the filter one call. The interpreter loads words big-endian, the kernel in host order, so each
// word is written big-endian at its little-endian place.
func (m *machine) run(t testing.TB, audit uint32, nr int, args [6]uint64) uint32 {
	t.Helper()
	word := func(at int, v uint32) { binary.BigEndian.PutUint32(m.in[at:], v) }
	word(offNumber, uint32(nr))
	word(offArch, audit)
	word(8, 0x55554444) // instruction pointer
	word(12, 0x7fff)
	for i, a := range args {
		word(offArgs+8*i, uint32(a))
		word(offArgs+8*i+4, uint32(a>>32))
	}
	got, err := m.vm.Run(m.in[:])
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// value is what the kernel is told for an answer.
func value(a Answer, notify bool) uint32 {
	switch {
	case a.Kind == Allow:
		return unix.SECCOMP_RET_ALLOW
	case a.Kind == Refuse:
		return unix.SECCOMP_RET_ERRNO | uint32(a.Errno)
	case notify:
		return unix.SECCOMP_RET_USER_NOTIF
	}
	return unix.SECCOMP_RET_KILL_PROCESS
}

// variant is one program that the package can make.
type variant struct {
	name   string
	policy *Policy
	arch   Arch
	notify bool
}

// variants are the programs that differ: a profile whose text equals that of one before it adds none.
func variants(t testing.TB) []variant {
	t.Helper()
	var out []variant
	seen := map[string]bool{}
	for _, profile := range []string{"language", "compile", "worker", "sealed"} {
		for _, loopback := range []bool{false, true} {
			if loopback && (profile == "worker" || profile == "sealed") {
				continue
			}
			p := load(t, profile, Options{Loopback: loopback})
			if seen[p.Hash()] {
				continue
			}
			seen[p.Hash()] = true
			name := profile
			if loopback {
				name += "+loopback"
			}
			for _, a := range []Arch{X86_64, Aarch64} {
				// One of each pair reports; TestListenerChangesOnlyTheKillClass covers the rest.
				out = append(out, variant{name + "/" + a.String(), p, a, loopback})
			}
		}
	}
	return out
}

func load(t testing.TB, profile string, opts Options) *Policy {
	t.Helper()
	p, err := Load(profile, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func compile(t testing.TB, p *Policy, a Arch, notify bool) *machine {
	t.Helper()
	prog, err := p.Compile(a, notify)
	if err != nil {
		t.Fatal(err)
	}
	return newMachine(t, prog)
}
