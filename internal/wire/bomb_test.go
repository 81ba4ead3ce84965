package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/big"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// The bounds of one refusal of hostile bytes.
const (
	bombTime  = 50 * time.Millisecond
	bombBytes = 64 << 20
	lateTime  = 250 * time.Millisecond // of a refusal at the end of 16 MiB
)

// measured runs f and returns the processor time and what it allocated in all.
// It is the thread's own time, since another program may be using the
// processor, and the least of up to three runs, since a page may be cold.
func measured(f func()) (took time.Duration, allocated int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took = time.Hour
	for i := 0; i < 3 && took > bombTime; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := threadTime()
		f()
		took = min(took, threadTime()-begin)
		runtime.ReadMemStats(&after)
		allocated = int(after.TotalAlloc - before.TotalAlloc)
	}
	return took, allocated
}

func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// repeat is the encoding of words that come again and again, n bytes in all.
func repeat(n int, heap string, words ...float64) []byte {
	var unit []byte
	for _, w := range words {
		unit = binary.LittleEndian.AppendUint64(unit, math.Float64bits(w))
	}
	unit = bytes.Repeat(unit, (n-16-len(heap))/len(unit))
	var b []byte
	for _, n := range []int{len(unit) / 8, 0, len(heap), 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return append(append(b, unit...), heap...)
}

// valueBombs are values of the largest size, made to cost much and be refused.
func valueBombs() map[string][]byte {
	const n = wire.MaxValue
	return map[string][]byte{
		"arrays":         repeat(n, "", 7, 1),
		"arrays of two":  repeat(n, "", 7, 2),
		"sets":           repeat(n, "", 10, 1),
		"map keys":       repeat(n, "", 9, 1),
		"map values":     repeat(n, "", 9, 1, 1),
		"objects":        lead(repeat(n, "k", 8, 0), 8, 0, 1, 1),
		"shapes":         repeat(n, "", 8, 0, 0),
		"lying arrays":   repeat(n, "", 7, 1<<20),
		"lying halves":   repeat(n, "", 7, 1<<19),
		"lying maps":     repeat(n, "", 9, 1<<19),
		"lying objects":  repeat(n, "", 8, 0, 1<<19),
		"zeros":          make([]byte, n),
		"undefined":      repeat(n, "", 0),
		"ones":           bytes.Repeat([]byte{1}, n),
		"0xff":           bytes.Repeat([]byte{0xff}, n),
		"wide in vain":   vain(n),
		"long heap":      append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0xff, 0}, make([]byte, n-12)...),
		"digits":         repeat(n, strings.Repeat("f", 1<<20), 5, 1<<20),
		"one big set":    lead(repeat(n, "", 1), 10, 1<<20+1),
		"one big object": lead(repeat(n, "", 1), 8, 0, 1<<20-1),
	}
}

// lead puts words in the place of the first ones of b.
func lead(b []byte, words ...float64) []byte {
	for i, w := range words {
		binary.LittleEndian.PutUint64(b[16+8*i:], math.Float64bits(w))
	}
	return b
}

// vain is a heap of UTF-16 that is all zeros.
func vain(n int) []byte {
	b := append(raw(nil, nil, 6, float64((n-32)/2)), make([]byte, (n-32)/2*2)...)
	binary.LittleEndian.PutUint32(b[4:], 1)
	binary.LittleEndian.PutUint32(b[8:], uint32((n-32)/2))
	return b
}

// part is a part of n under the race detector, for what is repeated often.
func part(n int) int { return n / int(slow()) }

// slow is how much longer everything takes under the race detector.
func slow() time.Duration {
	if raceEnabled {
		return 10
	}
	return 1
}

// A value of 16 MiB that nests, lies or repeats ends in a clean error within 50
// ms and 64 MiB.
//
// proves part of H-48 H-6 T-11
func TestValueBombs(t *testing.T) {
	for what, b := range valueBombs() {
		took, allocated := measured(func() {
			if _, err := wire.Decode(b, wire.Budget{}); !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrLimit) {
				t.Errorf("%s: %v", what, err)
			}
		})
		if took > slow()*bombTime || allocated > bombBytes {
			t.Errorf("%s: %v and %d MiB", what, took, allocated>>20)
		}
	}
}

// What turns out to be wrong at its very end was paid for until then: at most 8
// times its length, and a time that grows with it and with nothing else.
//
// proves part of B-12 H-48
func TestLateRefusal(t *testing.T) {
	n := part(900_000)
	for what, v := range map[string]any{
		"numbers": same(n, 0.1), "text": same(n, "ab"), "é": same(n, "é"), "arrays": same(n, []any{}), "sets": each(n/2, func(int) any { return &wire.Set{Values: []any{nil}} }),
		"objects": same(n/2, wide(1)), "records": records(), "one object": wide(part(700_000)), "long": strings.Repeat("é", part(15<<20)), "wide": strings.Repeat("日", part(7<<20)), "bytes": &wire.Bytes{Data: make([]byte, 15<<20)},
		"bigints": same(50, new(big.Int).Lsh(big.NewInt(1), 1<<20-1)),
	} {
		b := append(value(v), 0)
		binary.LittleEndian.PutUint32(b[12:], binary.LittleEndian.Uint32(b[12:])+1) // a byte too many
		took, allocated := measured(func() {
			if _, err := wire.Decode(b, wire.Budget{}); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s: %v", what, err)
			}
		})
		t.Logf("%s: %d MiB, %v, %d MiB", what, len(b)>>20, took, allocated>>20)
		if took > slow()*lateTime || allocated > wire.Amplification*len(b) {
			t.Errorf("%s of %d MiB: %v and %d MiB", what, len(b)>>20, took, allocated>>20)
		}
	}
}

// The same for the payloads of every type, which end in an error or in a message
// no larger than the payload.
//
// proves part of H-48 H-6 T-11
func TestMessageBombs(t *testing.T) {
	n := part(wire.MaxPayload)
	for what, fill := range map[string][]byte{"zeros": {0}, "ones": {1}, "open number": {0x80}, "0xff": {0xff}, "lists": {0x80, 0x08}, "text": {'a'}} {
		all := bytes.Repeat(fill, n/len(fill)+1)
		for _, row := range wire.TypeRows() {
			for _, lead := range [][]byte{nil, {1}, {0, 0, 0}, {1, 1, 0x80, 0x08}, make([]byte, 52)} {
				lead = lead[:min(len(lead), row.Max)]
				p := append(bytes.Clone(lead), all[:max(0, min(n, row.Max)-len(lead))]...)
				took, allocated := measured(func() {
					if _, err := wire.DecodePayload(row.Type, p); err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrVersion) {
						t.Errorf("%s, %s: %v", row.Name, what, err)
					}
				})
				if took > slow()*bombTime || allocated > bombBytes/2 {
					t.Errorf("%s, %s behind %x: %v and %d MiB", row.Name, what, lead, took, allocated>>20)
				}
			}
		}
	}
}

// Counts that lie inside each other are not believed: a value's elements all
// together are no more than its words. The control, a decoder that believes
// each, takes far more than 8 times the encoding.
//
// proves part of B-12
func TestLyingCounts(t *testing.T) {
	b := repeat(256<<10, "", 7, 16<<10)
	_, ours := measured(func() {
		if _, err := wire.Decode(b, wire.Budget{}); err == nil {
			t.Error("accepted")
		}
	})
	r := &reference{depth: 128, trusting: true}
	_, theirs := measured(func() {
		if _, err := r.decode(b); err == nil {
			t.Error("the reference accepts")
		}
	})
	if ours > 2*len(b) || theirs < 2*wire.Amplification*len(b) {
		t.Errorf("%d bytes: ours %d, the trusting one's %d", len(b), ours, theirs)
	}
}

// childStack bounds the stack of the child of TestDepth, in bytes.
const childStack = 32 << 20

// TestDepthChild decodes 16 MiB of nesting, and runs only as the child of
// TestDepth.
func TestDepthChild(t *testing.T) {
	b := repeat(wire.MaxValue, "", 7, 1)
	switch os.Getenv("WIRE_DEPTH_CHILD") {
	case "bounded":
		debug.SetMaxStack(childStack)
		if _, err := wire.Decode(b, wire.Budget{}); !errors.Is(err, wire.ErrLimit) {
			t.Errorf("%v", err)
		}
	case "boundless":
		debug.SetMaxStack(childStack)
		if _, err := (&reference{depth: math.MaxInt}).decode(b); err == nil {
			t.Error("accepted")
		}
	}
}

// In a child with little stack 16 MiB of nesting is an error; the control, a
// decoder without the bound on depth, overflows the stack, which nothing
// recovers from.
//
// proves part of H-48
func TestDepth(t *testing.T) {
	for mode, dies := range map[string]bool{"bounded": false, "boundless": true} {
		c := exec.Command(os.Args[0], "-test.run=^TestDepthChild$")
		c.Env = append(os.Environ(), "WIRE_DEPTH_CHILD="+mode)
		out, err := c.CombinedOutput()
		if died := err != nil && bytes.Contains(out, []byte("stack overflow")); died != dies || (err == nil) == dies {
			t.Errorf("%s: %v\n%.400s", mode, err, out)
		}
	}
}

// endless says a length and then sends little: it counts what is read of it.
type endless struct {
	head       []byte
	read, stop int
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.head) > 0 {
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	if e.read >= e.stop {
		return 0, io.EOF
	}
	n := min(len(p), e.stop-e.read)
	e.read += n
	return n, nil
}

// A length that lies costs its sender: the reader's buffer grows with what has
// come, not with what was promised.
//
// proves part of H-6 H-48 T-11
func TestLyingLength(t *testing.T) {
	for _, sent := range []int{0, 1, 1000, 1 << 20} {
		_, allocated := measured(func() {
			r := wire.NewReader(&endless{head: join(frame(hello(wire.Worker)), head(wire.TypeDone, wire.MaxPayload)), stop: sent}, wire.Worker)
			if _, err := r.Read(); err != nil {
				t.Error(err)
			}
			if _, err := r.Read(); err != io.ErrUnexpectedEOF {
				t.Errorf("%d bytes sent: %v", sent, err)
			}
		})
		if limit := 4*sent + 256<<10; allocated > limit {
			t.Errorf("%d bytes sent: %d allocated, more than %d", sent, allocated, limit)
		}
	}
}
