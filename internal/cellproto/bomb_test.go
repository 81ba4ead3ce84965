package cellproto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// The bounds of one reading of hostile bytes.
const (
	bombTime  = 50 * time.Millisecond
	bombBytes = 64 << 20
)

// measured runs f and returns the processor time and what it allocated in all.
// It is the thread's own time, since another program may be using the
// processor, and the least of up to three runs, since a page may be cold.
func measured(f func()) (took time.Duration, allocated uint64) {
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
		allocated = after.TotalAlloc - before.TotalAlloc
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

// bombs are frames of the largest size, made to cost as much as they can.
func bombs() map[string][]byte {
	count := binary.AppendUvarint(nil, 1<<16)
	all := map[string][]byte{
		"zeros":       make([]byte, cellproto.MaxFrame),
		"ones":        bytes.Repeat([]byte{1}, cellproto.MaxFrame),
		"open number": bytes.Repeat([]byte{0x80}, cellproto.MaxFrame),
		"0xff":        bytes.Repeat([]byte{0xff}, cellproto.MaxFrame),
		"lists":       bytes.Repeat(count, cellproto.MaxFrame/len(count)),
	}
	// The longest list that is allowed, of the shortest elements, in each place
	// where the first lists of the frames are.
	for _, head := range []int{0, 1, 3} {
		p := append(make([]byte, head), count...)
		all["list after "+string(rune('0'+head))] = append(p, make([]byte, cellproto.MaxFrame-len(p))...)
		// One of as many elements as there are bytes.
		p = binary.AppendUvarint(make([]byte, head), cellproto.MaxFrame-16)
		all["too long a list after "+string(rune('0'+head))] = append(p, make([]byte, cellproto.MaxFrame-len(p))...)
	}
	// A string that says it is longer than what there is, after a list that fits.
	lie := binary.AppendUvarint([]byte{1}, 1<<62)
	all["lying length"] = append(lie, make([]byte, cellproto.MaxFrame-len(lie))...)
	return all
}

// A frame of 16 MiB that lies or repeats ends in a clean error, or in a value no
// larger than the frame, within 50 ms and 64 MiB.
//
// proves part of H-48
func TestDecodeBombs(t *testing.T) {
	slow := time.Duration(1)
	if raceEnabled {
		slow = 10 // the detector's own price
	}
	for what, p := range bombs() {
		for name, decode := range decoders {
			took, allocated := measured(func() {
				if _, _, err := decode(p); err != nil && !errors.Is(err, cellproto.ErrMalformed) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			})
			if took > slow*bombTime || allocated > bombBytes {
				t.Errorf("%s, %s: %v and %d MiB", name, what, took, allocated>>20)
			}
		}
	}
}

// endless says a length and then nothing more: it counts what is read of it.
type endless struct {
	head []byte
	read int
	stop int
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
// proves part of H-6 H-48
func TestReadFrameLyingLength(t *testing.T) {
	for _, sent := range []int{0, 1, 1000, 1 << 20} {
		_, allocated := measured(func() {
			e := &endless{head: []byte{0x00, 0xff, 0xff, 0xff, 3}, stop: sent} // says 16 MiB - 1
			if _, _, err := cellproto.ReadFrame(e, cellproto.MaxFrame); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes sent: %v", sent, err)
			}
		})
		if limit := uint64(8*sent + 256<<10); allocated > limit {
			t.Errorf("%d bytes sent: %d allocated, more than %d", sent, allocated, limit)
		}
	}
	for _, head := range [][]byte{{0xff, 0xff, 0xff, 0xff, 1}, {0x80, 0, 0, 0, 1}, {0, 1, 0, 1, 1}} {
		e := &endless{head: head, stop: 1 << 30}
		if _, _, err := cellproto.ReadFrame(e, 64<<10); !errors.Is(err, cellproto.ErrMalformed) || e.read > 0 {
			t.Errorf("header %x: %v after %d bytes", head, err, e.read)
		}
	}
}

// A control: without the bound on lists the same frame would take more memory
// than the bound allows, so the bound is what the test above sees.
func TestDecodeBombsControl(t *testing.T) {
	_, allocated := measured(func() {
		ops := make([]cellproto.Op, 0, 1024)
		for range cellproto.MaxFrame / 16 { // a sixteenth of what fits is enough
			ops = append(ops, cellproto.Op{})
		}
		runtime.KeepAlive(ops)
	})
	if allocated <= bombBytes {
		t.Errorf("one element a byte takes %d MiB only: the bombs are too small", allocated>>20)
	}
}
