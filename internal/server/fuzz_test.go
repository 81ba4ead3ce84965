package server_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// FuzzBodies reads any text as the bodies that the service takes: it is refused with
// the name of a field, or is the same value when it is written and read again, with
// nothing in it that a client may not set.
//
// proves part of T-13
// proves part of H-54
func FuzzBodies(f *testing.F) {
	for _, s := range []string{accepted, `{"language":"python","source":"print(1)","limits":{"wall_ms":1000,"compile":{"pids":4}},"env":{"A":"b"},"args":["x"],"interactive":true}`,
		`{"files":[{"name":"a","content":"aGk=","encoding":"base64","mode":420}],"language":"c","artifacts":["*"],"network":"loopback","webhook":"https://x.example/"}`,
		`{"language":"python","language":"bash"}`, `{"LANGUAGE":"x"}`, `{"profile":"compile"}`, `{"source":"\ud800"}`, `{"stdin":"AA=="}`, `{"limits":{"wall_ms":1e3}}`, "\ufeff{}",
		`{"data":"x","close":true}`, `{"name":"SIGINT"}`, `{"type":"auth","token":"gbo_"}`, `[]`, `null`, ``, `{"a":[[[[]]]]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, v := range []any{new(api.Submission), new(api.StdinBody), new(api.SignalBody), new(api.ClientFrame)} {
			o := strictjson.Options{Audience: api.AudienceClient, MaxBytes: 8 << 20}
			if err := strictjson.Decode(text, v, o); err != nil {
				if field := (*api.FieldError)(nil); !errors.As(err, &field) || field.Field == "" || len(err.Error()) > 1200 {
					t.Fatalf("%T: %v", v, err)
				}
				continue
			}
			again, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			w := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := strictjson.Decode(again, w, o); err != nil {
				t.Fatalf("%T: %s, written from %q: %v", v, again, text, err)
			}
			if third, _ := json.Marshal(w); string(third) != string(again) {
				t.Fatalf("%T: %s and then %s", v, again, third)
			}
			if sub, ok := v.(*api.Submission); ok && (sub.Profile != "" || sub.Isolation != "") {
				t.Fatalf("%q sets what is not a client's", text)
			}
		}
	})
}
