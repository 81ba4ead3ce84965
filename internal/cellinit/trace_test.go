package cellinit

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
)

// The tracer's own machine says of every call what the policy says: each number, each value that a policy could
// compare with in each argument.
//
// proves part of H-19
func TestTraceJudge(t *testing.T) {
	arch, ok := seccomp.Host()
	if !ok {
		t.Fatal("no table for this machine")
	}
	audit := map[seccomp.Arch]uint32{seccomp.X86_64: unix.AUDIT_ARCH_X86_64, seccomp.Aarch64: unix.AUDIT_ARCH_AARCH64}[arch]
	p, err := seccomp.Load("language", seccomp.Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	programs, err := p.CompileTrace(arch, seccomp.LearnNothing, true)
	if err != nil {
		t.Fatal(err)
	}
	prog := instructions(seccomp.Encode(programs.Judge))
	if len(prog) != len(programs.Judge) || prog[3] != programs.Judge[3] {
		t.Fatal("the program is not read as it was written")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for nr := range 600 {
		for range 400 {
			var n seccompNotif
			n.Arch, n.NR = audit, int32(nr)
			for i := range n.Args {
				n.Args[i] = []uint64{0, uint64(random.IntN(64)), 1 << random.IntN(64), random.Uint64(), uint64(random.Uint32())}[random.IntN(5)]
			}
			want := uint32(seccomp.JudgeAllow)
			switch a := p.Action(arch, nr, n.Args); a.Kind {
			case seccomp.Refuse:
				want = seccomp.JudgeErrno | uint32(a.Errno)
			case seccomp.Kill:
				want = seccomp.JudgeKill
			}
			if got := judge(prog, &n); got != want {
				t.Fatalf("%s %#x: %#x, want %#x", seccomp.Name(arch, nr), n.Args, got, want)
			}
		}
	}
	foreign := seccompNotif{Arch: unix.AUDIT_ARCH_I386, NR: 20}
	if got := judge(prog, &foreign); got != judgeKill {
		t.Errorf("a foreign call: %#x", got)
	}
}

// A program that ends nowhere, jumps out of itself or has an instruction that the machine does not know ends the cell.
//
// proves part of H-19
func TestTraceJudgeFailsClosed(t *testing.T) {
	for name, prog := range map[string][]unix.SockFilter{
		"empty":   nil,
		"no end":  {{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}},
		"outside": {{Code: unix.BPF_JMP | unix.BPF_JA, K: 1 << 31}, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}},
		"around":  {{Code: unix.BPF_JMP | unix.BPF_JA, K: ^uint32(0)}, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}},
		"unknown": {{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K}, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}},
	} {
		if got := judge(prog, &seccompNotif{}); got != judgeKill {
			t.Errorf("%s: %#x", name, got)
		}
	}
}

// What the tracer writes is what cellproto reads: however many numbers a guest tries, at most so many kinds of calls,
// one of them for the rest, in a frame of bounded size, with nothing lost from the counts.
//
// proves part of H-19
func TestTraceReport(t *testing.T) {
	p := make([]int, 2)
	if err := unix.Pipe2(p, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	if _, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Fatal(err)
	}
	tr := &tracer{out: uintptr(p[1])}
	const numbers, each = 5000, 3
	tr.held = seccompNotif{Arch: unix.AUDIT_ARCH_X86_64, NR: unix.SYS_EXECVE}
	tr.count(unix.SECCOMP_RET_ALLOW)
	for range each {
		for nr := range numbers {
			tr.held.NR = int32(1000 + nr)
			tr.count(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
		}
	}
	tr.tell(true)
	typ, payload, err := cellproto.ReadFrame(fdReader(p[0]), 64<<10)
	if err != nil || typ != cellproto.TypeTraced {
		t.Fatal(typ, err)
	}
	got, err := cellproto.DecodeTraced(payload)
	if err != nil || !got.Final || len(got.Calls) != cellproto.MaxTraced {
		t.Fatalf("%v, final %v, %d kinds", err, got.Final, len(got.Calls))
	}
	sum := uint64(0)
	for _, c := range got.Calls {
		sum += c.Count
	}
	if want := uint64(1 + numbers*each); sum != want {
		t.Errorf("%d calls, want %d", sum, want)
	}
	if last := got.Calls[cellproto.MaxTraced-1]; last.Number != 1<<32-1 || last.Count < numbers {
		t.Errorf("the rest: %+v", last)
	}
	tr.held.NR = 1000
	tr.count(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)) // its fourth: a report is due
	tr.tell(false)
	if _, payload, err = cellproto.ReadFrame(fdReader(p[0]), 64<<10); err != nil {
		t.Fatal(err)
	}
	if got, err = cellproto.DecodeTraced(payload); err != nil || got.Final || len(got.Calls) != 1 || got.Calls[0].Count != 4 {
		t.Errorf("%v, %+v", err, got)
	}
}
