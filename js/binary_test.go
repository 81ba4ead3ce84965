package js_test

import (
	"bytes"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// A value in bytes is the same value again, and the same bytes; bytes that are
// none are refused and change nothing.
func TestBinary(t *testing.T) {
	for _, v := range []any{
		js.Undefined, nil, true, 0.0, math.Copysign(0, -1), math.NaN(), math.Inf(-1), 1 << 53, new(big.Int).Lsh(big.NewInt(-1), 300), "", "é漢😀", "\xed\xa0\x80", "a\x00b",
		time.UnixMilli(-1), js.InvalidDate, []byte{1, 2}, &js.Bytes{Kind: js.Float16Array, Data: []byte{1, 2}}, []any{1, js.Undefined, nil},
		map[string]any{"__proto__": 1, "": 2}, &js.Map{Entries: []js.Entry{{Key: 1, Value: "x"}}}, &js.Set{Elements: []any{1}}, &js.ErrorValue{Name: "n", Message: "m", Stack: "s"},
	} {
		value, err := js.ValueOf(v)
		if err != nil {
			t.Fatal(err)
		}
		data, err := value.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var again js.Value
		if err := again.UnmarshalBinary(data); err != nil || again.Kind() != value.Kind() || again.String() != value.String() {
			t.Errorf("%v comes back as %v, %v", value, again, err)
		}
		if more, err := again.MarshalBinary(); err != nil || !bytes.Equal(more, data) {
			t.Errorf("%v has other bytes: %x, %x, %v", value, data, more, err)
		}
		for cut := range len(data) {
			if err := again.UnmarshalBinary(data[:cut]); err == nil {
				t.Errorf("%v cut to %d bytes is taken", value, cut)
			}
		}
		if err := again.UnmarshalBinary(append(data, 0)); err == nil || again.Kind() != value.Kind() {
			t.Errorf("%v with a byte behind it is taken", value)
		}
		// The value keeps no hold of the bytes.
		if err := again.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		clear(data)
		if again.String() != value.String() {
			t.Errorf("%v changed with its bytes", value)
		}
	}
}
