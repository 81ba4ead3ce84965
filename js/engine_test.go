package js_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// The engine that is found without a worker is the one that a worker proves to have.
//
// proves part of T-18
func TestFindEngine(t *testing.T) {
	f, err := js.FindEngine()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^2\.\d+\.\d+$`).MatchString(f.Release) || f.API != "6.0" && f.API != "4.1" && f.API != "4.0" {
		t.Errorf("%+v", f)
	}
	e := open(t, js.Options{}).Engine()
	if e.BuildID != f.BuildID || !strings.HasPrefix(e.Name, "JavaScriptCore "+f.API+" ") {
		t.Errorf("found %+v, and the worker has %+v", f, e)
	}
	text, err := json.Marshal(f)
	if err != nil || !strings.Contains(string(text), `"build_id":"`+e.BuildID) {
		t.Errorf("%s, %v", text, err)
	}
}

func BenchmarkFindEngine(b *testing.B) {
	for b.Loop() {
		if _, err := js.FindEngine(); err != nil {
			b.Fatal(err)
		}
	}
}
