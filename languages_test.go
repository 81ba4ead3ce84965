package glovebox_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/languages"
)

// languageDir has a folder for each language, with programs that must not break:
// NAME.EXT is a program of one file, a folder NAME one of several. NAME.stdout is
// what it prints, NAME.json, if there is one, what else is asked of its run.
const languageDir = "testdata/languages"

// languageRun is NAME.json: what a program is given, and how it ends when that
// is not "exit status 0, nothing on stderr".
type languageRun struct {
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Stdin   string            `json:"stdin"`
	Network string            `json:"network"`
	Limits  glovebox.Limits   `json:"limits"`
	// Entry is the entry of a program of several files; empty means the name that
	// the language gives to a program of one file.
	Entry string `json:"entry"`
	// Command runs in place of the language. {program} is that of the language.
	Command []string `json:"command"`
	// Artifacts are patterns, Returned the names that come back for them and
	// the first bytes of each in hexadecimal.
	Artifacts []string          `json:"artifacts"`
	Returned  map[string]string `json:"returned"`
	// Exit is the exit status, Stderr a pattern for all of stderr.
	Exit   int    `json:"exit"`
	Stderr string `json:"stderr"`
	// Refused says that the limit of processes refuses some.
	Refused bool `json:"refused"`
}

// languageCase is one program.
type languageCase struct {
	lang *languages.Language
	name string
	// path is its file or folder, run what is asked of it, stdout what it prints.
	path   string
	run    languageRun
	stdout string
}

// languageCases reads the programs of a language, in order of name.
func languageCases(t testing.TB, l *languages.Language) []languageCase {
	t.Helper()
	dir := filepath.Join(languageDir, l.Name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []languageCase
	used := map[string]bool{}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if ext == ".stdout" || ext == ".json" {
			continue
		}
		c := languageCase{lang: l, name: strings.TrimSuffix(e.Name(), ext), path: filepath.Join(dir, e.Name())}
		used[e.Name()], used[c.name+".stdout"], used[c.name+".json"] = true, true, true
		out, err := os.ReadFile(filepath.Join(dir, c.name+".stdout"))
		if err != nil {
			t.Fatal(err)
		}
		c.stdout = string(out)
		text, err := os.ReadFile(filepath.Join(dir, c.name+".json"))
		switch {
		case err == nil:
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(&c.run); err != nil {
				t.Fatalf("%s.json: %v", c.path, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, e := range entries {
		if !used[e.Name()] {
			t.Errorf("%s/%s belongs to no program", dir, e.Name())
		}
	}
	return all
}

// program makes a program of the case.
func (c *languageCase) program(t testing.TB) glovebox.Program {
	t.Helper()
	r := &c.run
	p := glovebox.Program{Language: c.lang.Name, Args: r.Args, Env: r.Env, Network: r.Network, Limits: r.Limits, Artifacts: r.Artifacts}
	if r.Stdin != "" {
		p.Stdin = []byte(r.Stdin)
	}
	// Their time is not what is tested, and a machine may be busy.
	p.Limits = p.Limits.Over(glovebox.Limits{WallMS: 60_000})
	if len(c.lang.Compile) > 0 && len(r.Command) == 0 {
		p.Limits.Compile = &glovebox.Limits{WallMS: 300_000}
	}
	if len(r.Command) > 0 {
		path, missing := c.lang.Program()
		if missing != "" {
			t.Fatalf("%s is not installed: looked for %s", c.lang.Name, missing)
		}
		p.Language, p.Command = "", languages.Places{Program: path}.Fill(r.Command)
	}
	p.Files = c.files(t)
	if p.Language == "" {
		return p
	}
	p.Entry = r.Entry
	if p.Entry == "" && len(p.Files) > 1 {
		p.Entry = c.lang.File
	}
	return p
}

// files are those of the case, a single one under the name that the language
// gives to a program of one file.
func (c *languageCase) files(t testing.TB) []glovebox.File {
	t.Helper()
	var files []glovebox.File
	err := filepath.WalkDir(c.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.path, path)
		if name == "." {
			name = c.lang.File
		}
		files = append(files, glovebox.File{Name: name, Content: string(b)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// test runs the case.
func (c *languageCase) test(b *caseBox) {
	w := caseWant{verdict: api.OK, exit: c.run.Exit, stdout: c.stdout, stderrPattern: c.run.Stderr, forks: c.run.Refused}
	if w.exit != 0 {
		w.verdict = api.Error
	}
	r := b.run(c.program(b), w)
	if r.Compile != nil && (r.Compile.Stderr != "" || r.Compile.Stdout != "") {
		b.Errorf("the compiler says %q %q", r.Compile.Stdout, r.Compile.Stderr)
	}
	returned := map[string]bool{}
	for _, a := range r.Artifacts {
		returned[a.Name] = true
		if begin, ok := c.run.Returned[a.Name]; !ok || !strings.HasPrefix(hex.EncodeToString(a.Content), begin) {
			b.Errorf("artifact %s begins with %.20x, want %s (wanted at all: %v)", a.Name, a.Content, begin, ok)
		}
	}
	for name := range c.run.Returned {
		if !returned[name] {
			b.Errorf("no artifact %s; refused %v", name, r.RefusedArtifacts)
		}
	}
}

// Programs of every language do in a cell what they do anywhere: exactly this
// on stdout, nothing on stderr, exit status 0, unless their file says otherwise.
//
// proves X-01 X-20 X-21
func TestLanguages(t *testing.T) {
	for _, l := range languages.Builtin() {
		for _, c := range languageCases(t, l) {
			t.Run(l.Name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.test(&caseBox{t, box(t)})
			})
		}
	}
}

// The smoke program of every language prints what its file says.
//
// proves part of X-20
func TestLanguagesSmoke(t *testing.T) {
	for _, l := range languages.Builtin() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			(&caseBox{t, box(t)}).run(glovebox.Program{Language: l.Name, Source: l.Smoke.Source}, caseWant{verdict: api.OK, stdout: l.Smoke.Stdout})
		})
	}
}

// Every language has programs, and every folder a language.
func TestLanguagesTable(t *testing.T) {
	entries, err := os.ReadDir(languageDir)
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		dirs = append(dirs, e.Name())
	}
	if names := languages.Builtin().Names(); !slices.Equal(dirs, names) {
		t.Errorf("folders %q, want %q", dirs, names)
	}
	for _, l := range languages.Builtin() {
		if len(languageCases(t, l)) == 0 {
			t.Errorf("%s has no program", l.Name)
		}
	}
}
