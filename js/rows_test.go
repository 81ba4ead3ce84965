package js

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// same compares values of Go and trees, NaN being equal to itself.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

var plain = cmp.Options{
	cmp.Comparer(func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
	}),
	cmp.Comparer(func(a, b wire.Date) bool { return a == b || a != a && b != b }),
	cmp.Comparer(func(a, b *big.Int) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

var options = cmp.Options{plain, cmp.Comparer(func(a, b Value) bool { return cmp.Equal(a.wire(), b.wire(), plain) })}

func object(pairs ...any) *wire.Object {
	o := &wire.Object{}
	for i := 0; i < len(pairs); i += 2 {
		o.Keys, o.Values = append(o.Keys, pairs[i].(string)), append(o.Values, pairs[i+1])
	}
	return o
}

type (
	named      string
	count64    int64
	marshaled  struct{ n int }
	texted     struct{ s string }
	coded      int
	addressed  struct{ S string }
	embedded   struct{ A, B int }
	outerPlain struct {
		embedded
		*Deep
		B string `json:"b"`
		c int
	}
	Deep struct{ D int }
)

func (m marshaled) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"z":%d,"a":[1,2.5,"\ud800"]}`, m.n), nil
}
func (m *marshaled) UnmarshalJSON(b []byte) error {
	_, err := fmt.Sscanf(string(b), `{"z":%d`, &m.n)
	return err
}
func (x texted) MarshalText() ([]byte, error) { return []byte("text:" + x.s), nil }
func (x *texted) UnmarshalText(b []byte) error {
	s, ok := strings.CutPrefix(string(b), "text:")
	x.s = s
	return orBad(ok)
}
func (coded) Error() string                       { return "coded" }
func (a *addressed) MarshalText() ([]byte, error) { return []byte("at " + a.S), nil }
func orBad(ok bool) error {
	if ok {
		return nil
	}
	return errBad
}

var errBad = errors.New("bad text")

var (
	big100  = new(big.Int).Lsh(big.NewInt(1), 100)
	moment  = time.Date(2024, 2, 29, 12, 30, 15, 123_000_000, time.UTC)
	local   = time.FixedZone("X", 3600)
	someInt = 7
)

// toJS has each row of the table from Go to JavaScript.
var toJS = []struct {
	name string
	in   any
	want any
}{
	{"nil", nil, nil},
	{"undefined", Undefined, wire.Undefined{}},
	{"zero Value", Value{}, wire.Undefined{}},
	{"pointer to undefined", &Undefined, wire.Undefined{}},
	{"bool", true, true},
	{"int", 42, 42.0},
	{"int8", int8(-128), -128.0},
	{"uint8", uint8(255), 255.0},
	{"uintptr", uintptr(3), 3.0},
	{"largest exact", int64(maxExact), float64(maxExact)},
	{"first BigInt", int64(maxExact + 1), big.NewInt(maxExact + 1)},
	{"smallest exact", -maxExact, float64(-maxExact)},
	{"first negative BigInt", -maxExact - 1, big.NewInt(-maxExact - 1)},
	{"max uint64", uint64(math.MaxUint64), new(big.Int).SetUint64(math.MaxUint64)},
	{"named integer", count64(5), 5.0},
	{"float", 1.5, 1.5},
	{"float32", float32(0.1), float64(float32(0.1))},
	{"NaN", math.NaN(), math.NaN()},
	{"infinity", math.Inf(-1), math.Inf(-1)},
	{"minus zero", math.Copysign(0, -1), math.Copysign(0, -1)},
	{"string", "wörld 日本 👩", "wörld 日本 👩"},
	{"named string", named("x"), "x"},
	{"not UTF-8", "a\xff\xc3(", "a\ufffd\ufffd("},
	{"lone half", "a\xed\xa0\x80b", "a\xed\xa0\x80b"},
	{"two halves that meet", "\xed\xa0\xbd\xed\xb8\x80", "😀"},
	{"bytes", []byte{1, 2}, &wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1, 2}}},
	{"nil bytes", []byte(nil), nil},
	{"array of bytes", [2]byte{1, 2}, []any{1.0, 2.0}},
	{"Bytes", &Bytes{Float64Array, make([]byte, 8)}, &wire.Bytes{Kind: wire.Float64Array, Data: make([]byte, 8)}},
	{"time", moment.In(local), wire.Date(1709209815123)},
	{"time below a ms, before 1970", time.Unix(-1, 999_999_999), wire.Date(-1)},
	{"zero time", time.Time{}, wire.Date(-62135596800000)},
	{"invalid Date", InvalidDate, wire.Date(math.NaN())},
	{"duration", time.Second, 1e9},
	{"big", big.NewInt(5), big.NewInt(5)},
	{"big by value", *big100, big100},
	{"nil big", (*big.Int)(nil), nil},
	{"json.Number", json.Number("1.50"), 1.5},
	{"large json.Number", json.Number("9007199254740993"), big.NewInt(9007199254740993)},
	{"error", errors.New("broken"), &wire.Error{Name: "Error", Message: "broken"}},
	{"error of an integer type", coded(3), &wire.Error{Name: "Error", Message: "coded"}},
	{"errors of an integer type", []coded{3}, []any{&wire.Error{Name: "Error", Message: "coded"}}},
	{"field of such a type", struct{ C coded }{3}, object("C", &wire.Error{Name: "Error", Message: "coded"})},
	{"ErrorValue", &ErrorValue{"TypeError", "m", "s"}, &wire.Error{Name: "TypeError", Message: "m", Stack: "s"}},
	{"slice", []any{nil, Undefined, 1}, []any{nil, wire.Undefined{}, 1.0}},
	{"nil slice", []int(nil), nil},
	{"array", [2]string{"a", "b"}, []any{"a", "b"}},
	{"map", map[string]any{"b": 1, "a": []int{}, "__proto__": 2}, object("__proto__", 2.0, "a", []any{}, "b", 1.0)},
	{"map of integers", map[int8]bool{10: true, -2: false}, object("-2", false, "10", true)},
	{"map of texts", map[texted]int{{"k"}: 1}, object("text:k", 1.0)},
	{"map of addresses", map[netip.Addr]int{netip.MustParseAddr("::1"): 1}, object("::1", 1.0)},
	{"nil map", map[string]int(nil), nil},
	{"struct", outerPlain{embedded{1, 2}, nil, "x", 0}, object("A", 1.0, "B", 2.0, "b", "x")},
	{"embedded pointer", outerPlain{Deep: &Deep{4}}, object("A", 0.0, "B", 0.0, "D", 4.0, "b", "")},
	{"pointer to pointer", func() **int { p := &someInt; return &p }(), 7.0},
	{"nil pointer", (*embedded)(nil), nil},
	{"marshaler", marshaled{3}, object("z", 3.0, "a", []any{1.0, 2.5, "\xed\xa0\x80"})},
	{"nil marshaler", (*marshaled)(nil), nil},
	{"raw JSON", json.RawMessage(` {"a" : [true,null, 12345678901234567890, 1e3]} `),
		object("a", []any{true, nil, new(big.Int).SetUint64(12345678901234567890), 1000.0})},
	{"text", texted{"x"}, "text:x"},
	{"text of a pointer, addressable", &addressed{"x"}, "at x"},
	{"text of a pointer, not addressable", addressed{"x"}, object("S", "x")},
	{"Map", &Map{[]Entry{{1, "a"}, {[]int{2}, nil}}}, &wire.Map{Keys: []any{1.0, []any{2.0}}, Values: []any{"a", nil}}},
	{"Set", Set{[]any{"a", 1}}, &wire.Set{Values: []any{"a", 1.0}}},
	{"nil Map", (*Map)(nil), nil},
}

// proves part of G-14
func TestToJavaScript(t *testing.T) {
	for _, c := range toJS {
		t.Run(c.name, func(t *testing.T) {
			got, err := encodeTree("v", c.in, wire.Budget{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "tree", got, c.want)
			if _, err := wire.Encode(got, wire.Budget{}); err != nil {
				t.Errorf("the wire refuses it: %v", err)
			}
			// Inside others it is the same.
			got, err = encodeTree("v", map[string]any{"k": []any{c.in}}, wire.Budget{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "inside", got, object("k", []any{c.want}))
		})
	}
}

// A tree that is one of each thing for Go.
var toGo = []struct {
	name string
	tree any
	any  any
	kind ValueKind
	json string // empty: none
	text string
}{
	{"undefined", wire.Undefined{}, Undefined, ValueUndefined, "", "undefined"},
	{"null", nil, nil, ValueNull, "null", "null"},
	{"boolean", false, false, ValueBoolean, "false", "false"},
	{"number", 1e21, 1e21, ValueNumber, "1e+21", "1e+21"},
	{"small number", 1e-7, 1e-7, ValueNumber, "1e-7", "1e-7"},
	{"minus zero", math.Copysign(0, -1), math.Copysign(0, -1), ValueNumber, "-0", "-0"},
	{"NaN", math.NaN(), math.NaN(), ValueNumber, "", "NaN"},
	{"infinity", math.Inf(1), math.Inf(1), ValueNumber, "", "Infinity"},
	{"BigInt", big100, big100, ValueBigInt, "", "1267650600228229401496703205376n"},
	{"string", "a\"\n\x1b\u2028é", "a\"\n\x1b\u2028é", ValueString, `"a\"\n\u001b\u2028é"`, "a\"\né"},
	{"lone half", "a\xed\xb0\x80", "a\xed\xb0\x80", ValueString, `"a\udc00"`, "a\ufffd\ufffd\ufffd"},
	{"Date", wire.Date(1709209815123), moment, ValueDate, `"2024-02-29T12:30:15.123Z"`, "2024-02-29T12:30:15.123Z"},
	{"late Date", wire.Date(8.64e15), time.UnixMilli(8.64e15).UTC(), ValueDate, `"+275760-09-13T00:00:00.000Z"`, "+275760-09-13T00:00:00.000Z"},
	{"early Date", wire.Date(-8.64e15), time.UnixMilli(-8.64e15).UTC(), ValueDate, `"-271821-04-20T00:00:00.000Z"`, "-271821-04-20T00:00:00.000Z"},
	{"invalid Date", wire.Date(math.NaN()), InvalidDate, ValueDate, "", "Invalid Date"},
	{"Uint8Array", &wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1, 255}}, []byte{1, 255}, ValueBytes, `"Af8="`, "Uint8Array(2 bytes) <01ff>"},
	{"ArrayBuffer", &wire.Bytes{Kind: wire.ArrayBuffer}, []byte{}, ValueBytes, `""`, "ArrayBuffer(0 bytes) <>"},
	{"Int16Array", &wire.Bytes{Kind: wire.Int16Array, Data: []byte{1, 0}}, &Bytes{Int16Array, []byte{1, 0}}, ValueBytes, `"AQA="`, "Int16Array(2 bytes) <0100>"},
	{"array", []any{1.0, wire.Hole{}, wire.Undefined{}, nil}, []any{1.0, Undefined, Undefined, nil}, ValueArray, "[1,null,null,null]",
		"[1, <empty>, undefined, null]"},
	{"object", object("b", 1.0, "__proto__", "x", "u", wire.Undefined{}, "a b", true),
		map[string]any{"b": 1.0, "__proto__": "x", "u": Undefined, "a b": true}, ValueObject, `{"b":1,"__proto__":"x","a b":true}`,
		`{b: 1, __proto__: "x", u: undefined, "a b": true}`},
	{"Map", &wire.Map{Keys: []any{1.0}, Values: []any{"x"}}, &Map{[]Entry{{1.0, "x"}}}, ValueMap, "", `Map(1) {1 => "x"}`},
	{"Set", &wire.Set{Values: []any{"x", 1.0}}, &Set{[]any{"x", 1.0}}, ValueSet, "", `Set(2) {"x", 1}`},
	{"Error", &wire.Error{Name: "TypeError", Message: "m\x1b", Stack: "s"}, &ErrorValue{"TypeError", "m\x1b", "s"}, ValueError,
		`{"name":"TypeError","message":"m\u001b"}`, "TypeError: m"},
}

// crossed is a value that came over the wire.
func crossed(t testing.TB, tree any) Value {
	t.Helper()
	encoded, err := wire.Encode(tree, wire.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := decodeValue("result", encoded, wire.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestToGo(t *testing.T) {
	for _, c := range toGo {
		t.Run(c.name, func(t *testing.T) {
			v := crossed(t, c.tree)
			same(t, "Any", v.Any(), c.any)
			var x any = "old"
			if err := v.Decode(&x); err != nil {
				t.Error(err)
			}
			same(t, "Decode", x, c.any)
			if v.Kind() != c.kind || v.IsNull() != (c.tree == nil) || v.IsUndefined() != (c.kind == ValueUndefined) {
				t.Errorf("kind %v, want %v; null %v, undefined %v", v.Kind(), c.kind, v.IsNull(), v.IsUndefined())
			}
			if v.String() != c.text {
				t.Errorf("String() = %q, want %q", v.String(), c.text)
			}
			text, err := v.MarshalJSON()
			if c.json == "" {
				if !errors.Is(err, ErrNoJSON) {
					t.Errorf("JSON %s, error %v, want ErrNoJSON", text, err)
				}
			} else if err != nil || string(text) != c.json {
				t.Errorf("JSON %s, %v; want %s", text, err, c.json)
			}
			// What Any gives crosses back, but for what its documentation names.
			back, err := ValueOf(c.any)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "back and forth", back.Any(), c.any)
		})
	}
}

func TestValueKindNames(t *testing.T) {
	if ValueUndefined.String() != "undefined" || ValueError.String() != "Error" || ValueKind(99).String() != "unknown" {
		t.Errorf("%v %v %v", ValueUndefined, ValueError, ValueKind(99))
	}
	if Float64Array.String() != "Float64Array" || Float64Array.Size() != 8 || BytesKind(99).Size() != 0 {
		t.Errorf("%v %d %d", Float64Array, Float64Array.Size(), BytesKind(99).Size())
	}
}

func TestNoJSONNamesThePath(t *testing.T) {
	v := crossed(t, object("a", []any{1.0, object("b c", math.NaN())}))
	_, err := v.MarshalJSON()
	if want := `result.a[1]["b c"]: number NaN has no JSON form`; err == nil || err.Error() != want || !errors.Is(err, ErrNoJSON) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := json.Marshal(map[string]any{"v": v}); !errors.Is(err, ErrNoJSON) {
		t.Errorf("within encoding/json: %v", err)
	}
}

// What Any and Decode return is nobody else's.
func TestValueNeverChanges(t *testing.T) {
	v := crossed(t, []any{&wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1}}, big.NewInt(5)})
	list := v.Any().([]any)
	list[0].([]byte)[0] = 9
	list[1].(*big.Int).SetInt64(9)
	var s struct {
		B []byte
		N *big.Int
	}
	w := crossed(t, object("B", &wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1}}, "N", big.NewInt(5)))
	if err := w.Decode(&s); err != nil {
		t.Fatal(err)
	}
	s.B[0] = 9
	s.N.SetInt64(9)
	same(t, "Any", v.Any(), []any{[]byte{1}, big.NewInt(5)})
	same(t, "Decode", w.Any(), map[string]any{"B": []byte{1}, "N": big.NewInt(5)})

	b := []byte{1}
	x, err := ValueOf(b)
	if err != nil {
		t.Fatal(err)
	}
	b[0] = 9
	same(t, "ValueOf", x.Any(), []byte{1})
}
