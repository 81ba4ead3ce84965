package mutations

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Every mutation of the list still fits the tree: its text is there once, and its test exists. That the test
// notices is for the command to show.
//
// proves part of X-23
func TestListFits(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	guarded := map[string]int{} // by folder and by file
	for _, m := range all {
		raw, err := os.ReadFile(filepath.Join(testenv.Root(), m.File))
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if _, err := m.Apply(string(raw)); err != nil {
			t.Error(err)
		}
		name, _, _ := strings.Cut(m.Test, "/")
		if !hasTest(t, m.Package, name) {
			t.Errorf("%s: %s has no test %s", m.Name, m.Package, name)
		}
		guarded[m.File]++
		guarded[filepath.Dir(m.File)]++
	}
	for _, where := range []string{"internal/cell", "internal/cellinit", "internal/seccomp", "internal/landlock", "internal/attest", "internal/cgroup",
		"internal/cellproto", "internal/cell/collect.go", "internal/cell/compile.go", "internal/cell/watch.go", "internal/cell/cell.go", "internal/cell/launcher.go",
		"internal/cellinit/collect.go", "internal/cellinit/files.go", "internal/cellinit/seal.go", "internal/cellinit/signals_unsafe.go", "api", "languages"} {
		if guarded[where] == 0 {
			t.Errorf("no mutation of %s", where)
		}
	}
	quick := slices.DeleteFunc(slices.Clone(all), func(m Mutation) bool { return m.Slow })
	if len(all) < 100 || len(quick) < len(all)*2/3 {
		t.Errorf("only %d mutations, %d of them quick", len(all), len(quick))
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(), dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), fmt.Sprintf("func %s(t *testing.T)", name)) || strings.Contains(string(raw), fmt.Sprintf("func %s(f *testing.F)", name)) {
			return true
		}
	}
	return false
}

// A list that is not whole is refused.
func TestParse(t *testing.T) {
	good := "# a remark\n\nname of it\nfile a/b.go\n- if x {\n- \ty()\n+ if false {\n+ \ty()\ntest ./a TestB\n"
	all, err := Parse(good)
	if err != nil || len(all) != 1 || all[0] != (Mutation{"name of it", "a/b.go", "if x {\n\ty()", "if false {\n\ty()", "./a", "TestB", false}) {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := Parse(good + "slow\n"); err != nil || !all[0].Slow {
		t.Errorf("slow: %+v, %v", all, err)
	}
	for _, bad := range []string{"name\nfile a\ntest a TestB", "name\nfile a\n- x\n+ x\ntest a TestB", "name\nfile a\n- x", "name\nwhat\n",
		good + "\n" + good} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for text, ok := range map[string]bool{"a if x {\n\ty() b": true, "if x {": false, "if x {\n\ty()if x {\n\ty()": false} {
		if out, err := all[0].Apply(text); (err == nil) != ok || ok && out != "a if false {\n\ty() b" {
			t.Errorf("%q: %q, %v", text, out, err)
		}
	}
}
