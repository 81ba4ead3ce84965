package api

import (
	"errors"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the files of a program.
const (
	MaxFiles     = 1000
	MaxNameParts = 16
	MaxNamePart  = 255 // bytes
)

// Bounds of the artifacts of one run.
const (
	MaxPatterns      = 100
	MaxArtifacts     = 1000
	MaxArtifactBytes = 64 * mib // together; one also at most limits.file_bytes
)

// CheckFileName checks a name below /box against the one grammar that files
// and artifacts share: relative, UTF-8, parts separated by single slashes, no
// part "." or "..", none that begins with "-" or "@" (a tool could read it as
// an option or a response file) or is "~", no backslash, no control character and
// none that turns the direction of writing.
func CheckFileName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case !utf8.ValidString(name):
		return errors.New("is not UTF-8")
	case strings.HasPrefix(name, "/"):
		return errors.New("must be relative")
	}
	parts := strings.Split(name, "/")
	if len(parts) > MaxNameParts {
		return errors.New("has more than 16 parts")
	}
	for _, p := range parts {
		switch {
		case p == "":
			return errors.New("has an empty part")
		case p == "." || p == "..":
			return errors.New("has a part that is a dot or two")
		case len(p) > MaxNamePart:
			return errors.New("has a part of more than 255 bytes")
		case p[0] == '-' || p[0] == '@':
			return errors.New("has a part that begins with - or @")
		case p == "~":
			return errors.New("has a part that is a tilde")
		case strings.Contains(p, "\\"):
			return errors.New("has a backslash")
		case strings.ContainsFunc(p, unicode.IsControl):
			return errors.New("has a control character")
		case strings.ContainsAny(p, "\u2028\u2029"):
			return errors.New("has a character that ends a line")
		case strings.ContainsFunc(p, turns):
			return errors.New("has a character that turns the direction of writing")
		}
	}
	return nil
}

// turns reports the characters that make a name read as another one.
func turns(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// CheckPattern checks a pattern of artifacts: a name as in [CheckFileName] whose
// parts may hold the wildcards of path.Match (*, ?, [a-z]), and a part ** that
// stands for any number of directories, none included.
func CheckPattern(pattern string) error {
	if err := CheckFileName(pattern); err != nil {
		return err
	}
	for p := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(p, ""); err != nil {
			return errors.New("has a bracket that does not end")
		}
	}
	return nil
}

// MatchPattern reports whether a name is, or lies below, what a pattern names,
// and, of a directory of that name, whether something below it could be.
func MatchPattern(pattern, name string) (is, below bool) {
	parts := strings.Split(pattern, "/")
	// reached[i] says that the first i parts of the pattern stand for what was
	// read of the name so far. The work is bounded by the two numbers of parts.
	reached := make([]bool, len(parts)+1)
	reached[0] = true
	skipDirs(parts, reached)
	for part := range strings.SplitSeq(name, "/") {
		next := make([]bool, len(reached))
		next[len(parts)] = reached[len(parts)] // below what was named
		for i, p := range parts {
			switch {
			case !reached[i]:
			case p == "**":
				next[i] = true
			default:
				if ok, _ := path.Match(p, part); ok {
					next[i+1] = true
				}
			}
		}
		skipDirs(parts, next)
		reached = next
	}
	return reached[len(parts)], slices.Contains(reached, true)
}

// skipDirs lets each part ** stand for no directory at all.
func skipDirs(parts []string, reached []bool) {
	for i, p := range parts {
		if p == "**" && reached[i] {
			reached[i+1] = true
		}
	}
}
