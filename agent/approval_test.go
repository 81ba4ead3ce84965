package agent

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// TestApprovalHash: another of anything that is approved has another hash, also
// where it looks the same, and where texts would run together. The control: a
// call's number alone is the same for all of them.
//
// proves part of H-58
func TestApprovalHash(t *testing.T) {
	c, d := catalogOf(t, Tool{Name: "pay", Func: func() {}}), catalogOf(t, Tool{Name: "pay", Description: "x", Func: func() {}})
	seen := map[string]string{}
	for what, x := range map[string]struct {
		c       *Catalog
		session string
		call    uint64
		tool    string
		args    []any
	}{
		"it":            {c, "s", 1, "pay", []any{"a", 1}},
		"session":       {c, "t", 1, "pay", []any{"a", 1}},
		"call":          {c, "s", 2, "pay", []any{"a", 1}},
		"catalog":       {d, "s", 1, "pay", []any{"a", 1}},
		"tool":          {c, "s", 1, "pay2", []any{"a", 1}},
		"run together":  {c, "s1", 1, "pay", []any{"a", 1}},
		"argument":      {c, "s", 1, "pay", []any{"a", 2}},
		"homoglyph":     {c, "s", 1, "pay", []any{"а", 1}},
		"hidden":        {c, "s", 1, "pay", []any{"a\u200b", 1}},
		"kind":          {c, "s", 1, "pay", []any{"a", "1"}},
		"bigint":        {c, "s", 1, "pay", []any{"a", big.NewInt(1)}},
		"minus zero":    {c, "s", 1, "pay", []any{math.Copysign(0, -1)}},
		"zero":          {c, "s", 1, "pay", []any{0}},
		"one argument":  {c, "s", 1, "pay", []any{[]any{"a", 1}}},
		"no argument":   {c, "s", 1, "pay", nil},
		"undefined":     {c, "s", 1, "pay", []any{js.Undefined}},
		"5 MB":          {c, "s", 1, "pay", []any{strings.Repeat("a", 5<<20)}},
		"5 MB, one off": {c, "s", 1, "pay", []any{strings.Repeat("a", 5<<20-1) + "b"}},
	} {
		h, err := x.c.ApprovalHash(x.session, x.call, x.tool, values(t, x.args...))
		if err != nil {
			t.Fatal(err)
		}
		if other := seen[h]; other != "" {
			t.Errorf("%s and %s have one hash", other, what)
		}
		seen[h] = what
		if again, _ := x.c.ApprovalHash(x.session, x.call, x.tool, values(t, x.args...)); again != h {
			t.Errorf("%s has two", what)
		}
	}
}

// TestShowArguments: whatever is not shown as it is has a mark, and a guest's
// text cannot look like one.
//
// proves part of H-58
func TestShowArguments(t *testing.T) {
	long := strings.Repeat("a", 5<<20)
	for _, c := range []struct {
		arg  any
		want string
	}{
		{"plain \"q\" \\ `", `"plain \"q\" \\ ` + "`" + `"`},
		{"user\u202enimda", `"user\u{202e}nimda"`},
		{"a\u200bb\u00adc\ufeff\U000e0041", `"a\u{200b}b\u{ad}c\u{feff}\u{e0041}"`},
		{"a\nb\x1b[2J\x00", `"a\u{a}b\u{1b}[2J\u{0}"`},
		{"аpple", `"аpple"⟨letters: Cyrillic⟩`},
		{"ｏk é 漢", `"ｏk é 漢"⟨letters: Han, Latin beyond ASCII⟩`},
		{"a\u0338\u00a0b", `"a\u{338}\u{a0}b"`},
		{"\xed\xa0\x80", `"\xed\xa0\x80"`},
		{"⟨cut: 3 bytes⟩", `"\u{27e8}cut: 3 bytes\u{27e9}"`},
		{long, `"` + strings.Repeat("a", 297) + `"⟨cut: 5242880 bytes in all, SHA-256 `},
		{[]byte("abc"), "⟨bytes: 3 bytes, SHA-256 ba7816bf8f01cfea…⟩"},
		{map[string]any{"b": 1, "a\u200b": nil, "__proto__": true}, `{"__proto__": true, "a\u{200b}": null, "b": 1}`},
		{[]any{js.Undefined, math.NaN(), big.NewInt(5), time.UnixMilli(0), js.InvalidDate}, "[undefined, NaN, 5n, Date 1970-01-01T00:00:00Z, Invalid Date]"},
		{new(big.Int).Lsh(big.NewInt(1), 5000), "⟨bigint of 5001 bits⟩"},
		{&js.Map{Entries: []js.Entry{{Key: "k", Value: 1}}}, `Map {"k" => 1}`},
		{&js.Set{Elements: []any{1}}, "Set {1}"},
		{&js.ErrorValue{Name: "E", Message: "m"}, `Error {"E", "m"}`},
		{deepList(10), "[[[[[[[⟨1 inside⟩]]]]]]]"},
	} {
		got := ShowArguments(values(t, c.arg))
		if got != c.want && (len(got) < 1000 && !strings.HasPrefix(c.want, `"aaa`) || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%.40q is shown as\n%.400s, want\n%.400s", c.arg, got, c.want)
		}
	}
	many := make([]any, 1000)
	for i := range many {
		many[i] = strings.Repeat("x", 1000)
	}
	if got := ShowArguments(values(t, many, many, many)); len(got) > maxShownAll+200 || !strings.Contains(got, "⟨cut: ") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-80:])
	}
	if got := ShowArguments(values(t, "a", many[:21])); !strings.HasSuffix(got, ", ⟨1 more⟩]") {
		t.Errorf("ends %q", got[len(got)-80:])
	}
	if ShowArguments(nil) != "" {
		t.Error("nothing is shown as something")
	}
}

func deepList(n int) any {
	v := any(1)
	for range n {
		v = []any{v}
	}
	return v
}
