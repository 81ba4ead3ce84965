// Package languages holds what Glovebox knows of each language, as data: one
// JSON file a language. Nothing here starts a process.
package languages

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
)

//go:embed *.json
var files embed.FS

// Language is one file.
type Language struct {
	// Name is what a Program calls it.
	Name string `json:"name"`
	// Extensions of its source files, with the dot.
	Extensions []string `json:"extensions"`
	// Interpreters are the names by which a "#!" line calls it.
	Interpreters []string `json:"interpreters"`
	// Programs are the absolute paths at which its program may be; the first that
	// exists is used.
	Programs []string `json:"programs"`
	// File is the name of the entry file when a program has none.
	File string `json:"file"`
	// Run is the argv: "{program}" and "{entry}" are filled in, the program's
	// arguments follow.
	Run []string `json:"run"`
	// Paths of the host, beside /usr, that it needs to see; patterns as in
	// path.Match.
	Paths []string `json:"paths"`
	// Env is set for its programs; a Program's own values win, except for the
	// names in Reserved, which a Program may not set.
	Env      map[string]string `json:"env"`
	Reserved []string          `json:"reserved"`
	// Limits are its defaults where they differ from the general ones.
	Limits api.Limits `json:"limits"`
}

// All returns the languages in order of name.
var All = sync.OnceValue(func() []*Language {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	var all []*Language
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		l := &Language{}
		if err := d.Decode(l); err != nil {
			panic(fmt.Sprintf("languages/%s: %v", e.Name(), err))
		}
		all = append(all, l)
	}
	return all
})

// Find returns the language of a name, or nil.
func Find(name string) *Language {
	for _, l := range All() {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// Names returns the names of all languages.
func Names() []string {
	var out []string
	for _, l := range All() {
		out = append(out, l.Name)
	}
	return out
}

// Paths returns every path that some language needs.
func Paths() []string {
	var out []string
	for _, l := range All() {
		out = append(out, l.Paths...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Program returns where the language's program is on this host, links
// resolved; ok is false when it is not installed.
func (l *Language) Program() (string, bool) {
	for _, p := range l.Programs {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, true
		}
	}
	return "", false
}

// Argv fills the run template.
func (l *Language) Argv(program, entry string, args []string) []string {
	var argv []string
	for _, a := range l.Run {
		a = strings.ReplaceAll(a, "{program}", program)
		argv = append(argv, strings.ReplaceAll(a, "{entry}", entry))
	}
	return append(argv, args...)
}

// Detect names the language of a file by its extension or its "#!" line; ""
// when neither tells.
func Detect(name string, head []byte) string {
	ext := filepath.Ext(name)
	for _, l := range All() {
		if ext != "" && slices.Contains(l.Extensions, ext) {
			return l.Name
		}
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if !bytes.HasPrefix(line, []byte("#!")) {
		return ""
	}
	f := strings.Fields(string(line[2:]))
	if len(f) == 0 {
		return ""
	}
	prog := path.Base(f[0])
	if prog == "env" && len(f) > 1 {
		prog = path.Base(f[1])
	}
	for _, l := range All() {
		if slices.Contains(l.Interpreters, prog) {
			return l.Name
		}
	}
	return ""
}
