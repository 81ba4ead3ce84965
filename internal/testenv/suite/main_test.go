package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// A test that skips itself counts as failed, parts of tests are not counted, and
// a package that dies without a failed test counts once.
//
// proves part of T-17
func TestCount(t *testing.T) {
	const events = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestGood/part"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad/part","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestBad/part"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"skip","Package":"p","Test":"TestLazy"}
{"Action":"fail","Package":"p","Elapsed":1.5}
{"Action":"output","Package":"q","Test":"TestDies","Output":"panic\n"}
{"Action":"fail","Package":"q"}
{"Action":"output","Package":"r","Output":"? r [no test files]\n"}
{"Action":"skip","Package":"r"}
{"Action":"build-output","ImportPath":"s","Output":"s.go:1: no\n"}
{"Action":"pass","Package":"u","Test":"TestGood"}
{"Action":"pass","Package":"u"}
go: not an event
`
	var c count
	var out strings.Builder
	if err := c.read(strings.NewReader(events), &out); err != nil {
		t.Fatal(err)
	}
	if want := (count{passed: 2, failed: 3}); c != want {
		t.Errorf("counted %+v, want %+v", c, want)
	}
	for _, part := range []string{"the reason\n", "SKIPPED, which counts as failed: p.TestLazy\n", "FAIL  p  1.5 s\n", "panic\n", "FAIL  q", "s.go:1: no\n", "ok    u  1 tests", "go: not an event\n"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("output lacks %q:\n%s", part, &out)
		}
	}
	if strings.Contains(out.String(), "quiet") {
		t.Errorf("a test that passed is heard:\n%s", &out)
	}
}

// What is deselected is listed, by the same rule.
//
// proves part of T-17
func TestDeselected(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go":          "package a\nfunc TestOneAsRoot(t *T) {}\nfunc TestTwo(t *T) {}\nfunc TestThreeOnV2AsUser(t *T) {}\nfunc TestOnVMFour(t *T) {}\n",
		"a/testdata/x_test.go": "package x\nfunc TestNoAsRoot(t *T) {}\n",
		"vendor/v/v_test.go":   "package v\nfunc TestNoAsRoot(t *T) {}\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parts := []string{"AsRoot", "OnV2", testenv.OnVM}
	got, err := named(root, parts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.TestOneAsRoot", "a.TestThreeOnV2AsUser", "a.TestOnVMFour"}, got); diff != "" {
		t.Errorf("deselected (-want +got):\n%s", diff)
	}
	top := regexp.MustCompile(strings.Split(testenv.SkipPattern(parts), "|/")[0])
	if !top.MatchString("TestOneAsRoot") || !regexp.MustCompile(testenv.SkipPattern(parts)).MatchString("TestOnVMFour") || top.MatchString("TestTwo") {
		t.Errorf("pattern %q", testenv.SkipPattern(parts))
	}
}

func TestCgroupPart(t *testing.T) {
	for mount, want := range map[string]string{
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n": "OnV2",
		"41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n":                                          "OnV1",
	} {
		if got := testenv.CgroupPart(mount); got != want {
			t.Errorf("%q: %s is deselected, want %s", mount, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	in, others := split([]string{"m/a", "m/a/b", "m/c"}, []string{"m/a"})
	if diff := cmp.Diff([][]string{{"m/a"}, {"m/a/b", "m/c"}}, [][]string{in, others}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What starts something beside itself is seen, in whatever way, and a package that
// does not, nor uses one that does, is calm.
//
// proves part of T-17
func TestCalm(t *testing.T) {
	for source, want := range map[string]bool{
		"go f()": true, "t.Parallel()": true, "time.AfterFunc(1, f)": true, "f()": false, "defer f()": false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package p\nfunc g() {"+source+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := concurrent(file); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	write := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(name)
	}
	still, moving := write("a.go", "package a\n"), write("a.go", "package a\nfunc f() { go f() }\n")
	all := map[string]*unit{
		"m/still":  {ImportPath: "m/still", Dir: still, GoFiles: []string{"a.go"}, Imports: []string{"os", "strings"}},
		"m/moves":  {ImportPath: "m/moves", Dir: moving, GoFiles: []string{"a.go"}},
		"m/tests":  {ImportPath: "m/tests", Dir: moving, TestGoFiles: []string{"a.go"}},
		"m/uses":   {ImportPath: "m/uses", Dir: still, GoFiles: []string{"a.go"}, Imports: []string{"m/via"}},
		"m/via":    {ImportPath: "m/via", Dir: still, GoFiles: []string{"a.go"}, Imports: []string{"m/moves"}},
		"m/own":    {ImportPath: "m/own", Dir: still, XTestGoFiles: []string{"a.go"}, XTestImports: []string{"m/own", "m/tests", "github.com/google/go-cmp/cmp"}},
		"m/locks":  {ImportPath: "m/locks", Dir: still, GoFiles: []string{"a.go"}, Imports: []string{"sync"}},
		"m/server": {ImportPath: "m/server", Dir: still, TestGoFiles: []string{"a.go"}, TestImports: []string{"net/http/httptest"}},
		"m/others": {ImportPath: "m/others", Dir: still, GoFiles: []string{"a.go"}, Imports: []string{"example.com/x"}},
	}
	got, err := calm(all)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"m/own", "m/still"}, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

// Of this tree, what has goroutines is raced, and the packages that run once exist.
func TestCalmHere(t *testing.T) {
	all, err := units(module + "/...")
	if err != nil {
		t.Fatal(err)
	}
	still, err := calm(all)
	if err != nil {
		t.Fatal(err)
	}
	for pkg, want := range map[string]bool{"js": false, "internal/cell": false, "agent": false, "internal/wire": false, "internal/script": true, "internal/cellproto": true} {
		if got := slices.Contains(still, module+"/"+pkg); got != want {
			t.Errorf("%s is calm: %v", pkg, got)
		}
	}
	if slices.Contains(still, module) {
		t.Error("the module's own package is calm")
	}
	for _, o := range once {
		if all[module+"/"+o.pkg] == nil || o.reason == "" {
			t.Errorf("there is no %s, or no reason", o.pkg)
		}
	}
}
