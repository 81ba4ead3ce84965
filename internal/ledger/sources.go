package ledger

import (
	"fmt"
	goscan "go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Finding is something that was wrong and that an attack or a test brought to
// light: the line of the changelog that tells it, and what keeps it mended.
type Finding struct {
	Text  string
	IDs   []string
	Tests []string // "PACKAGE.TEST", as in the ledger
}

// ParseFindings reads docs/findings.txt, two lines for each finding: how its line
// in the changelog begins, and the ids and tests that keep it mended. Each line
// below the changelog's headings "Security" must have one, and each finding such
// a line; known tells whether there is a test of a name.
func ParseFindings(text, changelog string, known func(test string) bool) ([]Finding, error) {
	lines := securityLines(changelog)
	var out []Finding
	begin := ""
	for n, line := range strings.Split(text, "\n") {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("docs/findings.txt:%d: %s", n+1, fmt.Sprintf(format, args...))
		}
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case begin == "":
			begin = line
			continue
		}
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, begin) })
		if at < 0 {
			return nil, fail("no line of the changelog's security begins with %q, or two findings have it", begin)
		}
		f := Finding{Text: lines[at]}
		lines, begin = slices.Delete(lines, at, at+1), ""
		for _, word := range strings.Fields(line) {
			switch {
			case Known(word):
				f.IDs = append(f.IDs, word)
			case known(word):
				f.Tests = append(f.Tests, word)
			default:
				return nil, fail("%q is neither an id nor a test", word)
			}
		}
		if len(f.IDs) == 0 || len(f.Tests) == 0 {
			return nil, fail("an id or a test is missing")
		}
		out = append(out, f)
	}
	if begin != "" || len(lines) > 0 {
		return nil, fmt.Errorf("docs/findings.txt says nothing of %q", append(lines, begin)[0])
	}
	return out, nil
}

// securityLines are the points below each heading "Security", each as one line.
func securityLines(changelog string) []string {
	var out []string
	inside := false
	for line := range strings.Lines(changelog) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			inside = line == "### Security"
		case !inside:
		case strings.HasPrefix(line, "- "):
			out = append(out, line[2:])
		case strings.HasPrefix(line, "  ") && len(out) > 0:
			out[len(out)-1] += " " + strings.TrimSpace(line)
		}
	}
	return out
}

// Rejected is something that was tried, measured and given up.
type Rejected struct{ Date, What, Measured, Instead, Source string }

var rejectedRow = regexp.MustCompile(`^\|\s*(\d{4}-\d\d-\d\d)\s*\|(.*)\|(.*)\|(.*)\|(.*)\|\s*$`)

// ParseRejected reads the table of docs/rejected.md.
func ParseRejected(text string) ([]Rejected, error) {
	var out []Rejected
	for n, line := range strings.Split(text, "\n") {
		m := rejectedRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for i := range m {
			if m[i] = strings.TrimSpace(m[i]); m[i] == "" {
				return nil, fmt.Errorf("docs/rejected.md:%d: an empty cell", n+1)
			}
		}
		out = append(out, Rejected{m[1], m[2], m[3], m[4], m[5]})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("docs/rejected.md has no row")
	}
	return out, nil
}

// NotPromised are the points of SECURITY.md's section of that name, each with its
// bold first words taken apart from the rest.
func NotPromised(security string) ([][2]string, error) {
	_, section, ok := strings.Cut(security, "\n## What is not promised\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var out [][2]string
	for _, point := range strings.Split("\n"+section, "\n- ")[1:] {
		head, rest, found := strings.Cut(strings.TrimPrefix(strings.Join(strings.Fields(point), " "), "**"), "**")
		if !found {
			return nil, fmt.Errorf("SECURITY.md: the point %.40q has no bold beginning", point)
		}
		out = append(out, [2]string{strings.TrimSuffix(head, "."), strings.TrimSpace(rest)})
	}
	if !ok || len(out) == 0 {
		return nil, fmt.Errorf("SECURITY.md has no points of what is not promised")
	}
	return out, nil
}

// CodeLines counts the lines of a Go file that have more on them than comments.
func CodeLines(src []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s goscan.Scanner
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // put in by the scanner
		}
		first := file.Line(pos)
		for n := range 1 + strings.Count(text, "\n") { // a raw string has several
			lines[first+n] = true
		}
	}
}
