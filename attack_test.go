package glovebox_test

import (
	enc "encoding/binary"
	"testing"

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
