package journal

import (
	"bytes"
	"testing"
)

// FuzzLoad: a journal in which anything was put in the place of anything else
// loads as far as it is what was written, if at all.
//
// proves part of T-13
func FuzzLoad(f *testing.F) {
	data, ends, _ := sample(f, settings)
	sealed, _, _ := sample(f, Settings{Sealed: true})
	for i, e := range ends {
		f.Add(uint16(e), uint16(0), []byte{0, 0, 0}, i%2 == 0)
		f.Add(uint16(e-1), uint16(1), []byte{}, i%2 == 0)
		f.Add(uint16(e), uint16(len(data)), []byte(Magic), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, at, out uint16, in []byte, seal bool) {
		from, s := data, settings
		if seal {
			from, s = sealed, Settings{Sealed: true}
		}
		start := min(int(at), len(from))
		made := append(append(bytes.Clone(from[:start]), in...), from[min(start+int(out), len(from)):]...)
		l, err := Load(made, optionsOf(t, s))
		if err == nil && !bytes.HasPrefix(from, made[:l.Good]) {
			t.Errorf("%d bytes load that nobody has written", l.Good)
		}
	})
}

// FuzzRecords: records that are authentic and anything else are refused or keep
// to the order, and what was spent never becomes less.
//
// proves part of T-13
func FuzzRecords(f *testing.F) {
	f.Add([]byte{2}, []byte(`{"feed":1,"clock":0}`), []byte("x"), []byte{3}, []byte(`{"call":1,"feed":1,"tool":"t","key":"00000000000000000000000000000000"}`))
	f.Add([]byte{8}, []byte(`{"used":{"calls":9223372036854775807}}`), []byte{}, []byte{8}, []byte(`{"used":{"calls":9223372036854775807}}`))
	f.Add([]byte{7}, []byte(`{"feed":1,"call":0,"seed":0,"clock":0,"hash":"","spent":{},"tools":{},"discovered":[]}`), []byte{}, []byte{}, []byte{})
	data, ends, _ := sample(f, settings)
	l, err := Load(data[:ends[0]], optionsOf(f, settings))
	if err != nil {
		f.Fatal(err)
	}
	k, err := derive(ringOf(f, "k1"), "k1", owner)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, head1, meta1, blob1, head2, meta2 []byte) {
		made, chain := bytes.Clone(data[:ends[0]]), l.Chain
		var frame []byte
		for _, inner := range [][]byte{inside(head1, meta1, blob1), inside(head2, meta2, nil)} {
			frame, chain = rawFrame(k, chain, inner)
			made = append(made, frame...)
		}
		spent, calls := Spent{}, uint64(0)
		o := optionsOf(t, settings)
		for _, n := range []int{ends[0], len(made) - len(frame), len(made)} {
			got, err := Load(made[:n], o)
			if err != nil {
				return
			}
			if got.Spent.Calls < spent.Calls || got.Spent.MS < spent.MS || got.Spent.Bytes < spent.Bytes || got.Call < calls || got.Good != n {
				t.Errorf("from %+v and %d calls to %+v", spent, calls, got.State)
			}
			spent, calls = got.Spent, got.Call
		}
	})
}

// inside is a frame's inside: with one byte of head the meta has its own length,
// with more of it the length is what stands there.
func inside(head, meta, blob []byte) []byte {
	if len(head) == 1 {
		return rawInner(Type(head[0]), string(meta), blob)
	}
	return append(append(bytes.Clone(head), meta...), blob...)
}
