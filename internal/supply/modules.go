package supply

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is one that something of Glovebox is made with.
type Module struct {
	Path, Version string
	Dir           string   // where its files are
	Licence       string   // SPDX
	In            []string // the programs that it is linked into; empty: tests and tools alone
}

// licenceFiles are the names that a licence goes by.
var licenceFiles = []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING"}

// Find finds a module's licence. It is an error if there is none, or one that is
// not in [Allowed], or a second file of that kind, which nobody has read.
func (l *Licences) Find(m *Module) error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		if word := strings.ToUpper(e.Name()); slices.Contains(licenceFiles, e.Name()) || strings.HasPrefix(word, "LICEN") || strings.HasPrefix(word, "COPYING") {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%s %s: %d files with a licence: %v", m.Path, m.Version, len(found), found)
	}
	text, err := os.ReadFile(filepath.Join(m.Dir, found[0]))
	if err != nil {
		return err
	}
	if m.Licence = cmp.Or(l.Name(string(text)), Read[fmt.Sprintf("%x", sha256.Sum256(text))]); m.Licence == "" {
		return fmt.Errorf("%s %s: %s is none of %s, word by word", m.Path, m.Version, found[0], strings.Join(Allowed, ", "))
	}
	return nil
}

// Table is the text of docs/licenses.md.
func Table(modules []Module) string {
	modules = slices.Clone(modules)
	slices.SortFunc(modules, func(a, b Module) int { return cmp.Compare(a.Path, b.Path) })
	var b strings.Builder
	b.WriteString("# Licences\n\nMade by `make ledger`. Glovebox itself is under the Apache License 2.0, and these are the modules that it is made with; `make check` refuses\n" +
		"one whose licence is not, word by word, one of " + strings.Join(Allowed, ", ") + ", or has been read by a person.\n" +
		"Their sums are in `go.sum`.\n" +
		"Go's runtime and standard library, BSD-3-Clause, are in both programs.\n")
	for _, part := range []struct {
		title  string
		linked bool
	}{{"Linked into the programs", true}, {"For tests and tools alone", false}} {
		fmt.Fprintf(&b, "\n## %s\n\n| module | version | licence |", part.title)
		if part.linked {
			b.WriteString(" in |\n| --- | --- | --- | --- |\n")
		} else {
			b.WriteString("\n| --- | --- | --- |\n")
		}
		for _, m := range modules {
			switch {
			case (len(m.In) > 0) != part.linked:
			case part.linked:
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Path, m.Version, m.Licence, strings.Join(m.In, ", "))
			default:
				fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Path, m.Version, m.Licence)
			}
		}
	}
	return b.String()
}

// Sums returns the modules for which a go.sum has both sums, of the files and of
// go.mod: "PATH VERSION".
func Sums(r io.Reader) (map[string]bool, error) {
	files, mods, out := map[string]bool{}, map[string]bool{}, map[string]bool{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) != 3 || !strings.HasPrefix(f[2], "h1:") {
			return nil, fmt.Errorf("go.sum: %q is no sum", s.Text())
		}
		if version, ok := strings.CutSuffix(f[1], "/go.mod"); ok {
			mods[f[0]+" "+version] = true
		} else {
			files[f[0]+" "+f[1]] = true
		}
	}
	for k := range files {
		if mods[k] {
			out[k] = true
		}
	}
	return out, s.Err()
}

var (
	installs = regexp.MustCompile(`\bgo(?:\))? (?:install|run|get) [^\n]*?([\w.]+\.\w+/[\w./-]+)@(\S+)`)
	variable = regexp.MustCompile(`^\$[({](\w+)[)}]$`)
	exact    = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[\w.]+)?$`)
)

// Unpinned returns a sentence for each tool that a file of commands fetches in a
// version that is not written down exactly. A version may stand in a variable of
// the same file.
func Unpinned(name, text string) []string {
	var out []string
	for _, m := range installs.FindAllStringSubmatch(strings.ReplaceAll(text, "$(GO)", "go"), -1) {
		version := strings.Trim(m[2], `"'`)
		if v := variable.FindStringSubmatch(version); v != nil {
			set := regexp.MustCompile(`(?m)^` + v[1] + `\s*[:?]?=\s*(\S+)\s*$`).FindStringSubmatch(text)
			if set == nil {
				out = append(out, fmt.Sprintf("%s: %s@%s: the variable is not set in this file", name, m[1], version))
				continue
			}
			version = set[1]
		}
		if !exact.MatchString(version) {
			out = append(out, fmt.Sprintf("%s: %s@%s is no exact version", name, m[1], version))
		}
	}
	return out
}
