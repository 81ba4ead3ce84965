package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

func frame(messages ...wire.Message) (b []byte) {
	for _, m := range messages {
		var err error
		if b, err = wire.AppendFrame(b, m); err != nil {
			panic(err)
		}
	}
	return b
}

// head is the header of a frame that says n bytes of payload.
func head(kind wire.Type, n int) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(n+1)), byte(kind))
}

func hello(from wire.Side) wire.Message {
	if from == wire.Host {
		return &wire.HostHello{Version: wire.Version}
	}
	return &wire.WorkerHello{Version: wire.Version, Mode: "full"}
}

// from returns good messages of one side, its hello first.
func from(side wire.Side) (all []wire.Message) {
	all = append(all, hello(side))
	for _, row := range wire.TypeRows() {
		if row.From == side && row.Type != all[0].Type() {
			all = append(all, typeCases[row.Name].good...)
		}
	}
	return all
}

// Every message of each side goes through Writer and Reader, in one piece, byte
// by byte, and in halves.
func TestReadWhatIsWritten(t *testing.T) {
	for _, side := range []wire.Side{wire.Host, wire.Worker} {
		for name, slow := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader} {
			var b bytes.Buffer
			w := wire.NewWriter(&b)
			for _, m := range from(side) {
				if err := w.Write(m); err != nil {
					t.Fatal(err)
				}
			}
			size := uint64(b.Len())
			r := wire.NewReader(slow(&b), side)
			for _, m := range from(side) {
				if got, err := r.Read(); err != nil || !cmp.Equal(got, m) {
					t.Fatalf("%v, %s: %v\n%s", side, name, err, cmp.Diff(got, m))
				}
			}
			if m, err := r.Read(); err != io.EOF {
				t.Errorf("%v, %s: %v and %v behind the last frame", side, name, m, err)
			}
			if frames, n := r.Count(); frames != uint64(len(from(side))) || n != size {
				t.Errorf("%v, %s: %d frames and %d bytes counted", side, name, frames, n)
			}
		}
	}
}

// Each hostile stream ends in the error that it should, and stays ended; the
// same stream without its fault does not.
func TestHostileStreams(t *testing.T) {
	greet := frame(hello(wire.Worker))
	done := frame(&wire.Done{Value: value(1.0)})
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"nothing":                {nil, io.EOF},
		"half a header":          {greet[:3], io.ErrUnexpectedEOF},
		"half a hello":           {greet[:len(greet)-1], io.ErrUnexpectedEOF},
		"no hello":               {done, wire.ErrMalformed},
		"hello twice":            {join(greet, greet), wire.ErrMalformed},
		"hello of a host":        {frame(hello(wire.Host)), wire.ErrMalformed},
		"another version":        {join(head(wire.TypeWorkerHello, 1), 2), wire.ErrVersion},
		"a host's frame":         {join(greet, frame(&wire.Close{})), wire.ErrMalformed},
		"type 0":                 {join(greet, head(0, 0)), wire.ErrMalformed},
		"type 255":               {join(greet, head(255, 0)), wire.ErrMalformed},
		"length 0":               {join(greet, head(wire.TypeDone, -1)), wire.ErrMalformed},
		"more than a frame":      {join(greet, head(wire.TypeDone, wire.MaxFrame)), wire.ErrMalformed},
		"length 2^32-1":          {join(greet, head(wire.TypeDone, 1<<32-2)), wire.ErrMalformed},
		"more than its type may": {join(greet, head(wire.TypeFatal, 64<<10+1)), wire.ErrMalformed},
		"half a frame":           {join(greet, done[:len(done)-1]), io.ErrUnexpectedEOF},
		"only a header":          {join(greet, done[:5]), io.ErrUnexpectedEOF},
		"trailing byte":          {join(greet, head(wire.TypeDone, len(done)-4), done[5:], []byte{0}), wire.ErrMalformed},
		"control":                {join(greet, done), nil},
	} {
		r := wire.NewReader(bytes.NewReader(c.stream), wire.Worker)
		var err error
		for range 2 {
			if _, e := r.Read(); e != nil && err == nil {
				err = e
			}
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, again := r.Read(); err != nil && !errors.Is(again, err) {
			t.Errorf("%s: after %v comes %v", name, err, again)
		}
	}
}

// A limit that a caller has set refuses a frame before its payload is read, and
// cannot be made larger.
func TestReaderLimit(t *testing.T) {
	greet, call := frame(hello(wire.Worker)), frame(&wire.Call{Args: value(strings.Repeat("x", 1000))})
	for limit, want := range map[int]error{len(call) - 6: wire.ErrMalformed, len(call) - 5: nil, 0: wire.ErrMalformed, -1: wire.ErrMalformed, 1 << 40: nil} {
		r := wire.NewReader(bytes.NewReader(join(greet, call)), wire.Worker)
		r.Limit(wire.TypeCall, limit)
		if _, err := r.Read(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(); !errors.Is(err, want) {
			t.Errorf("limit %d: %v, want %v", limit, err, want)
		}
	}
	r := wire.NewReader(bytes.NewReader(join(greet, head(wire.TypeFatal, 64<<10+1))), wire.Worker)
	r.Limit(wire.TypeFatal, 1<<20)
	r.Limit(wire.TypeBind, 1<<20)
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a limit was made larger: %v", err)
	}
}

// full is a writer that fails after some bytes.
type full struct{ room, calls int }

func (f *full) Write(p []byte) (int, error) {
	f.calls++
	if n := min(len(p), f.room); n < len(p) {
		return n, io.ErrShortWrite
	}
	f.room -= len(p)
	return len(p), nil
}

// One frame is one call of Write. After half a frame nothing more is written;
// after a message that cannot be encoded the next one is.
func TestWriterStops(t *testing.T) {
	f := &full{room: 100}
	w := wire.NewWriter(f)
	for _, m := range []wire.Message{&wire.Fatal{Kind: "BAD"}, &wire.Answer{}} {
		if err := w.Write(m); err == nil || f.calls != 0 {
			t.Errorf("%T: %v after %d calls", m, err, f.calls)
		}
	}
	for i, want := range []error{nil, io.ErrShortWrite, io.ErrShortWrite} {
		if err := w.Write(&wire.Console{Level: 1, Text: []string{strings.Repeat("x", 60)}}); err != want || f.calls != min(i+1, 2) {
			t.Errorf("write %d: %v after %d calls", i, err, f.calls)
		}
	}
}

// FuzzFrame reads arbitrary bytes as what either side sends. What is read is
// what was there.
//
// proves part of T-13
func FuzzFrame(f *testing.F) {
	for _, side := range []wire.Side{wire.Host, wire.Worker} {
		f.Add(frame(from(side)...))
		for _, m := range from(side) {
			f.Add(frame(hello(side), m))
		}
	}
	f.Add(head(wire.TypeWorkerHello, 1<<32-2))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, side := range []wire.Side{wire.Host, wire.Worker} {
			r := wire.NewReader(bytes.NewReader(b), side)
			for at := 0; ; {
				m, err := r.Read()
				if err != nil {
					if !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrVersion) && err != io.EOF && err != io.ErrUnexpectedEOF {
						t.Fatal(err)
					}
					break
				}
				again := frame(m)
				if !bytes.HasPrefix(b[at:], again) {
					t.Fatalf("%T at %d became %x", m, at, again)
				}
				at += len(again)
			}
		}
	})
}
