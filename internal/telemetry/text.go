package telemetry

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxText is how many characters of a text from outside are logged.
const MaxText = 128

// secrets are the exact forms of what opens something, see internal/credential.
var secrets = regexp.MustCompile(`gb[okwp]_[0-9a-fA-F]{16,}`)

// Clean makes of a text from outside one that may be in a log: characters of ASCII that
// are seen, all others as in a Go string literal, at most [MaxText] of them and then how
// many bytes there were. What has the form of a key or token is left out.
func Clean(s string) string { return clean(s, MaxText) }

func clean(s string, most int) string {
	if plainText(s, most) {
		return s
	}
	whole := len(s)
	if cut := 16 * most; len(s) > cut { // no work for what is not shown
		s = s[:cut]
	}
	s = withhold(s)
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); n++ {
		if n == most {
			b.WriteString(`\...(` + strconv.Itoa(whole) + " bytes)")
			return b.String()
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case r == '\\':
			b.WriteString(`\\`)
		case r >= ' ' && r <= '~':
			b.WriteByte(s[i])
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += size
	}
	return b.String()
}

// plainText tells whether a text is what Clean makes of it, in the usual case.
func plainText(s string, most int) bool {
	if len(s) > most || strings.Contains(s, "gb") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

func withhold(s string) string {
	if !strings.Contains(s, "gb") {
		return s
	}
	return secrets.ReplaceAllStringFunc(s, func(m string) string { return m[:4] + "(withheld)" })
}
