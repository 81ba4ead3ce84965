// Package languages holds what Glovebox knows of each language, as data: one
// JSON file a language. Nothing here starts a process.
package languages

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
)

//go:embed *.json
var files embed.FS

// Language is one file. Argvs hold places that are filled in, see [Places].
type Language struct {
	// Name is what a Program calls it.
	Name string `json:"name"`
	// Title is what people call it.
	Title string `json:"title"`
	// Extensions of its source files, with the dot.
	Extensions []string `json:"extensions"`
	// Interpreters are the names by which a "#!" line calls it.
	Interpreters []string `json:"interpreters"`
	// Programs are the absolute paths at which its program may be; the first that
	// exists is used. Needs are further programs or files without which it counts
	// as not installed.
	Programs []string `json:"programs"`
	Needs    []string `json:"needs"`
	// Version is the argv of a program that prints the version on its first line.
	Version []string `json:"version"`
	// File is the name of the entry file when a program has none.
	File string `json:"file"`
	// Compile is the argv of the compiler, empty for a language without one, and
	// CompileEnv its environment beside the constant one. It leaves its product
	// in {out}, all of which reaches the program, read-only.
	Compile    []string          `json:"compile"`
	CompileEnv map[string]string `json:"compile_env"`
	// Run is the argv of the program; its arguments follow.
	Run []string `json:"run"`
	// Paths of the host, beside those that every cell shows, that it needs to
	// see; patterns as in path.Match.
	Paths []string `json:"paths"`
	// Env is set for its programs; a Program's own values win, except for the
	// names in Reserved, which a Program may not set.
	Env      map[string]string `json:"env"`
	Reserved []string          `json:"reserved"`
	// Limits and CompileLimits are its defaults where they differ from the
	// general ones.
	Limits        api.Limits `json:"limits"`
	CompileLimits api.Limits `json:"compile_limits"`
	// Warm is a cache that glovebox languages --warm fills once, and that its
	// compiler reads; nil for none.
	Warm *Warm `json:"warm"`
	// Smoke is a program that shows that the language works.
	Smoke Smoke `json:"smoke"`
	// Refusals say what does not work in a cell, for its documentation.
	Refusals []string `json:"refusals"`
}

// Smoke is a program and what it prints.
type Smoke struct {
	Source string `json:"source"`
	Stdout string `json:"stdout"`
}

// Warm is a compiler's cache.
type Warm struct {
	// Env is the variable that names the cache's folder.
	Env string `json:"env"`
	// Fill is the argv of a program that fills it from nothing but what the
	// language's own installation has, and With what its environment has beside
	// the compiler's.
	Fill []string          `json:"fill"`
	With map[string]string `json:"with"`
}

// Places are what the places of an argv, or of the values of an environment,
// stand for.
type Places struct {
	Program string // {program}: the path of the language's program
	Entry   string // {entry}: the name of the entry file, to be written as ./{entry}; {dir}: its folder, "." for none
	// Sources are the files with the language's extensions, the entry first. An
	// element that is just {sources} becomes one element a file, each "./NAME".
	Sources []string
	Out     string // {out}: the folder of the compiler's product
	Stem    string // {stem}: the entry's name without folder and extension
	// Memory is the limit: {memory_bytes} and {memory_mib}. {heap_mib} is two thirds
	// of it, for a runtime that bounds its own heap: the rest is room for its code,
	// stacks and buffers, so that it collects garbage before the kernel ends it.
	Memory int64
	CPUs   int // {cpus}: processors that the share of processor time comes to
}

// Set is a number of languages, in order of name.
type Set []*Language

// Builtin returns the languages that come with Glovebox.
var Builtin = sync.OnceValue(func() Set {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	var all Set
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		l, err := decode(b)
		if err != nil {
			panic(fmt.Sprintf("languages/%s: %v", e.Name(), err))
		}
		all = append(all, l)
	}
	return all
})

// Find returns the language of a name, or nil.
func (s Set) Find(name string) *Language {
	for _, l := range s {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// Names returns the names of all languages.
func (s Set) Names() []string {
	var out []string
	for _, l := range s {
		out = append(out, l.Name)
	}
	return out
}

// Paths returns every path that some language needs.
func (s Set) Paths() []string {
	var out []string
	for _, l := range s {
		out = append(out, l.Paths...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Program returns where the language's program is on this host; missing says
// what was looked for in vain when the language is not installed.
func (l *Language) Program() (path, missing string) {
	for _, n := range l.Needs {
		if !exists(n) {
			return "", n
		}
	}
	for _, p := range l.Programs {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, ""
		}
	}
	return "", strings.Join(l.Programs, ", ")
}

func exists(pattern string) bool {
	found, _ := filepath.Glob(pattern)
	return len(found) > 0
}

// Fill puts the places into an argv.
func (pl Places) Fill(argv []string) []string {
	var out []string
	for _, a := range argv {
		if a == "{sources}" {
			for _, s := range pl.Sources {
				out = append(out, "./"+s)
			}
			continue
		}
		out = append(out, pl.Text(a))
	}
	return out
}

// Text puts the places into one text, in one pass: what a place stands for is
// never looked into.
func (pl Places) Text(s string) string {
	return strings.NewReplacer(
		"{program}", pl.Program, "{entry}", pl.Entry, "{dir}", path.Dir(pl.Entry), "{out}", pl.Out, "{stem}", pl.Stem,
		"{memory_bytes}", strconv.FormatInt(pl.Memory, 10), "{memory_mib}", strconv.FormatInt(pl.Memory>>20, 10),
		"{heap_mib}", strconv.FormatInt(pl.Memory/3*2>>20, 10),
		"{cpus}", strconv.Itoa(pl.CPUs),
	).Replace(s)
}

// Sources are those of the files that the compiler is given: those with one of
// the language's extensions, in the order given, the entry first.
func (l *Language) Sources(entry string, files []string) []string {
	out := []string{entry}
	for _, f := range files {
		if f != entry && slices.Contains(l.Extensions, path.Ext(f)) {
			out = append(out, f)
		}
	}
	return out
}

// Detect names the language of a file by its extension or its "#!" line; ""
// when neither tells.
func (s Set) Detect(name string, head []byte) string {
	ext := filepath.Ext(name)
	for _, l := range s {
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
	for _, l := range s {
		if slices.Contains(l.Interpreters, prog) {
			return l.Name
		}
	}
	return ""
}
