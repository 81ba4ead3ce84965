package redteam

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/tools/txtar"

	"github.com/glovebox-dev/glovebox/api"
)

//go:embed */*.txtar common/*
var battery embed.FS

// The groups of attacks, in the order in which they are shown.
var groups = []string{
	"filesystem", "network", "process", "memory", "kernel", "identity", "ipc", "terminal", "artifacts", "exhaustion",
	"init", "shared", "compile", "classics",
}

// attack is one file of the battery. Its header is a line "key: value" each,
// see keys; its files are the program's, the first one the entry.
type attack struct {
	group, name string
	claim       string   // what does not happen, in one sentence
	ids         []string // of docs/scope.txt
	layers      []string // that stop it; see layers
	reaches     []string // what it gets at where it gets through; see reachable
	language    string   // python, sh or c
	needs       string   // a language beside its own
	wants       string   // what a host may refuse every program, so that the control would be stopped too
	abi         int      // of Landlock, from which on it stops the attack
	arch        string   // the only machine that has what it attacks
	profile     string   // of the system call filter; empty: language
	source      bool     // c: the source itself is the attack, the product's own compile step runs it
	args        []string // {canary} and so on are filled in, see fixtures
	env         []string // NAME=VALUE
	loopback    bool
	limits      api.Limits
	artifacts   []string
	single      bool   // one system call, fired once
	as          string // root, user or any
	fixtures    []string
	sealed      expect // in a whole cell
	off         []string
	control     expect // in a cell without off
	files       []file
	bystander   *program // runs beside the attack, in another cell of the same host
}

// program is what runs beside an attack.
type program struct {
	name string // of its entry
	data []byte
}

type file struct {
	name string
	data []byte
}

// expect is how one of the two runs must end. Everything is checked: the
// verdict, each line of the output, and what the host sees.
type expect struct {
	verdicts []string // any of these; see ended
	lines    []string // of stdout, all of them in order; see match
	host     []string // checks of the host: the name and its arguments, see checks
	beside   []string // lines of the bystander's stdout after "ready"
}

// keys are the keys of a header. Those that may come more than once add up.
var keys = map[string]func(a *attack, v string) error{
	"claim":    func(a *attack, v string) error { return once(&a.claim, v) },
	"id":       func(a *attack, v string) error { a.ids = strings.Fields(v); return nil },
	"layer":    func(a *attack, v string) error { a.layers = strings.Fields(v); return nil },
	"reaches":  func(a *attack, v string) error { a.reaches = strings.Fields(v); return nil },
	"language": func(a *attack, v string) error { return once(&a.language, v) },
	"landlock": func(a *attack, v string) (err error) { a.abi, err = strconv.Atoi(v); return err },
	"arch":     func(a *attack, v string) error { return errors.Join(once(&a.arch, v), oneOf(v, "amd64", "arm64")) },
	"needs":    func(a *attack, v string) error { return errors.Join(once(&a.needs, v), oneOf(v, "python", "c")) },
	"wants":    func(a *attack, v string) error { return errors.Join(once(&a.wants, v), oneOf(v, "user-namespaces")) },
	"profile":  func(a *attack, v string) error { return once(&a.profile, v) },
	"args":     func(a *attack, v string) error { a.args = strings.Fields(v); return nil },
	"env":      func(a *attack, v string) error { a.env = append(a.env, v); return nil },
	"network": func(a *attack, v string) error {
		a.loopback = v == "loopback"
		return oneOf(v, "none", "loopback")
	},
	"limits": func(a *attack, v string) error { return readLimits(&a.limits, v) },
	"compile-limits": func(a *attack, v string) error {
		a.limits.Compile = &api.Limits{}
		return readLimits(a.limits.Compile, v)
	},
	"artifacts":      func(a *attack, v string) error { a.artifacts = strings.Fields(v); return nil },
	"fired":          func(a *attack, v string) error { a.source = v == "by-compiling"; return oneOf(v, "by-compiling") },
	"single":         func(a *attack, v string) error { a.single = true; return oneOf(v, "yes") },
	"as":             func(a *attack, v string) error { return errors.Join(once(&a.as, v), oneOf(v, "root", "user")) },
	"fixture":        func(a *attack, v string) error { a.fixtures = append(a.fixtures, strings.Fields(v)...); return nil },
	"sealed":         func(a *attack, v string) error { a.sealed.verdicts = alternatives(v); return nil },
	"said":           func(a *attack, v string) error { a.sealed.lines = append(a.sealed.lines, v); return nil },
	"host":           func(a *attack, v string) error { a.sealed.host = append(a.sealed.host, v); return nil },
	"beside":         func(a *attack, v string) error { a.sealed.beside = append(a.sealed.beside, v); return nil },
	"off":            func(a *attack, v string) error { a.off = strings.Fields(v); return nil },
	"control":        func(a *attack, v string) error { a.control.verdicts = alternatives(v); return nil },
	"through":        func(a *attack, v string) error { a.control.lines = append(a.control.lines, v); return nil },
	"control-host":   func(a *attack, v string) error { a.control.host = append(a.control.host, v); return nil },
	"through-beside": func(a *attack, v string) error { a.control.beside = append(a.control.beside, v); return nil },
}

func once(to *string, v string) error {
	if *to != "" {
		return errors.New("is given twice")
	}
	*to = v
	return nil
}

func oneOf(v string, words ...string) error {
	if !slices.Contains(words, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
	}
	return nil
}

func alternatives(v string) []string {
	var out []string
	for _, s := range strings.Split(v, "|") {
		out = append(out, strings.TrimSpace(s))
	}
	return out
}

// limitNames are the limits that a file may set: NAME=NUMBER, with MiB behind a
// number of bytes.
func limitField(l *api.Limits, name string) *int64 {
	switch name {
	case "wall_ms":
		return &l.WallMS
	case "cpu_ms":
		return &l.CPUMS
	case "cpu_percent":
		return &l.CPUPercent
	case "memory":
		return &l.MemoryBytes
	case "pids":
		return &l.Pids
	case "stdout":
		return &l.StdoutBytes
	case "stderr":
		return &l.StderrBytes
	case "file":
		return &l.FileBytes
	case "open_files":
		return &l.OpenFiles
	case "disk":
		return &l.DiskBytes
	case "disk_files":
		return &l.DiskFiles
	}
	return nil
}

func readLimits(l *api.Limits, v string) error {
	for _, word := range strings.Fields(v) {
		name, value, _ := strings.Cut(word, "=")
		to := limitField(l, name)
		if to == nil {
			return fmt.Errorf("there is no limit %q", name)
		}
		number, mib := strings.CutSuffix(value, "MiB")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is no limit", word)
		}
		if *to = n; mib {
			*to = n << 20
		}
	}
	return nil
}

// load reads the whole battery, once. An error names the file and the key.
var load = sync.OnceValues(func() ([]*attack, error) {
	var all []*attack
	var errs []error
	for _, g := range groups {
		entries, err := fs.ReadDir(battery, g)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the rules of the battery miss it
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			b, err := battery.ReadFile(path.Join(g, e.Name()))
			if err != nil {
				return nil, err
			}
			a, err := parse(g, strings.TrimSuffix(e.Name(), ".txtar"), b)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s/%s: %w", g, e.Name(), err))
				continue
			}
			all = append(all, a)
		}
	}
	return all, errors.Join(errs...)
})

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parse reads one file and refuses what is not whole.
func parse(group, name string, b []byte) (*attack, error) {
	ar := txtar.Parse(b)
	a := &attack{group: group, name: name}
	for line := range strings.Lines(string(ar.Comment)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, v, _ := strings.Cut(line, ":")
		set := keys[key]
		if set == nil {
			return nil, fmt.Errorf("unknown key %q", key)
		}
		if v = strings.TrimSpace(v); v == "" {
			return nil, fmt.Errorf("%s: is empty", key)
		}
		if err := set(a, v); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, f := range ar.Files {
		if base := strings.TrimSuffix(f.Name, path.Ext(f.Name)); base == "bystander" {
			a.bystander = &program{f.Name, f.Data}
			continue
		}
		a.files = append(a.files, file{f.Name, f.Data})
	}
	if a.sealed.verdicts == nil {
		a.sealed.verdicts = []string{"ok 0"}
	}
	if a.control.verdicts == nil {
		a.control.verdicts = []string{"ok 0"}
	}
	return a, a.check()
}

// check wants every part and every name to be known.
func (a *attack) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(nameForm.MatchString(a.name), "the name must match %s", nameForm)
	want(strings.HasSuffix(a.claim, ".") && len(a.claim) < 200, "claim: must be one sentence that ends with a full stop")
	want(len(a.ids) > 0, "id: is missing")
	want(len(a.layers) > 0, "layer: is missing")
	want(oneOf(a.language, "python", "sh", "c") == nil, "language: %q is not python, sh or c", a.language)
	want(len(a.files) > 0, "there is no program")
	want(len(a.off) > 0, "off: is missing")
	want(!a.source || a.language == "c", "fired: only c is compiled")
	want(len(a.sealed.lines)+len(a.sealed.host) > 0 || a.sealed.verdicts[0] != "ok 0", "nothing is expected of the sealed run")
	want(len(a.control.lines)+len(a.control.host) > 0 || !slices.Equal(a.control.verdicts, a.sealed.verdicts), "nothing tells the control from the sealed run")
	want(a.bystander != nil || len(a.sealed.beside)+len(a.control.beside) == 0, "beside: there is no bystander")
	for _, f := range a.fixtures {
		want(fixtures[f] != nil, "fixture: there is no %q", f)
	}
	for _, c := range slices.Concat(a.sealed.host, a.control.host) {
		name, _, _ := strings.Cut(c, " ")
		want(checks[name] != nil, "host: there is no check %q", name)
	}
	for _, v := range slices.Concat(a.sealed.verdicts, a.control.verdicts) {
		first, _, _ := strings.Cut(v, " ")
		want(oneOf(first, "ok", "error", "timeout", "memory_limit", "output_limit", "compile_error", "denied") == nil, "%q is no verdict of a program", v)
	}
	errs = append(errs, a.checkLayers(), a.checkReaches())
	return errors.Join(errs...)
}

// id is how an attack is called.
func (a *attack) id() string { return a.group + "/" + a.name }
