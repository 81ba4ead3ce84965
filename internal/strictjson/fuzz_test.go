package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

var seeds = []string{
	`{}`, `[]`, `null`, `""`, `0`, ` {"a":[1,2.5e-3,"x",null,true,false,{"b":{}}]} `, `{"a":1,"a":2}`, `{"a":1,"A":2}`, `{}x`, `[1,]`, `{"a" 1}`,
	`{"language":"python","source":"print(1)","args":["a"],"env":{"A":"b"},"stdin":"eA==","limits":{"wall_ms":500,"compile":{"pids":2}}}`,
	`{"files":[{"name":"a.py","content":"\u00e9\ud83d\ude00","encoding":"utf-8","mode":420}],"entry":"a.py","artifacts":["*"],"network":"none"}`,
	`{"profile":"language","isolation":"process"}`, `{"Source":"x"}`, `{"\u017fource":"x"}`, `{"env":{"\u212a":"x","k":"y"}}`, `{"source":null,"files":null}`,
	`{"stdin":"YQ"}`, `{"stdin":"Y\u0051=="}`, `{"limits":{"wall_ms":1e3}}`, `{"limits":{"wall_ms":9223372036854775808}}`, `{"files":[{"mode":-1}]}`,
	`{"id":"x","verdict":"ok","exit_code":null,"wall_ms":1.5,"evidence":{"layers":[{"name":"a","applied":true}]},"artifacts":[{"content":"eA=="}]}`,
	`{"outer":{"path":"a","Path":1,"id":2,"named":{"kind":"k"}},"pair":[1,2],"twice":3,"raw":{"a":1e999},"any":[{}],"number":1.50}`,
	`{"time":"2026-01-02T03:04:05Z","level":"high","deep":{"a":[{"next":{"bytes":"AAAA"}}]},"small":-128,"byte":255,"float":3.4e38}`,
	"\"\xff\"", `"\ud800"`, `"\ud800\udc00"`, `"\u00"`, "\"\x01\"", "\ufeff{}", `[[[[[[[[]]]]]]]]`, `-0`, `1e400`, `01`, `-`, `1.`, `tru`, `{"a":{"a":{"a":1}}}`,
}

// What is accepted, encoding/json accepts, with an equal value, and the value
// written again is accepted again. A refusal names a field and says why, briefly.
//
// proves part of H-48
func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	types := []reflect.Type{reflect.TypeFor[api.Program](), reflect.TypeFor[api.Limits](), reflect.TypeFor[api.Result](), reflect.TypeFor[api.Event](),
		reflect.TypeFor[all](), reflect.TypeFor[any](), reflect.TypeFor[map[string]*outer](), reflect.TypeFor[[]json.RawMessage]()}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, typ := range types {
			ours, theirs, again := reflect.New(typ), reflect.New(typ), reflect.New(typ)
			if err := strictjson.Decode(text, ours.Interface(), strictjson.Options{}); err != nil {
				checkRefusal(t, text, err)
				if !ours.Elem().IsZero() {
					t.Errorf("%v: %q is refused and sets %v", typ, text, ours.Elem())
				}
				continue
			}
			if err := lenient(string(text), theirs.Interface()); err != nil {
				t.Fatalf("%v: encoding/json refuses %q: %v", typ, text, err)
			}
			if !reflect.DeepEqual(ours.Interface(), theirs.Interface()) {
				t.Fatalf("%v: %q is %+v, to encoding/json %+v", typ, text, ours.Elem(), theirs.Elem())
			}
			written, err := json.Marshal(ours.Interface())
			if err != nil {
				t.Fatal(err)
			}
			if err := strictjson.Decode(written, again.Interface(), strictjson.Options{}); err != nil {
				if tooMuch(text, written) {
					continue
				}
				t.Fatalf("%v: %q was written as %q, which is refused: %v", typ, text, written, err)
			}
			if back, err := json.Marshal(again.Interface()); err != nil || !bytes.Equal(back, written) {
				t.Fatalf("%v: %q became %q: %v", typ, written, back, err)
			}
		}
	})
}

// tooMuch reports a text that may have passed a bound by being written again: a
// nil field of a struct in a long list is written as null, a value more.
func tooMuch(text, written []byte) bool { return len(written) > 50_000 || len(text) > 50_000 }

func checkRefusal(t *testing.T, text []byte, err error) {
	t.Helper()
	var f *api.FieldError
	if !errors.As(err, &f) || f.Field == "" || f.Reason == "" || len(f.Error()) > 2000 || !utf8.ValidString(f.Error()) {
		t.Fatalf("%q is refused with %q", text, err)
	}
	if bytes.HasPrefix([]byte(f.Reason), []byte("cannot be decoded")) {
		t.Fatalf("the walk lets %q pass, and then: %v", text, err)
	}
}

// Whether a text of no type is accepted, a slow and plain reading by the tokens
// of encoding/json says too: neither too little nor too much is refused.
//
// proves part of H-48
func FuzzSame(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	surrogate := regexp.MustCompile(`\\u[dD][89a-fA-F]`)
	long := regexp.MustCompile(`[-+.eE0-9]{1000}`)
	f.Fuzz(func(t *testing.T, text []byte) {
		if surrogate.Match(text) || long.Match(text) || len(text) > 100_000 {
			return // what the plain reading does not tell
		}
		var v, w any
		err := strictjson.Decode(text, &v, strictjson.Options{})
		d := json.NewDecoder(bytes.NewReader(text))
		plain := json.Unmarshal(text, &w) == nil && utf8.Valid(text) && once(d, 0) && ended(d)
		if plain != (err == nil) {
			t.Fatalf("%q: %v, by a plain reading %v", text, err, plain)
		}
	})
}

func ended(d *json.Decoder) bool {
	_, err := d.Token()
	return err == io.EOF
}

// once reports whether the next value has no key twice and is not too deep.
func once(d *json.Decoder, depth int) bool {
	t, err := d.Token()
	if err != nil || depth > 64 {
		return false
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return true
	}
	if depth == 64 {
		return false
	}
	keys := map[any]bool{}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil || keys[key] {
				return false
			}
			keys[key] = true
		}
		if !once(d, depth+1) {
			return false
		}
	}
	_, err = d.Token()
	return err == nil
}
