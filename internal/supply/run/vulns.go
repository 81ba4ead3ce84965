package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/internal/supply"
)

// govulncheck is the scanner, pinned; the go command verifies its sum.
const govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"

// The database, and the module that it is made from, which can be had where only
// modules can.
const (
	database       = "https://vuln.go.dev"
	databaseModule = "golang.org/x/vulndb@latest"
	oldest         = 60 * 24 * time.Hour // of the module
)

// shipped is what users run: the library and the programs. It is scanned as source,
// which tells what is called; the built programs have no symbols to tell it by.
var shipped = []string{".", "./cmd/glovebox", "./cmd/glovebox-init", "./cmd/glovebox-js"}

// vulnerabilities scans what is shipped. Without a database
// nothing is scanned, nothing is counted as passed, and it says so. The last line is
// what .ci/run adds up.
func vulnerabilities() error {
	db, why := findDatabase()
	if db == "" {
		fmt.Println("no database of vulnerabilities can be had, so NOTHING WAS SCANNED:", why)
		fmt.Println("0 passed, 0 failed")
		return nil
	}
	fmt.Println("database:", why)
	passed, failed := 0, 0
	for _, what := range shipped {
		ok, err := scan(db, what)
		if err != nil {
			return err
		}
		if ok {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return errors.New("known vulnerabilities are called")
	}
	return nil
}

// scan scans one package with all that it is made of, and prints what was found.
func scan(db, what string) (ok bool, err error) {
	cmd := exec.Command("go", "run", govulncheck, "-format", "json", "-db", db, what)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("govulncheck %s: %w", what, err)
	}
	found, err := supply.ReadVulnerabilities(bytes.NewReader(out))
	if err != nil {
		return false, err
	}
	ok = true
	near, elsewhere, apart := 0, 0, 0
	for _, v := range found {
		switch {
		case v.Elsewhere:
			elsewhere++
			fmt.Printf("  %s %s: not on Linux: %s\n", v.ID, v.Package, v.Summary)
		case !v.Called:
			near++
		case supply.Unreachable(what, v.ID, v.Package) != "":
			apart++
			fmt.Printf("  %s %s: not reached: %s\n", v.ID, v.Package, supply.Unreachable(what, v.ID, v.Package))
		default:
			ok = false
			fmt.Printf("  %s %s: %s; mended in %s; %s\n", v.ID, v.Package, v.Summary, v.Fixed, v.Trace)
		}
	}
	fmt.Printf("%s: called: %v; in modules that are there and not called: %d; on other systems alone: %d; linked and not reached: %d\n", what, !ok, near, elsewhere, apart)
	return ok, nil
}

// findDatabase returns the address of a database and how old it is, or "" and why
// there is none.
func findDatabase() (db, why string) {
	client := http.Client{Timeout: 20 * time.Second}
	answer, err := client.Get(database + "/index/db.json")
	if err == nil {
		defer answer.Body.Close()
		var index struct {
			Modified time.Time `json:"modified"`
		}
		if answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(&index) == nil && !index.Modified.IsZero() {
			return database, fmt.Sprintf("%s, of %s", database, index.Modified.Format(time.DateOnly))
		}
		err = fmt.Errorf("%s answers %s", database, answer.Status)
	}
	// In a folder outside of this module, whose own list of modules it is not for.
	dir, err2 := os.MkdirTemp("", "glovebox-vulns-")
	if err2 != nil {
		return "", err2.Error()
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "mod", "download", "-json", databaseModule)
	cmd.Dir = dir
	text, err2 := cmd.Output()
	var m struct {
		Version, Dir, Info string
	}
	var info struct{ Time time.Time }
	if err2 == nil {
		err2 = json.Unmarshal(text, &m)
	}
	if err2 == nil {
		if text, err2 = os.ReadFile(m.Info); err2 == nil {
			err2 = json.Unmarshal(text, &info)
		}
	}
	age := time.Since(info.Time)
	switch {
	case err2 != nil:
		return "", fmt.Sprintf("%v; %s: %v", err, databaseModule, err2)
	case age > oldest:
		return "", fmt.Sprintf("%v; %s is of %s, which is too old", err, databaseModule, info.Time.Format(time.DateOnly))
	}
	return "file://" + filepath.Join(m.Dir, "data", "osv"),
		fmt.Sprintf("the module %s of %s, %d days old, since %v", m.Version, info.Time.Format(time.DateOnly), int(age.Hours()/24), err)
}
