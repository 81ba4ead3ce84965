package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// encoder appends a message to a buffer; after the first failure err stays set.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) num(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) flag(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// text is a string of at most limit bytes in UTF-8.
func (e *encoder) text(s string, limit int) {
	if len(s) > limit {
		e.fail(&LimitError{"text", limit})
	} else if !utf8.ValidString(s) {
		e.fail(malformed("text is not UTF-8"))
	}
	e.num(uint64(len(s)))
	e.b = append(e.b, s...)
}

// kind is a word: lower-case letters, digits and "_", a letter first.
func (e *encoder) kind(s string) {
	if !isKind(s) {
		e.fail(malformed("kind %.40q", s))
	}
	e.text(s, maxKind)
}

func (e *encoder) value(v Value) {
	if _, err := v.Parts(); err != nil {
		e.fail(err)
	}
	e.num(uint64(len(v)))
	e.b = append(e.b, v...)
}

// enum is a number from low to high.
func (e *encoder) enum(v, low, high uint64) {
	if v < low || v > high {
		e.fail(malformed("%d is not from %d to %d", v, low, high))
	}
	e.num(v)
}

// count is the length of a list of at most limit elements.
func (e *encoder) count(n, limit int) {
	if n > limit {
		e.fail(&LimitError{"list", limit})
	}
	e.num(uint64(n))
}

// decoder reads a message; after the first failure it returns zero values and
// err stays set. Only values are part of the buffer, all else is copied.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) num() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 { // the last byte of a longer form than needed is zero
		d.fail(malformed("number"))
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) flag() bool { return d.enum(0, 1) == 1 }

func (d *decoder) enum(low, high uint64) uint64 {
	v := d.num()
	if d.err == nil && (v < low || v > high) {
		d.fail(malformed("%d is not from %d to %d", v, low, high))
		return 0
	}
	return v
}

func (d *decoder) raw(limit int) []byte {
	n := d.num()
	if n > uint64(len(d.b)) || n > uint64(limit) {
		d.fail(malformed("length"))
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) text(limit int) string {
	p := d.raw(limit)
	if !utf8.Valid(p) {
		d.fail(malformed("text is not UTF-8"))
		return ""
	}
	return string(p)
}

func (d *decoder) kind() string {
	s := d.text(maxKind)
	if d.err == nil && !isKind(s) {
		d.fail(malformed("kind %.40q", s))
	}
	return s
}

// value is only looked at from outside here; Decode judges what is in it.
func (d *decoder) value() Value {
	v := Value(d.raw(MaxValue))
	if d.err == nil {
		if _, err := v.Parts(); err != nil {
			d.fail(err)
			return nil
		}
	}
	return v
}

// count reads the length of a list of at most limit elements, each of at least
// size bytes.
func (d *decoder) count(limit, size int) int {
	n := d.num()
	if n > uint64(limit) || n > uint64(len(d.b)/size) {
		d.fail(malformed("list length"))
		return 0
	}
	return int(n)
}

// maxKind bounds a kind in bytes.
const maxKind = 40

func isKind(s string) bool {
	for i := 0; i < len(s); i++ {
		letter := s[i] >= 'a' && s[i] <= 'z'
		if !letter && (i == 0 || s[i] != '_' && (s[i] < '0' || s[i] > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= maxKind
}

// AppendPayload appends the payload of a message to b. It refuses what the
// other side would refuse.
func AppendPayload(b []byte, m Message) ([]byte, error) {
	start := len(b)
	e := &encoder{b: b}
	m.put(e)
	if n := rowOf[m.Type()].Max; e.err == nil && len(e.b)-start > n {
		e.err = &LimitError{"frame", n}
	}
	if e.err != nil {
		return b, e.err
	}
	return e.b, nil
}

// DecodePayload is the inverse of AppendPayload. Values of the message are part
// of p, all else is copied. Its errors are ErrMalformed and ErrVersion.
func DecodePayload(t Type, p []byte) (Message, error) {
	r := rowOf[t]
	if r == nil {
		return nil, malformed("type %d", t)
	}
	if len(p) > r.Max {
		return nil, malformed("%s of %d bytes, limit %d", r.Name, len(p), r.Max)
	}
	m, d := r.fresh(), &decoder{b: p}
	m.get(d)
	if d.err == nil && len(d.b) != 0 {
		d.fail(malformed("%s: trailing bytes", r.Name))
	}
	if d.err != nil {
		return nil, d.err
	}
	return m, nil
}
