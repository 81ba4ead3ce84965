package js

//lint:file-ignore SA5008 tags that encoding/json ignores are among what is tested

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

type item struct {
	Price int    `json:"price"`
	Name  string `json:"name,omitempty"`
}

type (
	P       *P
	Hash    [2]byte
	Digest  []byte
	octet   byte
	Looping struct {
		*Looping
		X int
	}
	hidden struct{ H int }
	behind struct{ *hidden }
	quoted struct {
		N  int         `json:",string"`
		U  *uint8      `json:",string"`
		F  float64     `json:",string"`
		B  bool        `json:",string"`
		S  string      `json:",string"`
		J  json.Number `json:",string"`
		Ti time.Time   `json:",string"`
	}
)

func ptr[T any](v T) *T { return &v }

func bytesOf(kind wire.BytesKind, data ...byte) *wire.Bytes {
	return &wire.Bytes{Kind: kind, Data: data}
}

// fits has what each Go type takes: want is the value, of the type to decode to.
var fits = []struct {
	name string
	tree any
	want any
}{
	{"bool", true, true},
	{"int8", -128.0, int8(-128)},
	{"minus zero in int", math.Copysign(0, -1), 0},
	{"int64, smallest", -9223372036854775808.0, int64(math.MinInt64)},
	{"int64 beyond 2^53", 1e18, int64(1e18)},
	{"BigInt in int64", big.NewInt(math.MaxInt64), int64(math.MaxInt64)},
	{"BigInt in uint64", new(big.Int).SetUint64(math.MaxUint64), uint64(math.MaxUint64)},
	{"uint8", 255.0, uint8(255)},
	{"float32", 0.1, float32(0.1)},
	{"infinity in float32", math.Inf(1), float32(math.Inf(1))},
	{"named integer", 5.0, count64(5)},
	{"big.Int", big100, *big100},
	{"number in big.Int", 1e30, func() *big.Int { n, _ := new(big.Float).SetFloat64(1e30).Int(nil); return n }()},
	{"json.Number", 1.5, json.Number("1.5")},
	{"BigInt in json.Number", big100, json.Number("1267650600228229401496703205376")},
	{"string", "x", "x"},
	{"named string", "x", named("x")},
	{"lone half", "\xed\xa0\x80", "\xed\xa0\x80"},
	{"text", "text:x", texted{"x"}},
	{"address", "::1", netip.MustParseAddr("::1")},
	{"JSON", object("z", 5.0), marshaled{5}},
	{"raw JSON", object("z", []any{nil, "\u2028"}), json.RawMessage(`{"z":[null,"\u2028"]}`)},
	{"null to a type with UnmarshalJSON", nil, json.RawMessage("null")},
	{"bytes", bytesOf(wire.Uint8Array, 1, 2), []byte{1, 2}},
	{"DataView", bytesOf(wire.DataView, 1, 2), Digest{1, 2}},
	{"buffer in array", bytesOf(wire.ArrayBuffer, 1, 2), Hash{1, 2}},
	{"bytes of a named type", bytesOf(wire.Uint8ClampedArray, 1, 2), []octet{1, 2}},
	{"array of them", bytesOf(wire.Uint8Array, 1, 2), [2]octet{1, 2}},
	{"bytes from numbers", []any{1.0, 255.0}, []byte{1, 255}},
	{"Bytes", bytesOf(wire.Int16Array, 1, 2), Bytes{Int16Array, []byte{1, 2}}},
	{"time", wire.Date(1709209815123), moment},
	{"invalid Date", wire.Date(math.NaN()), InvalidDate},
	{"undefined", wire.Undefined{}, Undefined},
	{"undefined in pointer", wire.Undefined{}, (*int)(nil)},
	{"null in pointer", nil, (*marshaled)(nil)},
	{"null in slice", nil, []int(nil)},
	{"undefined in map", wire.Undefined{}, map[string]int(nil)},
	{"pointers", 5.0, ptr(ptr(5))},
	{"Value", object("a", 1.0), Value{tree: object("a", 1.0)}},
	{"undefined Value", wire.Undefined{}, Value{}},
	{"null Value", nil, Value{tree: null{}}},
	{"array", []any{1.0, 2.0}, []int{1, 2}},
	{"empty array", []any{}, []int{}},
	{"array of pointers", []any{1.0, nil, wire.Hole{}}, []*int{ptr(1), nil, nil}},
	{"Go array", []any{1.0, 2.0}, [2]float64{1, 2}},
	{"Set in slice", &wire.Set{Values: []any{"a"}}, []string{"a"}},
	{"map", object("a", 1.0, "__proto__", 2.0), map[string]int{"a": 1, "__proto__": 2}},
	{"map of integers", object("-5", true), map[int8]bool{-5: true}},
	{"map of texts", object("text:k", 1.0), map[texted]int{{"k"}: 1}},
	{"map of anything", object("a", []any{}), map[named]any{"a": []any{}}},
	{"Map in map", &wire.Map{Keys: []any{1.0, 2.0}, Values: []any{"a", "b"}}, map[int]string{1: "a", 2: "b"}},
	{"Map", &wire.Map{Keys: []any{1.0}, Values: []any{"a"}}, &Map{[]Entry{{1.0, "a"}}}},
	{"Set", &wire.Set{Values: []any{"a"}}, Set{[]any{"a"}}},
	{"ErrorValue", &wire.Error{Name: "N", Message: "m"}, ErrorValue{Name: "N", Message: "m"}},
	{"struct", object("price", 1.0, "name", "n", "Price", 2.0, "__proto__", object()), item{1, "n"}},
	{"undefined property", object("price", wire.Undefined{}, "name", "n"), item{0, "n"}},
	{"undefined in any", object("A", wire.Undefined{}, "B", nil), struct{ A, B any }{Undefined, nil}},
	{"embedded", object("A", 1.0, "D", 2.0), outerPlain{embedded{1, 0}, &Deep{2}, "", 0}},
	{"embedded cycle", object("X", 1.0), Looping{nil, 1}},
	{"quoted", object("N", "5", "U", "255", "F", "1e3", "B", "true", "S", `"a\n"`, "J", "5.0", "Ti", wire.Date(1709209815123)),
		quoted{5, ptr(uint8(255)), 1000, true, "a\n", "5.0", moment}},
	{"quoted, null and NaN", object("U", nil, "F", "NaN"), quoted{F: math.NaN()}},
}

// proves G-14
func TestDecode(t *testing.T) {
	for _, c := range fits {
		t.Run(c.name, func(t *testing.T) {
			for _, in := range []struct {
				tree any
				typ  reflect.Type
				get  func(reflect.Value) any
			}{
				{c.tree, reflect.TypeOf(c.want), reflect.Value.Interface},
				{[]any{c.tree}, reflect.SliceOf(reflect.TypeOf(c.want)), func(v reflect.Value) any { return v.Index(0).Interface() }},
			} {
				dst := reflect.New(in.typ)
				if err := crossed(t, in.tree).Decode(dst.Interface()); err != nil {
					t.Fatal(err)
				}
				if got := in.get(dst.Elem()); !alike(got, c.want) {
					t.Errorf("%#v, want %#v", got, c.want)
				}
			}
		})
	}
}

// alike is reflect.DeepEqual but for NaN, and the words of big integers.
func alike(a, b any) bool {
	if x, ok := a.(quoted); ok && math.IsNaN(x.F) {
		y := b.(quoted)
		x.F, y.F = 0, y.F-y.F
		return y.F != y.F && reflect.DeepEqual(x, quoted{})
	}
	if v, ok := a.(Value); ok {
		return reflect.DeepEqual(v.wire(), b.(Value).wire())
	}
	return reflect.DeepEqual(a, b)
}

// refuses has what does not fit, and what the error says.
var refuses = []struct {
	name string
	tree any
	dst  any // of the type to decode to
	want string
}{
	{"fraction", object("items", []any{object("price", 1.0), object("price", 1.5)}), struct {
		Items []item `json:"items"`
	}{}, "result.items[1].price: number 1.5 does not fit int"},
	{"too large", 128.0, int8(0), "result: number 128 does not fit int8"},
	{"too small", -129.0, int8(0), "number -129 does not fit int8"},
	{"2^63", 9223372036854775808.0, int64(0), "number 9223372036854776000 does not fit int64"},
	{"2^64", 18446744073709551616.0, uint64(0), "number 18446744073709552000 does not fit uint64"},
	{"negative", -1.0, uint(0), "number -1 does not fit uint"},
	{"NaN", math.NaN(), 0, "number NaN does not fit int"},
	{"infinity", math.Inf(-1), uint64(0), "number -Infinity does not fit uint64"},
	{"float32", 1e300, float32(0), "number 1e+300 does not fit float32"},
	{"large BigInt", big100, int64(0), "bigint 1267650600228229401496703205376 does not fit int64"},
	{"huge BigInt", new(big.Int).Lsh(big.NewInt(1), 5000), int64(0), "bigint of 5001 bits does not fit int64"},
	{"BigInt in float", big.NewInt(1), 0.0, "bigint 1 does not fit float64"},
	{"fraction in big.Int", 1.5, big.Int{}, "number 1.5 does not fit big.Int"},
	{"NaN in big.Int", math.NaN(), big.Int{}, "number NaN does not fit big.Int"},
	{"NaN in json.Number", math.NaN(), json.Number(""), "number NaN does not fit json.Number"},
	{"huge BigInt in json.Number", new(big.Int).Lsh(big.NewInt(1), 1<<14), json.Number(""), "bigint of 16385 bits does not fit json.Number"},
	{"string in int", "5", 0, `string "5" does not fit int`},
	{"number in string", 5.0, "", "number 5 does not fit string"},
	{"number in bool", 1.0, false, "number 1 does not fit bool"},
	{"null in int", []any{nil}, []int{}, "result[0]: null does not fit int"},
	{"null in struct", nil, item{}, "null does not fit js.item"},
	{"undefined in int", wire.Undefined{}, 0, "undefined does not fit int"},
	{"hole in int", []any{wire.Hole{}}, []int{}, "result[0]: hole does not fit int"},
	{"string in bytes", "AAAA", []byte{}, `string "AAAA" does not fit []uint8`},
	{"floats in bytes", bytesOf(wire.Float64Array), []byte{}, "Float64Array of 0 bytes does not fit []uint8"},
	{"bytes in ints", bytesOf(wire.Uint8Array, 1), []int{}, "Uint8Array of 1 byte does not fit []int"},
	{"bytes of another length", bytesOf(wire.Uint8Array, 1), Hash{}, "Uint8Array of 1 byte does not fit js.Hash"},
	{"array of another length", []any{1.0, 2.0, 3.0}, [2]int{}, "array of 3 elements does not fit [2]int"},
	{"object in slice", object(), []int{}, "object does not fit []int"},
	{"array in struct", []any{}, item{}, "array of 0 elements does not fit js.item"},
	{"array in map", []any{}, map[string]int{}, "array of 0 elements does not fit map[string]int"},
	{"date in string", wire.Date(0), "", "Date 1970-01-01T00:00:00.000Z does not fit string"},
	{"string in time", "1970-01-01T00:00:00.000Z", time.Time{}, `does not fit time.Time`},
	{"invalid Date in time", wire.Date(math.NaN()), time.Time{}, "Date Invalid Date does not fit time.Time"},
	{"Date that is valid", wire.Date(0), InvalidDate, "does not fit js.InvalidDateType"},
	{"defined", nil, Undefined, "null does not fit js.UndefinedType"},
	{"object in Map", object(), Map{}, "object does not fit js.Map"},
	{"key of a map", object("01", 1.0), map[int]int{}, `result["01"]: key "01" does not fit int`},
	{"key too large", object("300", 1.0), map[uint8]int{}, `key "300" does not fit uint8`},
	{"key of another type", object("a", 1.0), map[float64]int{}, `result.a: key "a" does not fit float64`},
	{"key that does not compare", &wire.Map{Keys: []any{[]any{}}, Values: []any{1.0}}, map[any]int{},
		"result.entries[0].key: array of 0 elements does not fit interface {}"},
	{"keys that became one", &wire.Map{Keys: []any{1.0, big.NewInt(1)}, Values: []any{1.0, 2.0}}, map[int]int{},
		"result.entries[1].value: a second value for one key of map[int]int"},
	{"text", "x", texted{}, "js.texted: bad text"},
	{"number for text", 1.0, texted{}, "number 1 does not fit js.texted"},
	{"JSON that is none", object("a", object("b", math.NaN())), json.RawMessage{}, "result.a.b: number NaN has no JSON form"},
	{"function", object(), func() {}, "object does not fit func()"},
	{"complex", 1.0, complex(1, 1), "number 1 does not fit complex128"},
	{"pointers without an end", 1.0, P(nil), "number 1 does not fit js.P"},
	{"through an unexported pointer", object("H", 1.0), behind{}, "result.H: cannot be set through the unexported *js.hidden"},
	{"quoted number", object("N", 5.0), quoted{}, "result.N: number 5 does not fit int"},
	{"quoted, no number", object("N", "0x5"), quoted{}, `result.N: string "0x5" does not fit int`},
	{"quoted, too large", object("U", "256"), quoted{}, `result.U: string "256" does not fit uint8`},
	{"quoted null", object("N", nil), quoted{}, `result.N: null does not fit int`},
	{"strange key", object("a\x1b\u202eb", 1.0), map[string]bool{}, `result["a\x1b\u202eb"]: number 1 does not fit bool`},
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range refuses {
		t.Run(c.name, func(t *testing.T) {
			dst := reflect.New(reflect.TypeOf(c.dst))
			dst.Elem().Set(reflect.ValueOf(c.dst))
			err := crossed(t, c.tree).Decode(dst.Interface())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %s", err, c.want)
			}
			if _, ok := errors.AsType[*ConvertError](err); !ok {
				t.Errorf("%T is no *ConvertError", err)
			}
		})
	}
	for _, dst := range []any{nil, 5, (*int)(nil)} {
		if err := crossed(t, 1.0).Decode(dst); err == nil {
			t.Errorf("%T was decoded to", dst)
		}
	}
	var text texted
	if err := crossed(t, "x").Decode(&text); !errors.Is(err, errBad) {
		t.Errorf("%v does not wrap the error of UnmarshalText", err)
	}
}

func TestDecodeInterface(t *testing.T) {
	var e error
	if err := crossed(t, &wire.Error{Name: "E", Message: "m"}).Decode(&e); err != nil || e.Error() != "E: m" {
		t.Errorf("%v, %v", e, err)
	}
	if err := crossed(t, 1.0).Decode(&e); err == nil {
		t.Error("a number is an error")
	}
	if err := crossed(t, nil).Decode(&e); err != nil || e != nil {
		t.Errorf("%v, %v", e, err)
	}
}

// What dst points to is replaced as a whole, or left as it was.
func TestDecodeReplaces(t *testing.T) {
	backing := []int{1, 2, 3}
	s := struct {
		M map[string]int
		L []int
		P *int
		N int
	}{map[string]int{"old": 1}, backing, &backing[0], 9}
	before := s
	if err := crossed(t, object("M", object("new", 2.0), "L", []any{7.0}, "P", 7.0, "N", 1.5)).Decode(&s); err == nil {
		t.Fatal("1.5 fits int")
	}
	if !reflect.DeepEqual(s, before) || len(s.M) != 1 {
		t.Errorf("after an error: %+v", s)
	}
	if err := crossed(t, object("M", object("new", 2.0), "L", []any{7.0}, "P", 7.0)).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.M, map[string]int{"new": 2}) || s.N != 0 || backing[0] != 1 || *s.P != 7 || len(before.M) != 1 {
		t.Errorf("replaced: %+v, what it was: %+v, %v", s, before, backing)
	}
}

func TestDecodeStrict(t *testing.T) {
	v := crossed(t, []any{object("price", 1.0, "prize", 2.0)})
	var items []item
	if err := v.Decode(&items); err != nil || items[0].Price != 1 {
		t.Errorf("%v, %v", items, err)
	}
	if err := v.DecodeStrict(&items); err == nil || err.Error() != "result[0].prize: js.item has no such field" {
		t.Errorf("strict: %v", err)
	}
	// A struct can ask for it itself, wherever it lies, and for nothing around it.
	type firm struct {
		_ struct{} `js:"strict"`
		A int
	}
	type soft struct {
		Firm firm
		List []*firm
	}
	var s soft
	if err := crossed(t, object("B", 1.0, "Firm", object("A", 2.0))).Decode(&s); err != nil || s.Firm.A != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := crossed(t, object("List", []any{object("A", 1.0), object("cache", 1.0)})).Decode(&s); err == nil || err.Error() != "result.List[1].cache: js.firm has no such field" {
		t.Errorf("asked for: %v", err)
	}
	// The name of a field in other letters is another name.
	var one item
	if err := crossed(t, object("Price", 1.0)).Decode(&one); err != nil || one.Price != 0 {
		t.Errorf("%+v, %v", one, err)
	}
}
