package api

import (
	"errors"
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

// CheckFileName checks a name below /box against the one grammar that files
// and artifacts share: relative, UTF-8, parts separated by single slashes, no
// part "." or "..", none that begins with "-" or "@" (a tool could read it as
// an option or a response file), no control character.
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
		case strings.ContainsFunc(p, unicode.IsControl):
			return errors.New("has a control character")
		}
	}
	return nil
}
