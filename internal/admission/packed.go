package admission

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/queue"
)

// The store keeps an index of its keys in memory, some hundred bytes for each. So what
// there may be hundreds of thousands of, clients and keys, does not get a key each but
// lies packed in one of 4,096 parts, which is changed by compare and swap as a whole.

// digits is how many hexadecimal digits name a part.
const digits = 3

// maxPart is how large a part may become.
const maxPart = 512 << 10

// name is what an entry is called.
type name [16]byte

// packed is a set of entries by name.
type packed struct {
	b      *queue.Bucket
	prefix string // of the parts' keys in the bucket
	// dead says that an entry may be dropped when its part is written.
	dead  func(data []byte) bool
	locks [64]sync.Mutex // in this process one at a time changes a part
}

const (
	packedVersion = 1
	packedHead    = 16 + 4
	casTries      = 32
)

// part is one that was read.
type part struct {
	entries  map[name][]byte
	revision uint64
	changed  bool
}

// set puts an entry in the place of what is there; nil takes it out.
func (p *part) set(n name, data []byte) {
	p.changed = true
	if data == nil {
		delete(p.entries, n)
		return
	}
	p.entries[n] = data
}

func (p *packed) read(ctx context.Context, at string) (*part, error) {
	v, err := p.b.Get(ctx, p.prefix+at)
	if errors.Is(err, queue.ErrNotFound) {
		return &part{entries: map[name][]byte{}}, nil
	}
	if err != nil {
		return nil, err
	}
	out := &part{map[name][]byte{}, v.Revision, false}
	for n, data := range unpack(v.Data) {
		if data == nil {
			return nil, fmt.Errorf("%w: a part of %s", queue.ErrDamaged, p.prefix)
		}
		out.entries[n] = data
	}
	return out, nil
}

// unpack are the entries of a part; one without data is the end of one that is damaged.
func unpack(b []byte) iter.Seq2[name, []byte] {
	return func(yield func(name, []byte) bool) {
		if len(b) == 0 || b[0] != packedVersion {
			yield(name{}, nil)
			return
		}
		for b = b[1:]; len(b) > 0; {
			if len(b) < packedHead {
				yield(name{}, nil)
				return
			}
			size := int64(binary.LittleEndian.Uint32(b[16:]))
			if size > int64(len(b)-packedHead) {
				yield(name{}, nil)
				return
			}
			if !yield(name(b), b[packedHead:packedHead+size:packedHead+size]) {
				return
			}
			b = b[packedHead+size:]
		}
	}
}

func (p *packed) write(ctx context.Context, at string, t *part) error {
	b := []byte{packedVersion}
	for n, data := range t.entries {
		if p.dead(data) {
			continue
		}
		b = append(b, n[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
		b = append(b, data...)
	}
	if len(b) > maxPart {
		return fmt.Errorf("%w: a part of %s", queue.ErrFull, p.prefix)
	}
	var err error
	if t.revision == 0 {
		_, err = p.b.Create(ctx, p.prefix+at, b, 0)
	} else {
		_, err = p.b.Update(ctx, p.prefix+at, b, t.revision, 0)
	}
	return err
}

// change is one compare and swap of a part, tried a bounded number of times. When f
// returns an error, or has set nothing, nothing is written. The error is f's, or one of
// the queue; whether something was written is not known then, but for ErrFull and
// ErrContended.
func (p *packed) change(ctx context.Context, at string, f func(*part) error) error {
	mu := &p.locks[(int(at[1])*16+int(at[2]))%len(p.locks)]
	mu.Lock()
	defer mu.Unlock()
	for try := range casTries {
		t, err := p.read(ctx, at)
		if err != nil {
			return err
		}
		if err := f(t); err != nil || !t.changed {
			return err
		}
		err = p.write(ctx, at, t)
		if !errors.Is(err, queue.ErrExists) && !errors.Is(err, queue.ErrConflict) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Millisecond << min(try, 6))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return queue.ErrContended
}
