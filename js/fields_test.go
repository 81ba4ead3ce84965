package js

//lint:file-ignore SA5008 tags that encoding/json ignores are among what is tested

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type (
	Level2  struct{ X, Y, Deep string }
	Level1A struct {
		Level2
		X string
		Z string
	}
	Level1B struct {
		X string
		W string `json:"Z"`
	}
	TwiceA struct{ Level2 }
	TwiceB struct{ *Level2 }
	lower  struct{ Low, X int }
	text   string
	Iface  interface{ M() }
	zeroed struct{ N int }
	byPtr  struct{ N int }
	Rec    struct {
		*Rec2
		R int
	}
	Rec2 struct {
		*Rec
		S int
	}
	TextInt  int
	Stamp    struct{ time.Time }
	nopeJSON struct{}
)

func (z zeroed) IsZero() bool                  { return z.N == 5 }
func (z *byPtr) IsZero() bool                  { return z.N == 5 }
func (TextInt) MarshalText() ([]byte, error)   { return []byte("T"), nil }
func (*nopeJSON) MarshalJSON() ([]byte, error) { return []byte(`"pointer"`), nil }

// repeated is a struct whose fields have tags that vet would not let pass.
func repeated(fields ...string) any {
	var list []reflect.StructField
	for _, f := range fields {
		w := strings.Fields(f)
		list = append(list, reflect.StructField{Name: w[0], Type: reflect.TypeFor[int](), Tag: reflect.StructTag(`json:"` + w[2] + `"`)})
	}
	return reflect.Zero(reflect.StructOf(list)).Interface()
}

// standardReads reports whether encoding/json can read text; with some types it
// panics.
func standardReads(text []byte, dst any) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return json.Unmarshal(text, dst) == nil
}

// asJSON has values that JSON can say: encoding/json and the way over the wire
// must write the same text.
var asJSON = []any{
	nil, true, 1, -1.5, 1e21, 1e20, 123456789.125, 1e-6, 1e-7, 5e-324, math.MaxFloat64, math.Copysign(0, -1),
	"text \u2028 <&> \x01\b\f\n\r\t\"\\/ 👩",
	[]int{}, []int(nil), [0]int{}, [2]bool{true}, []byte{1, 2, 3}, []byte{}, []byte(nil), [3]byte{1}, []octet{1}, []TextInt{1},
	map[string]int{"b": 1, "a": 2, "": 3}, map[text]any{"k": nil}, map[int]string{10: "a", 9: "b", -1: "c"}, map[uint8]int{1: 1},
	map[TextInt]int{1: 1}, map[string]int(nil), map[string][]string{"x": nil, "y": {}},
	json.Number("12.50e1"), json.RawMessage(`{ "b" : [1, 2.0] , "a": "\u00e9\/" }`), TextInt(3), time.Duration(5),
	struct{}{},
	struct {
		A int `json:"a"`
		B int `json:"-"`
		C int `json:"-,"`
		D int `json:",omitempty"`
		E int `json:"e,omitempty"`
		f int
		G any    `json:"bad\x01name"`
		H string `json:"with space,string"`
		I int    `json:"ä/b"`
		J int    `json:"a'b"`
	}{1, 2, 3, 0, 0, 6, "g", "h", 8, 9},
	struct {
		S []int          `json:",omitempty"`
		M map[string]int `json:",omitempty"`
		P *int           `json:",omitempty"`
		I any            `json:",omitempty"`
		B bool           `json:",omitempty"`
		T string         `json:",omitempty"`
		A [0]int         `json:",omitempty"`
		N [1]int         `json:",omitempty"`
		Z struct{}       `json:",omitempty"`
		F float64        `json:",omitempty"`
		U uint8          `json:",omitempty"`
	}{F: math.Copysign(0, -1)},
	struct {
		S zeroed    `json:",omitzero"`
		P byPtr     `json:",omitzero"`
		Q *byPtr    `json:",omitzero"`
		R *zeroed   `json:",omitzero"`
		N int       `json:",omitzero"`
		T time.Time `json:",omitzero"`
		I any       `json:",omitzero"`
		L []int     `json:",omitzero"`
		E struct{}  `json:",omitzero"`
	}{S: zeroed{5}, P: byPtr{5}, Q: &byPtr{5}, L: []int{}},
	struct {
		S zeroed `json:",omitzero"`
		P byPtr  `json:",omitzero"`
		Q *byPtr `json:",omitzero"`
	}{},
	struct {
		N int         `json:",string"`
		U *uint       `json:",string"`
		F float64     `json:",string"`
		B bool        `json:",string"`
		S string      `json:",string"`
		P *string     `json:",string"`
		J json.Number `json:",string"`
		L []int       `json:",string"`
		T TextInt     `json:",string"`
		Q **int       `json:",string"`
	}{U: ptr(uint(5)), F: 1e21, S: "a\"b", L: []int{1}, Q: ptr(ptr(1))},
	struct {
		Level1A
		Level1B
		lower
		Level2 string
	}{Level1A{Level2{"x2", "y2", "d"}, "xa", "za"}, Level1B{"xb", "wb"}, lower{1, 2}, "named"},
	struct {
		Level1A `json:"tagged"`
		*Level1B
		*lower `json:"low"`
	}{},
	struct {
		Level2
		Level1B
		Y string `json:"X"`
	}{Level2{"x", "y", "d"}, Level1B{"x", "w"}, "mine"},
	repeated("A int one", "B int two", "C int two", "D int D", "E int D"),
	struct{ Iface }{}, struct{ text }{"t"}, struct{ *text }{}, struct {
		TextInt
		N int
	}{1, 2},
	struct {
		TwiceA
		TwiceB
		N int
	}{TwiceA: TwiceA{Level2{X: "a"}}},
	Rec{}, Rec{R: 1, Rec2: &Rec2{S: 2}}, &Rec{Rec2: &Rec2{Rec: &Rec{R: 9}}},
	Stamp{moment}, &Stamp{moment}, struct{ S Stamp }{Stamp{moment}},
	nopeJSON{}, &nopeJSON{}, []nopeJSON{{}}, [1]nopeJSON{}, &[1]nopeJSON{}, map[string]nopeJSON{"a": {}}, struct{ N nopeJSON }{}, &struct{ N nopeJSON }{},
	ptr(ptr(ptr(1))), []any{[]any{map[string]any{"a": []*int{nil, ptr(1)}}}}, struct{ U uintptr }{5},
	struct{ A, B any }{struct{ C *int }{}, &item{1, ""}},
}

func TestSameJSONAsStandard(t *testing.T) {
	for _, in := range asJSON {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(in); err != nil {
			t.Fatalf("%#v: %v", in, err)
		}
		v, err := ValueOf(in)
		if err != nil {
			t.Errorf("%#v: %v", in, err)
			continue
		}
		got, err := v.MarshalJSON()
		// The two numbers of the raw text are the same, written otherwise.
		w := strings.NewReplacer("12.50e1", "125", "2.0", "2", `"\u00e9\/"`, `"é/"`).Replace(strings.TrimSuffix(want.String(), "\n"))
		if err != nil || string(got) != w {
			t.Errorf("%T: %s, %v; encoding/json: %s", in, got, err, w)
		}
	}
}

// What encoding/json reads back from its own text comes back over the wire too.
func TestSameDecodeAsStandard(t *testing.T) {
	for _, in := range asJSON {
		if in == nil || reflect.TypeOf(in) == reflect.TypeFor[json.Number]() || reflect.TypeOf(in) == reflect.TypeFor[json.RawMessage]() {
			continue // these keep the text itself
		}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		want := reflect.New(reflect.TypeOf(in))
		if !standardReads(text, want.Interface()) {
			continue // a type that encoding/json cannot read
		}
		v, err := ValueOf(in)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(in))
		if err := v.Decode(got.Interface()); err != nil {
			t.Errorf("%T from %s: %v", in, text, err)
			continue
		}
		a, _ := json.Marshal(want.Interface())
		b, err := json.Marshal(got.Interface())
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%T: %s, %v; encoding/json: %s", in, b, err, a)
		}
	}
}

// What differs from encoding/json on purpose.
func TestOtherThanStandard(t *testing.T) {
	for _, c := range []struct {
		in         any
		ours, want string
	}{
		{float32(0.1), "0.10000000149011612", "0.1"},
		{moment.Add(time.Microsecond), `"2024-02-29T12:30:15.123Z"`, `"2024-02-29T12:30:15.123001Z"`},
		{errBad, `{"name":"Error","message":"bad text"}`, "{}"},
		{Undefined, "", "null"},
		{int64(math.MaxInt64), "", "9223372036854775807"},
	} {
		v, err := ValueOf(c.in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.MarshalJSON()
		standard, _ := json.Marshal(c.in)
		if string(got) != c.ours || (err == nil) != (c.ours != "") || string(standard) != c.want {
			t.Errorf("%v: %s, %v, want %q; encoding/json %s, want %s", c.in, got, err, c.ours, standard, c.want)
		}
	}
}
