package languages

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// compiled is a language in which every field is set.
func compiled() *Language {
	return &Language{
		Name: "x-1", Title: "X 1", Extensions: []string{".x"}, Interpreters: []string{"x"}, Programs: []string{"/usr/bin/x"},
		Needs: []string{"/usr/include/*.h"}, Version: []string{"{program}", "-v"}, File: "main.x",
		Compile: []string{"{program}", "-o", "{out}/main", "{sources}"}, CompileEnv: map[string]string{"A": "{memory_mib}"},
		Run: []string{"{out}/main", "{stem}"}, Paths: []string{"/etc/x*"}, Env: map[string]string{"B": "{out}"}, Reserved: []string{"C"},
		Limits: api.Limits{WallMS: 1000}, CompileLimits: api.Limits{Pids: 10}, Warm: &Warm{Env: "D", Fill: []string{"{program}", "fill"}, With: map[string]string{"E": "1"}},
		Smoke: Smoke{Source: "a", Stdout: "b"}, Refusals: []string{"Nothing else works."},
	}
}

// interpreted is the same without a compiler.
func interpreted() *Language {
	l := compiled()
	l.Compile, l.CompileEnv, l.CompileLimits, l.Warm = nil, nil, api.Limits{}, nil
	l.Run, l.Env = []string{"{program}", "./{entry}"}, nil
	return l
}

// many is more than a list may have.
var many = slices.Repeat([]string{"/usr/bin/x"}, maxList+1)

// wrong is what is refused of a language with a compiler, and how that is said.
var wrong = []struct {
	says   string
	change func(l *Language)
}{
	{`name: "": must match`, func(l *Language) { l.Name = "" }},
	{`name: "X": must match`, func(l *Language) { l.Name = "X" }},
	{`name: "x\n": must match`, func(l *Language) { l.Name = "x\n" }},
	{`name: "` + strings.Repeat("x", 33), func(l *Language) { l.Name = strings.Repeat("x", 33) }},
	{`title: must have at least`, func(l *Language) { l.Title = "" }},
	{`title: "\x1b[2J": must be one line`, func(l *Language) { l.Title = "\x1b[2J" }},
	{`extensions[1]: "py": must be a dot`, func(l *Language) { l.Extensions = []string{".x", "py"} }},
	{`extensions[0]: ".": must be a dot`, func(l *Language) { l.Extensions = []string{"."} }},
	{`extensions[0]: ".a.b": must be a dot`, func(l *Language) { l.Extensions = []string{".a.b"} }},
	{`interpreters[0]: "/bin/x": must be the name`, func(l *Language) { l.Interpreters = []string{"/bin/x"} }},
	{`programs: must have at least one`, func(l *Language) { l.Programs = nil }},
	{`programs: 65: must have at most 64`, func(l *Language) { l.Programs = many }},
	{`programs[0]: "x": must be an absolute`, func(l *Language) { l.Programs = []string{"x"} }},
	{`programs[0]: "/usr/../x": must be an absolute`, func(l *Language) { l.Programs = []string{"/usr/../x"} }},
	{`programs[0]: "/home/a/x": lies in /home`, func(l *Language) { l.Programs = []string{"/home/a/x"} }},
	{`needs[0]: "as": must be an absolute`, func(l *Language) { l.Needs = []string{"as"} }},
	{`version: is missing`, func(l *Language) { l.Version = nil }},
	{`version[0]: "x": must be {program}`, func(l *Language) { l.Version = []string{"x"} }},
	{`version[0]: "{out}/main": must be {program}`, func(l *Language) { l.Version = []string{"{out}/main"} }},
	{`version[1]: "{entry}": {entry} is not known here; known are {program}`, func(l *Language) { l.Version = []string{"{program}", "{entry}"} }},
	{`file: "": is empty`, func(l *Language) { l.File = "" }},
	{`file: "../x": has a part that is a dot`, func(l *Language) { l.File = "../x" }},
	{`file: "-x": has a part that begins with -`, func(l *Language) { l.File = "-x" }},
	{`compile[0]: "gcc": must be {program}`, func(l *Language) { l.Compile[0] = "gcc" }},
	{`compile: must name {out}`, func(l *Language) { l.Compile = []string{"{program}", "{sources}"} }},
	{`compile[3]: "x{sources}": must have {sources} alone`, func(l *Language) { l.Compile[3] = "x{sources}" }},
	{`compile[1]: "{source}": {source} is not known here`, func(l *Language) { l.Compile[1] = "{source}" }},
	{`compile[1]: "a\x00": must have at most`, func(l *Language) { l.Compile[1] = "a\x00" }},
	{`compile_env: "1A": a name must match`, func(l *Language) { l.CompileEnv = map[string]string{"1A": ""} }},
	{`compile_env.A: "{y}": {y} is not known here`, func(l *Language) { l.CompileEnv = map[string]string{"A": "{y}"} }},
	{`run: is missing`, func(l *Language) { l.Run = nil }},
	{`run[0]: "sh": must be {program}`, func(l *Language) { l.Run = []string{"sh"} }},
	{`run[1]: "{sources}": {sources} is not known here`, func(l *Language) { l.Run = []string{"{out}/main", "{sources}"} }},
	{`paths[0]: "/": is too much`, func(l *Language) { l.Paths = []string{"/"} }},
	{`paths[0]: "/etc": is too much`, func(l *Language) { l.Paths = []string{"/etc"} }},
	{`paths[0]: "/usr/local/*": is too much`, func(l *Language) { l.Paths = []string{"/usr/local/*"} }},
	{`paths[0]: "/etc/?*": is too much; what lies in /etc must begin with its own name`, func(l *Language) { l.Paths = []string{"/etc/?*"} }},
	{`paths[0]: "/var/[^x]*/x": is too much`, func(l *Language) { l.Paths = []string{"/var/[^x]*/x"} }},
	{`paths[0]: "/etc/\\p*": is too much`, func(l *Language) { l.Paths = []string{`/etc/\p*`} }},
	{`paths[0]: "/usr/*/secret": is too much`, func(l *Language) { l.Paths = []string{"/usr/*/secret"} }},
	{`paths[0]: "/*/secret": must not have a wildcard in its first part`, func(l *Language) { l.Paths = []string{"/*/secret"} }},
	{`paths[0]: "/r?ot/x": must not have a wildcard`, func(l *Language) { l.Paths = []string{"/r?ot/x"} }},
	{`paths[0]: "/etc/[x": has a bracket`, func(l *Language) { l.Paths = []string{"/etc/[x"} }},
	{`paths[0]: "etc/x": must be an absolute`, func(l *Language) { l.Paths = []string{"etc/x"} }},
	{`paths[0]: "/etc/x/": must be an absolute`, func(l *Language) { l.Paths = []string{"/etc/x/"} }},
	{`paths[0]: "/etc/\n": must be text`, func(l *Language) { l.Paths = []string{"/etc/\n"} }},
	{`paths[1]: "/sys/x": lies in /sys`, func(l *Language) { l.Paths = []string{"/etc/x", "/sys/x"} }},
	{`env: "A=B": a name must match`, func(l *Language) { l.Env = map[string]string{"A=B": ""} }},
	{`env.A: "{sources}": {sources} is not known here`, func(l *Language) { l.Env = map[string]string{"A": "{sources}"} }},
	{`reserved[0]: "": must match`, func(l *Language) { l.Reserved = []string{""} }},
	{`limits.wall_ms: 1: must be between 50`, func(l *Language) { l.Limits.WallMS = 1 }},
	{`limits.pids: 5000: must be between 1 and 4096`, func(l *Language) { l.Limits.Pids = 5000 }},
	{`limits.compile: is not known`, func(l *Language) { l.Limits.Compile = &api.Limits{} }},
	{`compile_limits.memory_bytes: -1: must be between`, func(l *Language) { l.CompileLimits.MemoryBytes = -1 }},
	{`compile_limits.compile: is not known`, func(l *Language) { l.CompileLimits.Compile = &api.Limits{} }},
	{`warm.env: "": must match`, func(l *Language) { l.Warm.Env = "" }},
	{`warm.fill: is missing`, func(l *Language) { l.Warm.Fill = nil }},
	{`warm.fill[1]: "{out}": {out} is not known`, func(l *Language) { l.Warm.Fill = []string{"{program}", "{out}"} }},
	{`warm.with: "=": a name must match`, func(l *Language) { l.Warm.With = map[string]string{"=": ""} }},
	{`warm.with.E: "{out}": {out} is not known here`, func(l *Language) { l.Warm.With = map[string]string{"E": "{out}"} }},
	{`smoke.source: must have at least 1`, func(l *Language) { l.Smoke.Source = "" }},
	{`smoke.stdout: must have at least 1`, func(l *Language) { l.Smoke.Stdout = "" }},
	{`refusals[0]: must have at least 1`, func(l *Language) { l.Refusals = []string{""} }},
	{`refusals[0]: "a\nb": must be one line`, func(l *Language) { l.Refusals = []string{"a\nb"} }},
}

// wrongWithout is the same for one without.
var wrongWithout = map[string]func(l *Language){
	`compile_env: is for a language with a compiler`:    func(l *Language) { l.CompileEnv = map[string]string{"A": ""} },
	`compile_limits: is for a language with a compiler`: func(l *Language) { l.CompileLimits.Pids = 5 },
	`warm: is for a language with a compiler`:           func(l *Language) { l.Warm = &Warm{} },
	`run[0]: "{out}/main": must be {program}`:           func(l *Language) { l.Run = []string{"{out}/main"} },
	`run[1]: "{out}": {out} is not known here`:          func(l *Language) { l.Run = []string{"{program}", "{out}"} },
	`env.A: "{out}": {out} is not known here`:           func(l *Language) { l.Env = map[string]string{"A": "{out}"} },
}

// Each field is refused for each reason, by its name.
func TestValidate(t *testing.T) {
	for _, l := range []*Language{compiled(), interpreted()} {
		if err := l.Validate(); err != nil {
			t.Errorf("a valid language: %v", err)
		}
	}
	for _, is := range wrong {
		l := compiled()
		is.change(l)
		checkRefusal(t, l.Validate(), is.says)
	}
	for says, change := range wrongWithout {
		l := interpreted()
		change(l)
		checkRefusal(t, l.Validate(), says)
	}
	checkRefusal(t, (*Language)(nil).Validate(), "language: is missing")
}

func checkRefusal(t *testing.T, err error, says string) {
	t.Helper()
	var field *api.FieldError
	if err == nil || !errors.As(err, &field) || !strings.HasPrefix(err.Error(), says) {
		t.Errorf("got %v, want %q", err, says)
	}
}

// A language reads back as it was written; what others could have written, and
// what is no file of a language, is refused.
//
// proves part of X-20
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	text, err := json.Marshal(compiled())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.json", text, 0o644)
	l, err := Load(good)
	if err != nil || !reflect.DeepEqual(l, compiled()) {
		t.Errorf("got %+v, %v", l, err)
	}
	if err := errors.Join(os.Symlink(good, filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	full := append(slices.Clone(text), strings.Repeat(" ", maxFile-len(text))...)
	if _, err := Load(write("full.json", full, 0o600)); err != nil {
		t.Errorf("a file of the greatest size: %v", err)
	}
	for path, says := range map[string]string{
		filepath.Join(dir, "none"):                               "no such file",
		filepath.Join(dir, "link"):                               "must be a regular file, not a link",
		filepath.Join(dir, "fifo"):                               "must be a regular file",
		dir:                                                      "must be a regular file",
		write("group.json", text, 0o664):                         "must not be writable by its group or by others (mode 0664)",
		write("others.json", text, 0o602):                        "must not be writable by its group or by others (mode 0602)",
		write("long.json", append(full, ' '), 0o600):             "must have at most 65536 bytes",
		write("empty.json", nil, 0o600):                          "body: is not JSON: it ends too early",
		write("field.json", []byte(`{"nmae":"x"}`), 0o600):       "nmae: is not known; known are name, title",
		write("type.json", []byte(`{"name":1}`), 0o600):          "name: must be a string, not a number",
		write("two.json", append(text, "{}"...), 0o600):          "body: has something behind its JSON value",
		write("invalid.json", []byte(`{"name":"X"}`), 0o600):     `name: "X": must match`,
		write("limit.json", []byte(`{"limits":{"a":1}}`), 0o600): "limits.a: is not known; known are wall_ms",
	} {
		l, err := Load(path)
		if err == nil || l != nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, path+": "+says)
		}
	}
}

// fileInfo is a regular file of some owner.
type fileInfo struct {
	uid  uint32
	mode fs.FileMode
}

func (f fileInfo) Name() string       { return "x" }
func (f fileInfo) Size() int64        { return 1 }
func (f fileInfo) Mode() fs.FileMode  { return f.mode }
func (f fileInfo) ModTime() time.Time { return time.Time{} }
func (f fileInfo) IsDir() bool        { return f.mode.IsDir() }
func (f fileInfo) Sys() any           { return &syscall.Stat_t{Uid: f.uid} }

// A file is trusted when root or the user owns it and nobody else may write it.
func TestTrusted(t *testing.T) {
	for _, is := range []struct {
		file fileInfo
		says string
	}{
		{fileInfo{0, 0o644}, ""}, {fileInfo{7, 0o600}, ""}, {fileInfo{8, 0o600}, "must be owned by root or by user 7, not by user 8"},
		{fileInfo{0, 0o620}, "must not be writable"}, {fileInfo{0, 0o646}, "must not be writable"}, {fileInfo{0, fs.ModeDir | 0o755}, "must be a regular file"},
	} {
		if err := trusted(is.file, 7); (err == nil) != (is.says == "") || err != nil && !strings.Contains(err.Error(), is.says) {
			t.Errorf("%+v: %v, want %q", is.file, err, is.says)
		}
	}
}

// Further languages come in their place, replace one of their name, and take
// nothing from another one.
func TestWith(t *testing.T) {
	l := compiled()
	more, err := Builtin().With(l)
	if err != nil || more.Find("x-1") != l || !slices.IsSorted(more.Names()) || len(more) != len(Builtin())+1 {
		t.Errorf("got %q, %v", more.Names(), err)
	}
	if Builtin().Find("x-1") != nil {
		t.Error("the set itself was changed")
	}
	if got := more.Detect("a.x", nil); got != "x-1" {
		t.Errorf("a.x is taken for %q", got)
	}
	mine := interpreted()
	mine.Name, mine.Extensions, mine.Interpreters = "python", []string{".py"}, nil
	if more, err = Builtin().With(mine); err != nil || more.Find("python") != mine || len(more) != len(Builtin()) {
		t.Errorf("got %q, %v", more.Names(), err)
	}
	invalid, py, sh, twice := compiled(), compiled(), compiled(), compiled()
	invalid.Title, py.Extensions, sh.Interpreters = "", []string{".py"}, []string{"sh"}
	for says, more := range map[string][]*Language{
		"title: must have":                         {invalid},
		"language: is missing":                     {nil},
		"extensions: .py: is of python and of x-1": {py},
		"interpreters: sh: is of bash and of x-1":  {sh},
		"name: x-1: is given twice":                {twice, compiled()},
	} {
		got, err := Builtin().With(more...)
		checkRefusal(t, err, says)
		if got != nil {
			t.Errorf("%s: a set all the same", says)
		}
	}
}

// The example of the documentation is a language, and its list of members whole.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/languages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```json\n")
	example, after, _ := strings.Cut(after, "```")
	l, err := decode([]byte(example))
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		t.Errorf("the example: %v", err)
	}
	for f := range reflect.TypeFor[Language]().Fields() {
		if name := f.Tag.Get("json"); !strings.Contains(after, "`"+name+"`") {
			t.Errorf("%s is not in the list", name)
		}
	}
	for _, place := range compilePlaces {
		if !strings.Contains(after, "`"+place+"`") {
			t.Errorf("%s is not told", place)
		}
	}
}
