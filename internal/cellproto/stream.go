package cellproto

import (
	"encoding/binary"
	"fmt"
	"io"
)

// headerLen is the length of a frame's header: four bytes of payload length in
// network byte order, then the type.
const headerLen = 5

// AppendFrame appends a whole frame to b.
func AppendFrame(b []byte, t Type, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, byte(t))
	return append(b, payload...)
}

// WriteFrame writes one frame with one call of Write.
func WriteFrame(w io.Writer, t Type, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("frame of %d bytes is larger than %d", len(payload), MaxFrame)
	}
	_, err := w.Write(AppendFrame(make([]byte, 0, headerLen+len(payload)), t, payload))
	return err
}

// ReadFrame reads one frame whose payload has at most limit bytes. The buffer
// grows with what arrives, so that a lying length costs its sender, not us.
func ReadFrame(r io.Reader, limit int) (Type, []byte, error) {
	return ReadFrameInto(r, limit, nil)
}

// ReadFrameInto does the same with the payload in buf, where it has room.
func ReadFrameInto(r io.Reader, limit int, buf []byte) (Type, []byte, error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(h[:4]))
	if n > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes, limit %d", ErrMalformed, n, limit)
	}
	const step = 64 << 10
	p := buf[:min(n, cap(buf))]
	if n > cap(buf) {
		p = make([]byte, min(n, step))
	}
	if _, err := io.ReadFull(r, p); err != nil {
		return 0, nil, noEOF(err)
	}
	for len(p) < n {
		k := min(n-len(p), max(len(p), step))
		at := len(p)
		p = append(p, make([]byte, k)...)
		if _, err := io.ReadFull(r, p[at:]); err != nil {
			return 0, nil, noEOF(err)
		}
	}
	return Type(h[4]), p, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
