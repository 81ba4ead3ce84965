package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEachExample: each program of this folder has a test that proves part of T-15,
// runs what is built, and stands in the list.
//
// proves T-15
func TestEachExample(t *testing.T) {
	list, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob("../*/main.go")
	if err != nil || len(programs) < 8 {
		t.Fatalf("%d programs: %v", len(programs), err)
	}
	runs := regexp.MustCompile(`(?s)// proves part of T-15\nfunc Test\w+\(t \*testing\.T\).*testenv\.(Built\(t, "\./examples/|Command\(\))`)
	for _, p := range programs {
		name := filepath.Base(filepath.Dir(p))
		test, err := os.ReadFile(filepath.Join("..", name, "main_test.go"))
		if err != nil || !runs.Match(test) {
			t.Errorf("%s has no test that runs it: %v", name, err)
		}
		if !strings.Contains(string(list), "| ["+name+"]("+name+"/main.go) | ") {
			t.Errorf("%s is not in README.md", name)
		}
	}
}
