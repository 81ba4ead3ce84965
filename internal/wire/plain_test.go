package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"unicode/utf16"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// utf16le is a string as an engine hands it over.
func utf16le(s string) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

func putPlain(p *wire.Plain, v any) {
	switch v := v.(type) {
	case wire.Undefined:
		p.Undefined()
	case nil:
		p.Null()
	case bool:
		p.Bool(v)
	case float64:
		p.Number(v)
	case string:
		p.Text(utf16le(v))
	}
}

var plainValues = []any{wire.Undefined{}, nil, false, true, 0.0, math.Copysign(0, -1), 1.5, math.NaN(), math.Inf(-1), "", "text", "é", "日本", "🙂", "\x00"}

// What Plain writes is what Encode writes, alone and in an array.
//
// proves part of T-12
func TestPlainIsEncode(t *testing.T) {
	var p wire.Plain
	check := func(v any) {
		t.Helper()
		got, err := p.Value()
		want, err2 := wire.Encode(v, wire.Budget{})
		if err != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%#v: %x %v, not %x %v", v, got, err, want, err2)
		}
	}
	for _, v := range plainValues {
		putPlain(&p, v)
		check(v)
	}
	p.Array(len(plainValues))
	for _, v := range plainValues {
		putPlain(&p, v)
	}
	check(plainValues)
	p.Array(0)
	check([]any{})
	if _, err := p.Value(); err == nil {
		t.Error("nothing is a value")
	}
}

// agrees checks that Parts.Plain, where it says anything, says what Decode does.
func agrees(t *testing.T, v wire.Value) {
	t.Helper()
	p, err := v.Parts()
	if err != nil {
		return
	}
	got, ok := p.Plain()
	if !ok {
		return
	}
	want, err := wire.Decode(v, wire.Budget{})
	if err != nil {
		return // a NaN of another form, say: such a value is not one that an honest host sends
	}
	if text, is := got.(wire.Text); is {
		s := string(latin1(text.Units))
		if text.Wide {
			units := make([]uint16, len(text.Units)/2)
			for i := range units {
				units[i] = binary.LittleEndian.Uint16(text.Units[2*i:])
			}
			s = string(utf16.Decode(units))
		}
		if w, ok := want.(string); !ok || w != s && bytes.IndexByte([]byte(w), 0xed) < 0 { // halves of pairs are another matter
			t.Fatalf("%x: %q, not %#v", []byte(v), s, want)
		}
		return
	}
	g, w := got, want
	if f, ok := g.(float64); ok && math.IsNaN(f) {
		if f, ok := w.(float64); !ok || !math.IsNaN(f) {
			t.Fatalf("%x: %#v, not %#v", []byte(v), got, want)
		}
		return
	}
	if g != w {
		t.Fatalf("%x: %#v, not %#v", []byte(v), got, want)
	}
}

func latin1(b []byte) (r []rune) {
	for _, c := range b {
		r = append(r, rune(c))
	}
	return r
}

func TestPartsPlain(t *testing.T) {
	for _, v := range plainValues {
		e, err := wire.Encode(v, wire.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		agrees(t, e)
		if p, _ := e.Parts(); p.Words != nil {
			if _, ok := p.Plain(); !ok {
				t.Errorf("%#v has no parts", v)
			}
		}
	}
	for _, v := range []any{[]any{}, []any{1.0}, &wire.Object{}, wire.Date(1), &wire.Set{}, &wire.Bytes{}} {
		e, err := wire.Encode(v, wire.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if p, _ := e.Parts(); p.Words != nil {
			if got, ok := p.Plain(); ok {
				t.Errorf("%#v is %#v", v, got)
			}
		}
	}
}

// FuzzPlain compares Parts.Plain with Decode over arbitrary bytes.
func FuzzPlain(f *testing.F) {
	for _, v := range plainValues {
		e, err := wire.Encode(v, wire.Budget{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(e))
	}
	f.Fuzz(func(t *testing.T, b []byte) { agrees(t, b) })
}
