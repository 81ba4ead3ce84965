package mutations

import (
	"fmt"
	"os"
	"path/filepath"
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
	layers := map[string]int{}
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
		layers[strings.Split(m.File, "/")[1]]++
	}
	for _, layer := range []string{"cell", "cellinit", "seccomp", "landlock", "attest", "cgroup"} {
		if layers[layer] == 0 {
			t.Errorf("no mutation of internal/%s", layer)
		}
	}
	if len(all) < 40 {
		t.Errorf("only %d mutations", len(all))
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
		if strings.Contains(string(raw), fmt.Sprintf("func %s(t *testing.T)", name)) {
			return true
		}
	}
	return false
}

// A list that is not whole is refused.
func TestParse(t *testing.T) {
	good := "# a remark\n\nname of it\nfile a/b.go\n- if x {\n- \ty()\n+ if false {\n+ \ty()\ntest ./a TestB\n"
	all, err := Parse(good)
	if err != nil || len(all) != 1 || all[0] != (Mutation{"name of it", "a/b.go", "if x {\n\ty()", "if false {\n\ty()", "./a", "TestB"}) {
		t.Errorf("%+v, %v", all, err)
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
