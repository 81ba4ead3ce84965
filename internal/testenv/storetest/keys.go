package storetest

import (
	"strings"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/api"
)

// FieldError is what a bad key is refused with.
type FieldError = api.FieldError

// Keys are good and bad keys: Check says which are which.
func Keys() []store.Key {
	all := []store.Key{
		{Owner: "", ID: "x"}, {Owner: "x", ID: ""}, {},
		{Owner: "a", ID: "bc"}, {Owner: "ab", ID: "c"}, {Owner: "abc", ID: "a"},
		{Owner: strings.Repeat("o", store.MaxName), ID: strings.Repeat("i", store.MaxName)},
		{Owner: strings.Repeat("o", store.MaxName+1), ID: "i"}, {Owner: "o", ID: strings.Repeat("i", store.MaxName+1)},
		{Owner: strings.Repeat("é", store.MaxName/2), ID: strings.Repeat("😀", store.MaxName/4)},
		{Owner: strings.Repeat("é", store.MaxName/2) + "x", ID: "i"},
	}
	for _, s := range []string{
		".", "..", "/", "../..", "a/b", `a\b`, "a\nb", "\n", "\r", "\t", " ", " a", "a ", "*", ">", "a.b", "a..b", ".a", "$KV", "_INBOX", "-rf",
		"\x01", "\x7f", "\u202e", "\u0000a", "a\x00", "\x00", "A", "a", "é", "e\u0301", "ſ", "s", "CON", "NUL", "nul.txt", "~", "~root", "$HOME",
		"%2e%2e", "a:b", "a;b", "'", `"`, "`id`", "\ufeff", "\U0010ffff", "\xff", "a\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
	} {
		all = append(all, store.Key{Owner: "owner of many", ID: s}, store.Key{Owner: s, ID: "session of many"})
	}
	return all
}
