package languages

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/glovebox-dev/glovebox/api"
)

// FuzzLanguage reads a language's file from any bytes. What is refused is refused by a
// field and a reason; what is accepted says the same when it is written and read again,
// stands beside the languages that there are or is refused by name, and shows cells
// nothing of the host's own.
//
// proves part of H-5 T-13
func FuzzLanguage(f *testing.F) {
	for _, l := range []*Language{compiled(), interpreted(), Builtin().Find("python"), Builtin().Find("java")} {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxFile {
			return
		}
		l, err := decode(text)
		if err == nil {
			err = l.Validate()
		}
		if err != nil {
			checkNamed(t, text, err)
			return
		}
		written, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(written)
		if err != nil || again.Validate() != nil || !cmp.Equal(l, again, cmpopts.EquateEmpty()) {
			t.Fatalf("%s came back as %s: %v", text, written, err)
		}
		all, err := Builtin().With(l)
		if err != nil {
			checkNamed(t, text, err)
		} else if all.Find(l.Name) == nil || !slices.IsSorted(all.Names()) {
			t.Fatalf("%s is not among %v", l.Name, all.Names())
		}
		for _, p := range l.Paths {
			for _, own := range []string{"/proc", "/sys", "/dev", "/root", "/home", "/run"} {
				if p == own || p == "/" || strings.HasPrefix(p, own+"/") || strings.Contains(p, "..") {
					t.Fatalf("the path %q is shown", p)
				}
			}
		}
		_ = l.Sources("main.x", []string{"main.x", "a/b.x"})
	})
}

func checkNamed(t *testing.T, text []byte, err error) {
	t.Helper()
	var f *api.FieldError
	if !errors.As(err, &f) || f.Field == "" || f.Reason == "" || len(err.Error()) > 4000 || !utf8.ValidString(err.Error()) {
		t.Fatalf("%q is refused with %q", text, err)
	}
}
