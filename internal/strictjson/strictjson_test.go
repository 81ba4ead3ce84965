package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// inner, outer and all have something of everything that Decode knows.
type inner struct {
	Path string `json:"path"`
	Kind string `json:"kind,omitempty"`
}

type outer struct {
	inner
	*Shared
	Named   inner `json:"named,omitzero"`
	Plain   string
	Dropped string `json:"-"`
	hidden  string
}

var _ = outer{}.hidden // a name that JSON does not reach

// Shared is embedded by its address.
type Shared struct {
	ID    int8 `json:"id"`
	Path  int  `json:"Path"`
	Plain int  // hidden by the outer one
}

type all struct {
	Bool   bool              `json:"bool"`
	Small  int8              `json:"small"`
	Int    int64             `json:"int"`
	Byte   uint8             `json:"byte"`
	Float  float32           `json:"float"`
	Double float64           `json:"double"`
	Text   string            `json:"text"`
	Bytes  []byte            `json:"bytes"`
	List   []string          `json:"list"`
	Pair   [2]int            `json:"pair"`
	Map    map[string]string `json:"map"`
	Deep   map[string][]all  `json:"deep"`
	Next   *all              `json:"next"`
	Twice  **int             `json:"twice"`
	Any    any               `json:"any"`
	Raw    json.RawMessage   `json:"raw"`
	Time   time.Time         `json:"time"`
	Level  level             `json:"level"`
	Outer  outer             `json:"outer"`
	Number json.Number       `json:"number"`
	Self   self              `json:"self"`
}

// level decodes itself from a text.
type level int

func (l level) MarshalText() ([]byte, error) { return []byte([]string{"low", "high"}[l]), nil }

func (l *level) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*l = 0
	case "high":
		*l = 1
	default:
		return errors.New("must be low or high\x1b[2J")
	}
	return nil
}

// self decodes itself from an object, as loosely as it likes.
type self struct{ n int }

func (s *self) UnmarshalJSON(b []byte) error {
	v := struct{ N int }{}
	err := json.Unmarshal(b, &v)
	s.n = v.N
	return err
}

func (s self) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"n":%d}`, s.n), nil }

// lenient is the decoder that others use: it knows no unknown names either.
func lenient(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something behind")
	}
	return nil
}

// refused asserts the field and a part of the reason of a refusal.
func refused(t *testing.T, err error, field, reason string) {
	t.Helper()
	var f *api.FieldError
	if !errors.As(err, &f) {
		t.Errorf("not a FieldError: %v", err)
	} else if f.Field != field || !strings.Contains(f.Reason, reason) {
		t.Errorf("%q: %q, want %q: %q", f.Field, f.Reason, field, reason)
	}
}

// What encoding/json takes in silence and this package does not. That it does is
// the control: a row that it refuses, too, proves nothing here.
//
// proves part of H-5
func TestStricterThanEncodingJSON(t *testing.T) {
	for _, c := range []struct{ text, field, reason string }{
		{`{"outer":{"path":"ok","PATH":"../x"}}`, "outer.PATH", `the name is exactly "path"`},
		{`{"outer":{"\u212Aind":"x"}}`, `outer["\u212aind"]`, `the name is exactly "kind"`},
		{"{\"outer\":{\"\u212aind\":\"x\"}}", `outer["\u212aind"]`, `the name is exactly "kind"`},
		{`{"outer":{"plain":"x"}}`, "outer.plain", `the name is exactly "Plain"`},
		{`{"text":"a","text":"b"}`, "text", "is given twice"},
		{`{"text":"a","\u0074ext":"b"}`, "text", "is given twice"},
		{`{"map":{"a":"1","b":"2","a":"3"}}`, "map.a", "is given twice"},
		{`{"any":[{"a":{"x y":1,"x\u0020y":2}}]}`, `any[0].a["x y"]`, "is given twice"},
		{`{"raw":{"a":1,"a":2}}`, "raw.a", "is given twice"},
		{`{"deep":{"a":[{},{"text":"1","text":"2"}]}}`, "deep.a[1].text", "is given twice"},
		{`{"text":null}`, "text", "must be a string, not null"},
		{`{"int":null}`, "int", "must be a whole number, not null"},
		{`{"outer":null}`, "outer", "must be an object, not null"},
		{`{"time":null}`, "time", "must be a value, not null"},
		{`{"list":["a",null]}`, "list[1]", "must be a string, not null"},
		{`{"pair":[1]}`, "pair", "must have 2 elements, and has 1"},
		{`{"pair":[1,2,3]}`, "pair", "must have 2 elements, and has 3"},
		{`{"bytes":[1,2]}`, "bytes", "must be a string of base64, not a list"},
		{`{"bytes":"YQ=\n="}`, "bytes", "must be a string of base64"},
		{`{"bytes":"YR=="}`, "bytes", "must be a string of base64"},
		{`{"text":"\ud800"}`, "text", "half of a surrogate pair"},
		{`{"text":"\udc00\ud800"}`, "text", "half of a surrogate pair"},
		{`{"map":{"\ud800":"","\ud801":""}}`, "map", "half of a surrogate pair"},
		{"{\"text\":\"a\xff\"}", "text", "is not UTF-8"},
		{"{\"map\":{\"\xff\":\"\"}}", "map", "is not UTF-8"},
		{`{"number":"12"}`, "number", "must be a number, not a string"},
		{`null`, "body", "must be an object, not null"},
		{`{"any":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "any" + strings.Repeat("[0]", 63), "is nested deeper than 64 levels"},
	} {
		var got, control all
		refused(t, strictjson.Decode([]byte(c.text), &got, strictjson.Options{}), c.field, c.reason)
		if err := lenient(c.text, &control); err != nil {
			t.Errorf("control: encoding/json refuses %.80s: %v", c.text, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ text, field, reason string }{
		{``, "body", "ends too early"}, {` `, "body", "ends too early"}, {"\x00", "body", `"\x00" at byte 0`},
		{"\ufeff{}", "body", `"\xef" at byte 0`},
		{`{}{}`, "body", "something behind its JSON value, at byte 2"}, {`{} x`, "body", "behind"}, {"{}\x00", "body", "behind"},
		{`[]`, "body", "must be an object, not a list"}, {`1`, "body", "must be an object, not a number"},
		{`{`, "body", "ends too early"}, {`{"text"`, "text", "ends too early"}, {`{"text":`, "text", "ends too early"},
		{`{"text":"a`, "text", "ends too early"}, {`{"text":"a"`, "body", "ends too early"}, {`{"te`, "body", "ends too early"},
		{`{"text":"a",}`, "body", `"}" at byte 12`}, {`{,}`, "body", `"," at byte 1`}, {`{"text":"a" "int":1}`, "body", `"\"" at byte 12`},
		{`{text:1}`, "body", `"t" at byte 1`}, {`{'text':1}`, "body", `"'" at byte 1`}, {`{"text" "a"}`, "text", "out of place"},
		{`{"list":["a",]}`, "list[1]", `"]" at byte 13`}, {`{"list":["a" "b"]}`, "list", "out of place"}, {`{"list":["a"}`, "list", "out of place"},
		{`{"list":[}`, "list[0]", "out of place"}, {`{"bool":tru}`, "bool", "out of place"}, {`{"bool":truex}`, "body", `"x"`},
		{`{"bool":True}`, "bool", `"T"`}, {`{"next":nul`, "next", "ends too early"}, {`{"any":NaN}`, "any", `"N"`},
		{"{\"text\":\"a\nb\"}", "text", `"\n" at byte 10`}, {`{"text":"\x41"}`, "text", "escape at byte 9"}, {`{"text":"\u00g0"}`, "text", "escape"},
		{`{"text":"\`, "text", "escape"}, {`{"text":"\u12`, "text", "escape"}, {`/**/{}`, "body", `"/"`}, {`{"a b":1}`, `["a b"]`, "is not known"},
		{`{"unknown":1}`, "unknown", "is not known; known are bool, small"}, {`{"outer":{"dropped":1}}`, "outer.dropped", "is not known"},
		{`{"outer":{"Dropped":1}}`, "outer.Dropped", "is not known"}, {`{"outer":{"hidden":1}}`, "outer.hidden", "is not known"},
		{`{"outer":{"inner":{}}}`, "outer.inner", "is not known"}, {`{"outer":{"Shared":{}}}`, "outer.Shared", "is not known"},
		{`{"":1}`, `[""]`, "is not known"},
		{`{"small":128}`, "small", "from -128 to 127"}, {`{"small":-129}`, "small", "from -128 to 127"}, {`{"byte":256}`, "byte", "from 0 to 255"},
		{`{"byte":-1}`, "byte", "from 0 to 255"}, {`{"int":9223372036854775808}`, "int", "from -9223372036854775808 to 9223372036854775807"},
		{`{"int":1.0}`, "int", "whole"}, {`{"int":1e2}`, "int", "whole"}, {`{"int":01}`, "int", "out of place"}, {`{"int":+1}`, "int", "out of place"},
		{`{"int":-}`, "int", "out of place"}, {`{"double":1.}`, "double", "out of place"}, {`{"double":.5}`, "double", "out of place"},
		{`{"double":1e}`, "double", "out of place"}, {`{"double":1e999}`, "double", "too large"}, {`{"float":1e39}`, "float", "too large"},
		{`{"any":[1e999]}`, "any[0]", "too large"}, {`{"double":` + strings.Repeat("1", 1001) + `}`, "double", "at most 1000 digits"},
		{`{"int":"1"}`, "int", "must be a whole number, not a string"}, {`{"text":1}`, "text", "must be a string, not a number"},
		{`{"bool":1}`, "bool", "must be true or false, not a number"}, {`{"list":{}}`, "list", "must be a list, not an object"},
		{`{"map":[]}`, "map", "must be an object, not a list"}, {`{"map":{"a":1}}`, "map.a", "must be a string"},
		{`{"bytes":"YQ"}`, "bytes", "base64"}, {`{"bytes":"Y==="}`, "bytes", "base64"}, {`{"bytes":"Y=Q="}`, "bytes", "base64"},
		{`{"bytes":"YQ-_"}`, "bytes", "base64"}, {`{"bytes":"===="}`, "bytes", "base64"}, {`{"bytes":"YW\u00e9="}`, "bytes", "base64"},
		{`{"level":"middle"}`, "level", "is not accepted: must be low or high?[2J"}, {`{"level":1}`, "level", "must be a string, not a number"},
		{`{"level":null}`, "level", "must be a string, not null"}, {`{"self":{"n":"a"}}`, "self", "has a string where there must be something else"},
		{`{"self":{"n":1,"n":2}}`, "self.n", "is given twice"},
		{`{"time":"now"}`, "time", "is not accepted: parsing time"}, {`{"next":{"next":{"int":true}}}`, "next.next.int", "not true or false"},
		{`{"deep":{"é":[{"text":1}]}}`, `deep["\u00e9"][0].text`, "must be a string"},
		{`{"twice":true}`, "twice", "must be a whole number"}, {`{"` + strings.Repeat("k", 1<<20) + `":1}`, "body", "a key of more than 262144 bytes"},
	} {
		got := all{Text: "as it was"}
		refused(t, strictjson.Decode([]byte(c.text), &got, strictjson.Options{}), c.field, c.reason)
		if !reflect.DeepEqual(got, all{Text: "as it was"}) {
			t.Errorf("%.80s is refused and changed what was there: %+v", c.text, got)
		}
	}
}

// What is right is decoded as encoding/json does it.
func TestAccepts(t *testing.T) {
	for _, text := range []string{
		`{}`, " {\t}\r\n", `{"bool":true,"small":-128,"int":9223372036854775807,"byte":255,"float":1.5,"double":-1e-7,"text":"a\u00e9\ud83d\ude00\n"}`,
		`{"bytes":"","list":[],"map":{},"deep":{"":[]},"next":{},"any":{},"raw":[ ]}`, `{"bool":false,"int":-0,"double":-0.0e+10}`,
		`{"bytes":null,"list":null,"map":null,"deep":{"a":null},"next":null,"any":null,"raw":null,"twice":null}`,
		`{"bytes":"YWI+Lw==","list":["\"\\\/\b\f\n\r\t"],"pair":[1,2],"map":{"a":"1","A":"2"},"twice":7}`, `{"bytes":"\u0059\u002B8\u003d"}`,
		`{"any":{"a":[1,"2",null,true,{"a":1e300}]},"raw":{"a":1e999},"time":"2026-01-02T03:04:05Z","level":"high","number":12.50}`,
		`{"outer":{"path":"p","kind":"k","id":1,"Path":2,"named":{"path":"q"},"Plain":"x"}}`,
		`{"deep":{"a":[{"next":{"list":["x"]}}]}}`, `{"self":{"N":7,"other":[]}}`, `{"any":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
		`{"text":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		got, want := all{Text: "gone"}, all{}
		if err := strictjson.Decode([]byte(text), &got, strictjson.Options{}); err != nil {
			t.Errorf("%.80s: %v", text, err)
		}
		if err := lenient(text, &want); err != nil {
			t.Errorf("control: %.80s: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.80s: %+v, want %+v", text, got, want)
		}
	}
	var n *int
	if err := strictjson.Decode([]byte(`null`), &n, strictjson.Options{}); err != nil || n != nil {
		t.Errorf("null for a pointer: %v", err)
	}
}

func TestBounds(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1) }
	listed := func(n int) string { return "[0" + strings.Repeat(",0", n-2) + "]" }
	for _, c := range []struct {
		text   string
		o      strictjson.Options
		reason string
	}{
		{nested(64), strictjson.Options{}, ""}, {nested(65), strictjson.Options{}, "deeper than 64 levels"},
		{nested(3), strictjson.Options{MaxDepth: 3}, ""}, {nested(4), strictjson.Options{MaxDepth: 3}, "deeper than 3 levels"},
		{nested(1000), strictjson.Options{MaxDepth: 1 << 40}, ""}, {nested(1001), strictjson.Options{MaxDepth: 1 << 40}, "deeper than 1000 levels"},
		{"[" + strings.Repeat("[],", 100) + "[]]", strictjson.Options{MaxDepth: 2}, ""},
		{"[" + strings.Repeat(`{"a":{}},`, 100) + "[]]", strictjson.Options{MaxDepth: 3}, ""},
		{listed(100_000), strictjson.Options{}, ""}, {listed(100_001), strictjson.Options{}, "the whole may have 100000"},
		{listed(10), strictjson.Options{MaxValues: 10}, ""}, {listed(11), strictjson.Options{MaxValues: 10}, "the whole may have 10"},
		{`{"a":[1,{"b":2}]}`, strictjson.Options{MaxValues: 5}, ""}, {`{"a":[1,{"b":2}]}`, strictjson.Options{MaxValues: 4}, "the whole may have 4"},
		{`"` + strings.Repeat("a", 8<<20-2) + `"`, strictjson.Options{}, ""},
		{`"` + strings.Repeat("a", 8<<20-1) + `"`, strictjson.Options{}, "must have at most 8388608 bytes, and has 8388609"},
		{`"aaaa"`, strictjson.Options{MaxBytes: 6}, ""}, {`"aaaaa"`, strictjson.Options{MaxBytes: 6}, "must have at most 6 bytes, and has 7"},
	} {
		var v any
		err := strictjson.Decode([]byte(c.text), &v, c.o)
		if c.reason == "" {
			if err != nil {
				t.Errorf("%.40s, %+v: %v", c.text, c.o, err)
			}
			continue
		}
		var f *api.FieldError
		if !errors.As(err, &f) || !strings.Contains(f.Reason, c.reason) {
			t.Errorf("%.40s, %+v: %v, want %q", c.text, c.o, err, c.reason)
		}
	}
}

// However long keys and numbers are, the error is short; and a number comes with
// its value.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é", 1000)
	key := `{"` + long + `":`
	for text, field := range map[string]string{
		key + "?":                               `["` + strings.Repeat(`\u00e9`, 32) + `"…]`,
		strings.Repeat(key, 50) + "?":           strings.Repeat(`["`+strings.Repeat(`\u00e9`, 32)+`"…]`, 3) + "…",
		`{"a":1` + strings.Repeat("9", 998):     "a",
		`{"a":1e` + strings.Repeat("9", 998):    "a",
		`{"a":{"` + long + `":0,"` + long + `"`: `a["` + strings.Repeat(`\u00e9`, 32) + `"…]`,
	} {
		var v map[string]any
		err := strictjson.Decode([]byte(text), &v, strictjson.Options{})
		refused(t, err, field, "")
		if len(err.Error()) > 1000 {
			t.Errorf("%d bytes: %v", len(err.Error()), err)
		}
	}
	err := strictjson.Decode([]byte(`{"time":"`+long+`"}`), &all{}, strictjson.Options{})
	if refused(t, err, "time", "is not accepted: parsing time"); len(err.Error()) > 300 {
		t.Errorf("%d bytes: %v", len(err.Error()), err)
	}
	err = strictjson.Decode([]byte(`{"small":300}`), &all{}, strictjson.Options{})
	if err == nil || err.Error() != "small: 300: must be a whole number from -128 to 127" {
		t.Errorf("%v", err)
	}
}

// What cannot be decoded by exact names is a mistake of the program, told on the
// first call, whatever the text.
func TestMistakes(t *testing.T) {
	type same struct{ A, B any }
	type other struct{ A any }
	for name, v := range map[string]any{
		"nothing": nil, "no pointer": all{}, "nil": (*all)(nil), "channel": new(chan int), "func in a struct": new(struct{ F func() }),
		"interface with methods": new(io.Reader), "keys that are numbers": new(map[int]string), "keys that decode themselves": new(map[keyed]string),
		"option string": new(struct {
			N int `json:"n,string"`
		}),
		"two embedded of one name": new(struct {
			same
			other
		}),
		"embedded address of what is not exported": new(struct{ *same }),
		"nameless type with a method":              new(struct{ time.Time }),
		"strange name":                             tagged(`json:"a\"b"`),
		"two of one name":                          tagged(`json:"b"`, `json:"b"`),
	} {
		func() {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "strictjson: ") {
					t.Errorf("%s: %v", name, r)
				}
			}()
			_ = strictjson.Decode(nil, v, strictjson.Options{})
			t.Errorf("%s is accepted", name)
		}()
	}
}

// tagged returns a new struct whose fields, of type int, have these tags. Tags that
// the tools do not like can be written only so.
func tagged(tags ...string) any {
	var fields []reflect.StructField
	for i, tag := range tags {
		fields = append(fields, reflect.StructField{Name: string(rune('A' + i)), Type: reflect.TypeFor[int](), Tag: reflect.StructTag(tag)})
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

type keyed string

func (*keyed) UnmarshalText([]byte) error { return nil }

// Which names a struct has is what encoding/json thinks: an exact name is taken
// by both or by neither.
func TestNamesOfStructs(t *testing.T) {
	type deep struct{ A, B, C string }
	type mid struct {
		deep
		B string `json:"B"`
	}
	type Str string
	type num int
	for _, v := range []any{
		all{}, outer{}, inner{}, mid{}, struct{ mid }{}, struct {
			mid `json:"m"`
			A   string
		}{}, struct {
			*Shared
			inner
			Path string `json:"path"`
		}{}, struct {
			Str
			num
			Name int `json:",omitempty"`
			Odd  int `json:"a.b-c/d"`
		}{}, struct {
			deep `json:"-"`
			Any  any `json:"any,omitzero"`
		}{}, reflect.ValueOf(tagged(`json:"-,"`, `json:"-"`, `json:",omitempty"`)).Elem().Interface(),
	} {
		typ := reflect.TypeOf(v)
		for name := range strings.FieldsSeq("A B C a b c m mid deep path Path kind id named Plain plain Dropped - hidden inner Shared Str num Name Odd a.b-c/d any bool raw") {
			text := `{"` + name + `":!}` // broken, so that only the name can be told
			ours := strictjson.Decode([]byte(text), reflect.New(typ).Interface(), strictjson.Options{})
			known := !strings.Contains(ours.Error(), "is not known")
			err := lenient(strings.Replace(text, "!", "[{}]", 1), reflect.New(typ).Interface())
			theirs := err == nil || !strings.Contains(err.Error(), "unknown field")
			if strings.Contains(ours.Error(), "the name is exactly") {
				theirs = false // which is what the package is for
			}
			if known != theirs {
				t.Errorf("%v, %q: known %v, to encoding/json %v", typ, name, known, theirs)
			}
		}
	}
}
