package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrDamaged says that what is stored is not what this package writes.
var ErrDamaged = errors.New("queue: what is stored cannot be read")

// kind is what a record of a run says.
type kind byte

const (
	kindAttempt  kind = 'A' // an executor has taken the job
	kindReleased kind = 'R' // it gave it back before it began
	kindStarted  kind = 'S' // the run has begun: it is never run again
	kindEvent    kind = 'E' // anything in between
	kindFinished kind = 'F' // the one final event
)

// record is one message of a run's events. Attempts and releases are no events and
// have no number.
type record struct {
	kind   kind
	seq    uint64 // number of the event, from 1; 0 if it is none
	losses uint64 // executors lost so far
	tries  uint64 // times it was given back
	at     time.Time
	name   string // type of the event
	by     string // a nonce of who wrote it
	object string // where the data lies, if it is not here
	data   []byte
}

const (
	recordVersion = 1
	maxName       = 64
)

func (r *record) encode() []byte {
	b := make([]byte, 0, 64+len(r.name)+len(r.by)+len(r.object)+len(r.data))
	b = append(b, recordVersion, byte(r.kind))
	b = binary.AppendUvarint(b, r.seq)
	b = binary.AppendUvarint(b, r.losses)
	b = binary.AppendUvarint(b, r.tries)
	b = binary.AppendVarint(b, r.at.UnixMilli())
	for _, s := range []string{r.name, r.by, r.object} {
		b = appendText(b, s)
	}
	return append(b, r.data...)
}

func decodeRecord(b []byte) (*record, error) {
	d := decoder{b: b}
	if d.byte() != recordVersion {
		return nil, fmt.Errorf("%w: a record of another version", ErrDamaged)
	}
	r := &record{kind: kind(d.byte()), seq: d.uvarint(), losses: d.uvarint(), tries: d.uvarint()}
	r.at = time.UnixMilli(d.varint())
	r.name, r.by, r.object = d.text(maxName), d.text(maxToken), d.text(maxToken)
	r.data = d.b
	if d.short {
		return nil, fmt.Errorf("%w: a record that ends within itself", ErrDamaged)
	}
	return r, nil
}

// decoder takes values off the front of a text; what is not there is zero, and
// short is set.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) fail() { d.b, d.short = nil, true }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes(most int) []byte {
	n := d.uvarint()
	if n > uint64(most) || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) text(most int) string { return string(d.bytes(most)) }

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendVarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }
