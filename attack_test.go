package glovebox_test

import (
	enc "encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// attackCrowd is two hundred processes that want the processor, a page or more
// of each to be freed when they end.
const attackCrowd = surviveC + `int main(){
	for(int i=0;i<200;i++) if(!fork()){
		char*p=mmap(0,MIB,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); fill(p,1,MIB);
		for(;;) getppid();
	}
	for(;;) getppid();}`

// A crowd with a small share of the processor ends in time too: what dies does
// not wait for a share of its own.
//
// proves part of X-03
func TestAttackCrowdOnASmallShare(t *testing.T) {
	for range 3 {
		p := limited(cProgram(t, attackCrowd), glovebox.Limits{WallMS: 1000, CPUPercent: 5, Pids: 300, MemoryBytes: 400 << 20})
		wantEnd(t, "crowd", timely(t, box(t), p), "timeout wall")
	}
}

// interpreterAt is a program whose interpreter's name should lie at an offset
// of the file.
func interpreterAt(offset uint64) []byte {
	le := enc.LittleEndian
	b := make([]byte, 64+56) // one file header, one program header
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 2)  // executable
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], 3) // PT_INTERP
	le.PutUint64(b[72:], offset)
	le.PutUint64(b[96:], 20)
	return b
}

// A program that ends before its interpreter's name cannot be run, which is its
// own fault and no failure of Glovebox.
//
// proves part of X-04
func TestAttackProgramCutShort(t *testing.T) {
	wantEnd(t, "cut short", anyway(t, box(t), binary(interpreterAt(1<<20))), "error 126")
}

// softLimit lowers one soft limit of this process until the returned function
// is called.
func softLimit(t *testing.T, what int, to uint64) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(0, what, nil, &old); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Prlimit(0, what, &l, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: min(to, old.Max), Max: old.Max})
	return func() { set(old) }
}

// attackTimers makes timers until the kernel refuses one.
const attackTimers = wallC + `
#include <time.h>
int main(){
	timer_t t; int n = 0;
	while (n < 5000 && !timer_create(CLOCK_MONOTONIC, 0, &t)) n++;
	printf("timers %d\n", n); ready(); return 0;}`

// Signals and timers that a cell queues are counted against the user of the
// host program too; the cells of two Boxes that each take all they get leave
// one another, and him, enough of a limit that a small machine has.
//
// proves part of H-24
func TestAttackPendingSignals(t *testing.T) {
	restore := softLimit(t, unix.RLIMIT_SIGPENDING, 1500)
	defer restore()
	prog := cProgram(t, attackTimers)
	first, second := pause(t, newBox(t, options()), prog), pause(t, newBox(t, options()), prog)
	a, b := first.release().Stdout, second.release().Stdout
	if a != b || !strings.HasPrefix(a, "timers 1") {
		t.Errorf("two cells: %q and %q", a, b)
	}
}
