package glovebox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// limitBounds are the bounds of every limit, as the contract has them.
func limitBounds(t *testing.T) map[string]struct{ floor, def, ceiling int64 } {
	t.Helper()
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	return map[string]struct{ floor, def, ceiling int64 }{
		"wall_ms":      {50, 10_000, 3_600_000},
		"cpu_ms":       {10, 10_000, 3_600_000},
		"cpu_percent":  {5, 100, 100 * int64(runtime.NumCPU())},
		"memory_bytes": {8 * mib, 256 * mib, int64(si.Totalram) * int64(si.Unit)},
		"pids":         {1, 64, 4096},
		"stdout_bytes": {0, mib, 64 * mib},
		"stderr_bytes": {0, mib, 64 * mib},
		"file_bytes":   {0, 64 * mib, 4 * gib},
		"open_files":   {16, 256, 65_536},
		"disk_bytes":   {64 << 10, 128 * mib, 4 * gib},
		"disk_files":   {16, 10_000, 1_000_000},
	}
}

// oneLimit sets a limit by its name.
func oneLimit(t *testing.T, name string, v int64) (l glovebox.Limits) {
	t.Helper()
	if err := json.Unmarshal(fmt.Appendf(nil, `{%q:%d}`, name, v), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// fieldError returns the FieldError that a program is refused with.
func fieldError(t *testing.T, b *glovebox.Box, p glovebox.Program) *glovebox.FieldError {
	t.Helper()
	_, err := b.Run(t.Context(), p)
	var field *glovebox.FieldError
	if err != nil && !errors.As(err, &field) {
		t.Errorf("not a FieldError: %v", err)
	}
	return field
}

// Every limit is taken at its floor and its ceiling and refused one beyond
// either, with its name, its value and both bounds; zero is the default. The
// table has every field there is.
//
// proves X-07
func TestSurviveLimitBounds(t *testing.T) {
	bounds := limitBounds(t)
	if n := reflect.TypeFor[glovebox.Limits]().NumField() - 1; n != len(bounds) { // Compile has the same again
		t.Errorf("%d limits, %d in the table", n, len(bounds))
	}
	def := api.DefaultLimits()
	ceilings := api.MaxLimits(runtime.NumCPU(), bounds["memory_bytes"].ceiling)
	for name, b := range bounds {
		for _, bad := range []int64{-1, b.floor - 1, b.ceiling + 1, -1 << 63, 1<<63 - 1} {
			if bad == 0 {
				continue // means the default
			}
			p := limited(glovebox.Program{Command: []string{"/bin/true"}}, oneLimit(t, name, bad))
			e := fieldError(t, box(t), p)
			if e == nil || e.Field != "limits."+name || e.Value != bad || !strings.Contains(e.Reason, fmt.Sprintf("between %d and %d", b.floor, b.ceiling)) {
				t.Errorf("%s %d: %v", name, bad, e)
			}
		}
		for _, good := range []int64{max(b.floor, 1), b.ceiling} {
			if got, err := oneLimit(t, name, good).Resolve(def, ceilings); err != nil || field(got, name) != good {
				t.Errorf("%s %d: %v, resolved to %d", name, good, err, field(got, name))
			}
		}
		if got, err := (glovebox.Limits{}).Resolve(def, ceilings); err != nil || field(got, name) != b.def {
			t.Errorf("%s: the default is %d: %v", name, field(got, name), err)
		}
	}
}

// field reads a limit by its name.
func field(l glovebox.Limits, name string) int64 {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return v.Field(i).Int()
		}
	}
	panic(name)
}

// Each floor and the ceilings that this machine can serve are run for real: what
// is accepted works.
func TestSurviveLimitFloors(t *testing.T) {
	for name, b := range limitBounds(t) {
		v := []int64{max(b.floor, 1)}
		if name != "memory_bytes" && name != "disk_bytes" {
			v = append(v, b.ceiling)
		}
		for _, v := range v {
			r := anyway(t, box(t), limited(glovebox.Program{Command: []string{"/bin/true"}}, oneLimit(t, name, v)))
			wantEnd(t, fmt.Sprintf("%s %d", name, v), r, "ok 0")
		}
	}
}

// The owner of a Box lowers ceilings, never raises them; a default above a
// lowered ceiling is lowered with it; what makes no sense is refused by New.
//
// proves part of X-07 B-09
func TestSurviveMaxLimits(t *testing.T) {
	o := options()
	o.MaxLimits = glovebox.Limits{WallMS: 2000, Pids: 3, MemoryBytes: 1 << 60, StdoutBytes: 10}
	b := newBox(t, o)
	for name, bad := range map[string]int64{"wall_ms": 2001, "pids": 4, "stdout_bytes": 11, "memory_bytes": 1 << 60} {
		if e := fieldError(t, b, limited(glovebox.Program{Command: []string{"/bin/true"}}, oneLimit(t, name, bad))); e == nil || e.Field != "limits."+name {
			t.Errorf("%s %d: %v", name, bad, e)
		}
	}
	r := anyway(t, b, limited(cProgram(t, countTasks, "-pthread"), glovebox.Limits{}))
	if r.Stdout != "3 11\n" {
		t.Errorf("the default of pids under a ceiling of 3: %q", r.Stdout)
	}
	wantEnd(t, "stdout", anyway(t, b, glovebox.Program{Command: []string{"echo", "0123456789"}}), "output_limit stdout")
	wantEnd(t, "wall", timely(t, b, limited(cProgram(t, sleepForever), glovebox.Limits{WallMS: 2000})), "timeout wall")

	for name, bounds := range limitBounds(t) {
		for _, bad := range []int64{-1, bounds.floor - 1} {
			if bad == 0 {
				continue
			}
			o := options()
			o.MaxLimits = oneLimit(t, name, bad)
			b, err := glovebox.New(o)
			var field *glovebox.FieldError
			if !errors.As(err, &field) || field.Field != "MaxLimits."+name {
				t.Errorf("MaxLimits.%s %d: %v", name, bad, err)
			}
			if err == nil {
				b.Close()
			}
		}
	}
	o = options()
	o.MaxCells = -1
	if _, err := glovebox.New(o); err == nil || !strings.Contains(err.Error(), "MaxCells") {
		t.Errorf("MaxCells -1: %v", err)
	}
}

// badProgram is one that is refused for a field.
type badProgram struct {
	field string
	p     glovebox.Program
}

// badPrograms is long because it is a table.
func badPrograms() []badProgram {
	py := func(change func(*glovebox.Program)) glovebox.Program {
		p := python("print(1)")
		change(&p)
		return p
	}
	files := func(f ...glovebox.File) glovebox.Program { return glovebox.Program{Language: "python", Files: f} }
	long := strings.Repeat("x", 200_000)
	return []badProgram{
		{"language", glovebox.Program{}},
		{"language", glovebox.Program{Source: "1"}},
		{"language", glovebox.Program{Language: "cobol", Source: "1"}},
		{"language", glovebox.Program{Language: "../python", Source: "1"}},
		{"source", glovebox.Program{Language: "python"}},
		{"source", py(func(p *glovebox.Program) { p.Files = []glovebox.File{{Name: "a"}} })},
		{"source", py(func(p *glovebox.Program) { p.Source = strings.Repeat("#", 8*mib+1) })},
		{"source", glovebox.Program{Source: "x", Command: []string{"/bin/true"}}},
		{"command", py(func(p *glovebox.Program) { p.Command = []string{"x"} })},
		{"command[1]", glovebox.Program{Command: []string{"echo", "a\x00b"}}},
		{"command[0]", glovebox.Program{Command: []string{long}}},
		{"command", glovebox.Program{Command: make([]string, 1001)}},
		{"args[0]", py(func(p *glovebox.Program) { p.Args = []string{"\x00"} })},
		{"args[2]", py(func(p *glovebox.Program) { p.Args = []string{"", "", long} })},
		{"args", py(func(p *glovebox.Program) { p.Args = make([]string, 1001) })},
		{"env", py(func(p *glovebox.Program) { p.Env = map[string]string{"": "x"} })},
		{"env", py(func(p *glovebox.Program) { p.Env = map[string]string{"A=B": "x"} })},
		{"env", py(func(p *glovebox.Program) { p.Env = map[string]string{"1A": "x"} })},
		{"env", py(func(p *glovebox.Program) { p.Env = map[string]string{"Ä": "x"} })},
		{"env", py(func(p *glovebox.Program) { p.Env = map[string]string{"A\x00": "x"} })},
		{"env.A", py(func(p *glovebox.Program) { p.Env = map[string]string{"A": "x\x00y"} })},
		{"env.A", py(func(p *glovebox.Program) { p.Env = map[string]string{"A": long} })},
		{"network", py(func(p *glovebox.Program) { p.Network = "host" })},
		{"isolation", py(func(p *glovebox.Program) { p.Isolation = "vm" })},
		{"entry", py(func(p *glovebox.Program) { p.Entry = "b.py" })},
		{"files[0].name", files(glovebox.File{Name: ""})},
		{"files[0].name", files(glovebox.File{Name: "/etc/passwd"})},
		{"files[0].name", files(glovebox.File{Name: "../x"})},
		{"files[0].name", files(glovebox.File{Name: "a/../b"})},
		{"files[0].name", files(glovebox.File{Name: "a//b"})},
		{"files[0].name", files(glovebox.File{Name: "a/./b"})},
		{"files[0].name", files(glovebox.File{Name: "a/"})},
		{"files[0].name", files(glovebox.File{Name: "a\x00b"})},
		{"files[0].name", files(glovebox.File{Name: "a\nb"})},
		{"files[0].name", files(glovebox.File{Name: "\xff"})},
		{"files[0].name", files(glovebox.File{Name: "-rf"})},
		{"files[0].name", files(glovebox.File{Name: "@resp"})},
		{"files[0].name", files(glovebox.File{Name: strings.Repeat("n", 256)})},
		{"files[0].name", files(glovebox.File{Name: strings.Repeat("d/", 16) + "f"})},
		{"files[1].name", files(glovebox.File{Name: "a"}, glovebox.File{Name: "a"})},
		{"files[1].name", files(glovebox.File{Name: "a"}, glovebox.File{Name: "a/b"})},
		{"files[1].name", files(glovebox.File{Name: "a/b/c"}, glovebox.File{Name: "a/b"})},
		{"files[0].content", files(glovebox.File{Name: "a", Content: "\xff"})},
		{"files[0].content", files(glovebox.File{Name: "a", Content: "!", Encoding: "base64"})},
		{"files[0].content", files(glovebox.File{Name: "a", Encoding: "rot13"})},
		{"files[0].mode", files(glovebox.File{Name: "a", Mode: 0o4755})},
		{"files", files(make([]glovebox.File, 1001)...)},
		{"files", files(glovebox.File{Name: "a", Content: strings.Repeat("x", 8*mib)}, glovebox.File{Name: "b", Content: "y"})},
		{"profile", py(func(p *glovebox.Program) { p.Profile = "nonsense" })},
		{"profile", py(func(p *glovebox.Program) { p.Profile = "../language" })},
	}
}

// A program that is not well formed is refused before a cell is taken, with the
// name of the field.
//
// proves part of X-07 X-08
func TestSurviveProgramFields(t *testing.T) {
	for i, c := range badPrograms() {
		if e := fieldError(t, box(t), c.p); e == nil || e.Field != c.field {
			t.Errorf("case %d: %v, want the field %s", i, e, c.field)
		}
	}
}
