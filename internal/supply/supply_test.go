package supply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func licences(t *testing.T) (*Licences, string) {
	t.Helper()
	apache, err := os.ReadFile(filepath.Join(testenv.Root(), "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLicences(string(apache))
	if err != nil {
		t.Fatal(err)
	}
	return l, string(apache)
}

// Each allowed licence is known by its words, whoever has the copyright, and one
// with a word more, less or other is not.
//
// proves part of T-18
func TestLicences(t *testing.T) {
	l, apache := licences(t)
	whole := map[string]string{"Apache-2.0": apache}
	for name, text := range texts {
		text = strings.Replace(text, "COPYRIGHT ANYNAME OR", "COPYRIGHT OWNER OR", 1)
		whole[name] = "The MIT License (MIT)\n\nCopyright (c) 2018 A. U. Thor, Inc.\nAll rights reserved.\n\n" + strings.ReplaceAll(text, "ANYNAME", "the copyright holder")
		if name != "MIT" {
			whole[name] = strings.TrimPrefix(whole[name], "The MIT License (MIT)")
		}
	}
	if len(whole) != len(Allowed) {
		t.Errorf("%d texts for %v", len(whole), Allowed)
	}
	for name, text := range whole {
		if got := l.Name(text); got != name {
			t.Errorf("%s is taken for %q", name, got)
		}
		for what, other := range map[string]string{
			"a condition more": text + "\nThe Software shall not be sold.\n", "a word less": strings.Replace(text, "WARRANTIES", "", 1),
			"another word": strings.Replace(strings.Replace(text, "without", "with", 1), "Contributor ", "User ", 1), "nothing": "",
			"a condition first": "Not for military use.\n" + text,
		} {
			if got := l.Name(other); got != "" {
				t.Errorf("%s with %s is taken for %s", name, what, got)
			}
		}
	}
	for _, text := range []string{"GNU GENERAL PUBLIC LICENSE Version 3", "Mozilla Public License Version 2.0", "Copyright 2026 me. All rights reserved."} {
		if got := l.Name(text); got != "" {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
	if _, err := NewLicences("something else"); err == nil {
		t.Error("another text is taken for the Apache License")
	}
}

// A file may have several licences, each of them allowed and nothing else.
//
// proves part of T-18
func TestLicencesOfParts(t *testing.T) {
	l, apache := licences(t)
	const line = "\n------------------\n"
	mit := "Copyright (c) 2018 A. U. Thor\n\n" + texts["MIT"]
	if got := l.Name(mit + line + "\nFiles: a/*\nFiles: b/c/*\n\n" + apache + line + mit); got != "Apache-2.0 AND MIT" {
		t.Errorf("two licences are taken for %q", got)
	}
	for what, text := range map[string]string{
		"a third part":          mit + line + apache + line + "Not for military use.",
		"an empty part":         mit + line + line + apache,
		"words before a part":   mit + line + "Files: a/*\nBut not these.\n" + apache,
		"words behind a part":   mit + line + apache + "\nBut not these.\n",
		"parts without licence": "Files: a/*" + line + "Files: b/*",
		"a line for the first":  "Files: a/*\n" + mit + line + mit,
	} {
		if got := l.Name(text); got != "" {
			t.Errorf("%s: taken for %q", what, got)
		}
	}
}

// A module must have one file with a licence, and that a known one.
//
// proves part of T-18
func TestFind(t *testing.T) {
	l, apache := licences(t)
	for want, files := range map[string]map[string]string{
		"":                       {"LICENSE": apache},
		"0 files with a licence": {"README": "x"},
		"2 files with a licence": {"LICENSE": apache, "LICENSE.docs": "x"},
		"none of Apache-2.0":     {"COPYING": "do what you like"},
	} {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m := &Module{Path: "example.org/m", Version: "v1.0.0", Dir: dir}
		err := l.Find(m)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && m.Licence != "Apache-2.0" {
			t.Errorf("%v: %v %q, want %q", files, err, m.Licence, want)
		}
	}
}

// A licence that a person has read is that very file; a byte more is another.
func TestRead(t *testing.T) {
	l, _ := licences(t)
	text := "Some rights.\n"
	Read[fmt.Sprintf("%x", sha256.Sum256([]byte(text)))] = "MIT AND ISC"
	dir := t.TempDir()
	for _, c := range [][2]string{{text, "MIT AND ISC"}, {text + "\n", ""}} {
		if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(c[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		m := &Module{Path: "example.org/m", Version: "v1.0.0", Dir: dir}
		if err := l.Find(m); m.Licence != c[1] || (err == nil) != (c[1] != "") {
			t.Errorf("%q: %q %v", c[0], m.Licence, err)
		}
	}
}

func TestSums(t *testing.T) {
	got, err := Sums(strings.NewReader("a v1 h1:x=\na v1/go.mod h1:y=\nb v2/go.mod h1:z=\nc v3 h1:z=\n"))
	if want := map[string]bool{"a v1": true}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"a v1", "a v1 h2:x="} {
		if _, err := Sums(strings.NewReader(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// A tool is fetched in one version, written down, or it is found.
//
// proves part of T-18
func TestUnpinned(t *testing.T) {
	for text, want := range map[string]int{
		"V = v1.2.3\n\tGOBIN=x $(GO) install a.org/b/c@$(V)": 0, "go run a.org/b@v0.1.0 ./...": 0, "go install ./cmd/x": 0,
		"go install a.org/b@latest": 1, "V = latest\n\t$(GO) install a.org/b@$(V)": 1, "$(GO) install a.org/b@$(V)": 1, "go get a.org/b@v1.2": 1,
		"go run a.org/b@main && go run a.org/c@v1.0.0": 1,
	} {
		if got := Unpinned("f", text); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

func sample() *Document {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.org/m"}, Deps: []*debug.Module{
		{Path: "a.org/b", Version: "v1.0.0", Sum: "h1:x="}, {Path: "a.org/c", Version: "v2.0.0", Replace: &debug.Module{Path: "a.org/d", Version: "v3.0.0"}}}}
	return Bill([]Program{{"one", []byte("1"), info}, {"two", []byte("2"), info}}, func(string) string { return "MIT" }, time.Unix(1000, 0))
}

// The list of parts has each program with its digest, each module of its build
// once, and is what SPDX requires; what is not is refused.
//
// proves part of T-18
func TestBill(t *testing.T) {
	d := sample()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, p := range d.Packages {
		names = append(names, p.Name+" "+p.Version)
	}
	if want := []string{"one NOASSERTION", "std 1.26.8", "a.org/b v1.0.0", "a.org/d v3.0.0", "two NOASSERTION"}; !cmp.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if len(d.Relationships) != 8 || d.Packages[0].Checksums[0].Value[:8] != "6b86b273" || d.CreationInfo.Created != "1970-01-01T00:16:40Z" {
		t.Errorf("%+v", d)
	}
	again, _ := json.Marshal(sample())
	if first, _ := json.Marshal(d); string(first) != string(again) {
		t.Error("the same build gives another list")
	}
	for part, spoil := range map[string]func(*Document){
		"spdxVersion": func(d *Document) { d.SPDXVersion = "SPDX-9" }, "dataLicense": func(d *Document) { d.DataLicense = "" },
		"SPDXID": func(d *Document) { d.SPDXID = "x" }, "name is empty": func(d *Document) { d.Name = "" },
		"documentNamespace": func(d *Document) { d.Namespace = "x" }, "created": func(d *Document) { d.CreationInfo.Created = "today" },
		"no creator": func(d *Document) { d.CreationInfo.Creators = nil }, "creator \"me\"": func(d *Document) { d.CreationInfo.Creators = []string{"me"} },
		"there twice": func(d *Document) { d.Packages[1].SPDXID = d.Packages[0].SPDXID }, "a field is empty": func(d *Document) { d.Packages[0].CopyrightText = "" },
		"licence \"GPL-3.0\"": func(d *Document) { d.Packages[1].LicenseDeclared = "GPL-3.0" }, "checksum": func(d *Document) { d.Packages[0].Checksums[0].Value = "x" },
		"reference": func(d *Document) { d.Packages[1].ExternalRefs[0].Locator = "" }, "is not here": func(d *Document) { d.Relationships[0].Related = "SPDXRef-x" },
		"unknown type": func(d *Document) { d.Relationships[0].Type = "LIKES" }, "describes nothing": func(d *Document) { d.Relationships = nil },
	} {
		bad := sample()
		spoil(bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

// One program alone has packages that it cannot get to; for the others, and for
// other packages, what is called counts.
//
// proves part of T-18
func TestUnreachable(t *testing.T) {
	if Unreachable("./cmd/glovebox-js", "GO-1", "net/http") == "" {
		t.Error("the worker reaches net/http")
	}
	for _, p := range [][2]string{{"./cmd/glovebox", "net/http"}, {"./cmd/glovebox-init", "crypto/tls"}, {".", "net/http"}, {"./cmd/glovebox-js", "os"}, {"./cmd/glovebox-js", "encoding/json"}} {
		if why := Unreachable(p[0], "GO-1", p[1]); why != "" {
			t.Errorf("%v: %s", p, why)
		}
	}
	if Unreachable("./cmd/glovebox", "GO-2026-6603", "net/http") == "" || Unreachable("./cmd/glovebox-init", "GO-2026-6603", "net/http") != "" {
		t.Error("one of the command's own")
	}
}

// What a scan prints is read: what is called, what is only there, what is on other
// systems alone. A scan that printed nothing did not take place.
//
// proves part of T-18
func TestReadVulnerabilities(t *testing.T) {
	const text = `{"config":{"db":"x"}}
{"osv":{"id":"GO-1","summary":"one","affected":[{"ecosystem_specific":{"imports":[{"path":"os","goos":["windows"]}]}}]}}
{"osv":{"id":"GO-2","summary":"two","affected":[{"ecosystem_specific":{"imports":[{"path":"a"},{"path":"b","goos":["windows"]}]}}]}}
{"osv":{"id":"GO-3","summary":"three","affected":[{}]}}
{"finding":{"osv":"GO-1","trace":[{"module":"std","package":"os","function":"Open"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v2","trace":[{"module":"m"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v2","trace":[{"module":"m","package":"a","function":"F"},{"package":"own","function":"main"}]}}
{"finding":{"osv":"GO-3","trace":[{"module":"m","package":"c"}]}}
`
	got, err := ReadVulnerabilities(strings.NewReader(text))
	want := []Vulnerability{
		{ID: "GO-1", Summary: "one", Package: "os", Called: true, Elsewhere: true, Trace: "os.Open"},
		{ID: "GO-2", Summary: "two", Package: "a", Fixed: "v2", Called: true, Trace: "own.main > a.F"},
		{ID: "GO-3", Summary: "three", Package: "c"},
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	for _, text := range []string{"", "{}", "{", `{"config":`} {
		if _, err := ReadVulnerabilities(strings.NewReader(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
