package termtext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain returns s without any character that is not seen: controls other than
// tab and newline, what reorders text or breaks lines, and all that has no
// shape of its own, joiners among it. Bytes that are not UTF-8 become U+FFFD
// each. Of a control sequence its letters stay, as text.
//
// It is for text that leaves as data, for a log or a program: nothing shows
// where something was. On a terminal [Writer] and [String] do.
func Plain(s string) string {
	if strings.IndexFunc(s, unseen) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // RuneError for each bad byte
		if !unseen(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unseen reports whether a character has no shape: those that String shows by
// name, and what Unicode calls default ignorable. The two selectors between a
// letter and an emoji stay, since they change what is seen.
func unseen(r rune) bool {
	switch {
	case r < 0x80:
		return r < 0x20 && r != '\t' && r != '\n' || r == del
	case r == '\u200c', r == '\u200d':
		return true
	case r == '\ufe0e', r == '\ufe0f':
		return false
	}
	return hidden(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
