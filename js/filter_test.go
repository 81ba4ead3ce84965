package js

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// proves part of G-17
func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a\tb\nwörld 日本 👩", "a\tb\nwörld 日本 👩"},
		{"C0", "a\x00\a\b\v\f\r\x1b[31m\x7fb", "a[31mb"},
		{"C1", "a\u0080\u0085\u009b31m\u009fb", "a31mb"},
		{"bidi", "a\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069b", "ab"},
		{"separators", "a\u2028\u2029b", "ab"},
		{"zero width", "a\u200b\u200c\u200d\u2060\u2061\u2064\u180e\ufeff\u034fb", "ab"},
		{"tags", "a\U000e0001\U000e0041\U000e007fb", "ab"},
		{"soft hyphen", "a\u00adb", "ab"},
		{"fillers, selectors", "a\u115f\u3164\uffa0\ufe00\U000e0100\U000e01efb\u2764\ufe0f", "ab\u2764\ufe0f"},
		{"interlinear", "a\ufff9b\ufffac\ufffb", "abc"},
		{"deprecated", "a\u206a\u206fb", "ab"},
		{"not UTF-8", "a\xffb\xed\xa0\x80", "a\ufffdb\ufffd\ufffd\ufffd"},
		{"Arabic number sign", "\u0600", "\u0600"},
	} {
		if got := clean(c.in, 1000); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCleanIsBounded(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"12345678", 8, "12345678"},
		{"123456789", 8, "12345…"},
		{"日本日本日本", 8, "日…"},
		{strings.Repeat("\x00", 100), 8, "…"},
		{strings.Repeat("\x00", 30) + "a", 8, "a"},
		{strings.Repeat("\x00", 30) + strings.Repeat("a", 30), 8, "aaaaa…"},
		{"abc", 3, "abc"},
		{"abcd", 3, "…"},
		{"", 0, ""},
	} {
		if got := clean(c.in, c.limit); got != c.want || len(got) > c.limit {
			t.Errorf("clean(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// Texts for people are clean, values are as the guest made them.
//
// proves G-17
func TestTextIsCleanValuesAreRaw(t *testing.T) {
	const raw, shown = "x\x1b]52;c;QQ==\a\u202e\u200by", "x]52;c;QQ==y"
	v := crossed(t, object(raw, raw, "e", &wire.Error{Name: raw, Message: raw}))
	if s := v.String(); strings.ContainsAny(s, "\x1b\a\u202e\u200b") || !strings.Contains(s, "52;c;QQ==") {
		t.Errorf("String() = %q", s)
	}
	m := v.Any().(map[string]any)
	e := m["e"].(*ErrorValue)
	if m[raw] != raw || e.Message != raw || e.Error() != shown+": "+shown {
		t.Errorf("%q; %q", m, e.Error())
	}
	if s := crossed(t, raw).String(); s != shown {
		t.Errorf("a string alone: %q", s)
	}
	var n map[string]int
	err := v.Decode(&n)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\a\u202e\u200b") {
		t.Errorf("%q", err)
	}
	_, err = encodeTree("v", []any{&rawError{raw}, brokenText(raw)}, wire.Budget{})
	if err == nil || !strings.Contains(err.Error(), shown) || strings.ContainsAny(err.Error(), "\x1b\a\u202e\u200b") {
		t.Errorf("%q", err)
	}
}

type rawError struct{ s string }

func (e *rawError) Error() string { return e.s }

type brokenText string

func (b brokenText) MarshalText() ([]byte, error) { return nil, errors.New(string(b)) }
