package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"sync"
)

// headerLen is the length of a frame's header: four bytes of little-endian
// length of what follows, then the type.
const headerLen = 5

// keep is how large a buffer may be, in bytes, that outlives its frame.
const keep = 64 << 10

// step is how much of a frame is believed before any of it has come.
const step = 64 << 10

// AppendFrame appends the whole frame of a message to b.
func AppendFrame(b []byte, m Message) ([]byte, error) {
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(m.Type()))
	b, err := AppendPayload(b, m)
	if err != nil {
		return b[:at], err
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b, nil
}

// Writer writes frames, each with one call of Write. Several goroutines may use
// it. Deadlines are those of w; after an error of w nothing more is written,
// since half a frame may be on its way.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one message. What cannot be encoded is an error of this message
// alone.
func (w *Writer) Write(m Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	b, err := AppendFrame(w.buf[:0], m)
	if cap(b) <= keep {
		w.buf = b
	}
	if err != nil {
		return err
	}
	_, w.err = w.w.Write(b)
	return w.err
}

// Reader reads the frames of the other side. One goroutine at a time may use
// it. After an error it reads nothing more.
type Reader struct {
	r     *bufio.Reader
	from  Side
	max   [256]int // bytes of payload of each type, -1: no such type
	greet bool     // the peer has said its version
	buf   []byte
	err   error

	frames, bytes uint64
}

// NewReader returns a reader of what the side from sends. Deadlines are those
// of r.
func NewReader(r io.Reader, from Side) *Reader {
	z := &Reader{r: bufio.NewReaderSize(r, 16<<10), from: from}
	for i := range z.max {
		z.max[i] = -1
		if t := rowOf[i]; t != nil && t.From == from {
			z.max[i] = t.Max
		}
	}
	return z
}

// Limit makes the longest payload of a type smaller than it is by itself, in
// bytes; it never makes it larger. Read refuses a longer frame before any of
// it is held.
func (r *Reader) Limit(t Type, payload int) { r.max[t] = min(r.max[t], max(payload, 0)) }

// Count returns how many whole frames were read, and their bytes.
func (r *Reader) Count() (frames, bytes uint64) { return r.frames, r.bytes }

// Read returns the next message. Its values are valid until the next call. The
// first frame must be the hello of a peer of this version, and no other may.
//
// io.EOF is an end between two frames, io.ErrUnexpectedEOF one inside a frame;
// ErrMalformed, ErrVersion and errors of the reader below are the others.
func (r *Reader) Read() (Message, error) {
	if r.err != nil {
		return nil, r.err
	}
	m, err := r.next()
	r.err = err
	return m, err
}

func (r *Reader) next() (Message, error) {
	t, n, err := r.header()
	if err != nil {
		return nil, err
	}
	if hello := t == TypeHostHello || t == TypeWorkerHello; hello == r.greet {
		return nil, malformed("type %d out of turn", t)
	}
	p, err := r.payload(n)
	if err != nil {
		return nil, err
	}
	m, err := DecodePayload(t, p)
	if err != nil {
		return nil, err
	}
	r.greet = true
	r.frames++
	r.bytes += uint64(headerLen + n)
	return m, nil
}

func (r *Reader) header() (Type, int, error) {
	h, err := r.r.Peek(headerLen)
	if err != nil {
		if err == io.EOF && len(h) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, 0, err
	}
	t, n := Type(h[4]), binary.LittleEndian.Uint32(h)
	switch limit := r.max[t]; {
	case limit < 0:
		return 0, 0, malformed("type %d from a %s", t, r.from)
	case n < 1 || uint64(n)-1 > uint64(limit):
		return 0, 0, malformed("%s of length %d, limit %d", rowOf[t].Name, n, limit+1)
	}
	_, err = r.r.Discard(headerLen)
	return t, int(n) - 1, err
}

// payload reads n bytes. Its buffer grows with what has come, so that a length
// that lies costs its sender.
func (r *Reader) payload(n int) ([]byte, error) {
	if cap(r.buf) > keep {
		r.buf = nil
	}
	p := r.buf[:min(n, cap(r.buf))]
	if n > cap(p) {
		p = make([]byte, min(n, step))
	}
	for at := 0; ; {
		if _, err := io.ReadFull(r.r, p[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if len(p) == n {
			r.buf = p
			return p, nil
		}
		at = len(p)
		grown := make([]byte, min(n, 2*at))
		copy(grown, p)
		p = grown
	}
}
