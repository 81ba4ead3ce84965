package main

import (
	"os"
	"path/filepath"
	"regexp"
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
