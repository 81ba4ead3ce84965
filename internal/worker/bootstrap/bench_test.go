package bootstrap

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

func init() {
	children["records"] = recordsBothWays
}

// used is the processor time of the calling thread, which other programs on the
// machine disturb less than the clock.
func used() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// TestRecords carries 22,000 objects, 2 MB of them as JSON, out of the engine and back in,
// in the interpreter and with the baseline compiler, and tells what that took: the best of ten.
func TestRecords(t *testing.T) {
	for _, mode := range []string{"interpreter", "baseline"} {
		inChild(t, "records", mode)
	}
}

func recordsBothWays(b *bench) {
	v := b.eval(`globalThis.all = Array.from({length: 22000}, (_, i) => ({id: i, name: 'record number ' + i, score: i / 7, active: i % 2 === 0, tags: ['alpha', 'b']}))`)
	native := b.eval("(v) => { JSON.stringify(v) }")
	out, in, json := time.Hour, time.Hour, time.Hour
	var value wire.Value
	for range 10 {
		begun := used()
		e, err := b.codec.Encode(v)
		if err == nil {
			value, err = wire.AppendUTF16(nil, e.Words, e.Heap, e.Bytes)
		}
		if err != nil {
			b.addf("%v", err)
			return
		}
		out = min(out, used()-begun)
		p, err := value.Parts()
		if err != nil {
			b.addf("%v", err)
			return
		}
		begun = used()
		again, err := b.codec.Decode(Encoding{Words: p.Words, Heap: p.Heap, Wide: p.Wide, Bytes: p.Bytes})
		if err != nil {
			b.addf("%v", err)
			return
		}
		in = min(in, used()-begun)
		again.Release()
		begun = used()
		if _, err := b.Call(native, nil, v); err != nil {
			b.addf("%v", err)
		}
		json = min(json, used()-begun)
	}
	b.notes = append(b.notes, b.Options().Mode.String()+": out "+out.String()+", in "+in.String()+", JSON.stringify "+json.String())
}
