package web

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// sources are all that is our own and runs in, or is, a page.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "dist/") || strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".json") {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("%d files: %v", len(all), err)
	}
	return all
}

// way is how text becomes HTML or a script.
var way = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|parseFromString|setHTMLUnsafe|document\.write|srcdoc|\beval\(|\bFunction\(|javascript:|<[^>]+\s(on[a-z]+|style)=|set(Timeout|Interval)\(["'` + "`" + `]|https?://[^w]`)

// Nothing in our modules and pages makes HTML or scripts of text, has inline styles or
// handlers, or names another server. What is left is held by the policy, which the
// browser's tests hold.
//
// proves part of H-70
func TestNoTextBecomesHTML(t *testing.T) {
	for name, text := range sources(t) {
		if name == "static/examples.js" {
			continue // programs, which are text
		}
		for _, found := range way.FindAllString(text, -1) {
			t.Errorf("%s has %q", name, found)
		}
	}
	for _, bad := range []string{`e.innerHTML = x`, `<b onclick="x">`, `<p style="x">`, `eval(x)`, `setTimeout("x")`, `fetch("https://other.example")`} {
		if !way.MatchString(bad) {
			t.Errorf("control: %s is not found", bad)
		}
	}
	if strings.Contains(Policy, "unsafe") || strings.Contains(Policy, "*") || !strings.HasPrefix(Policy, "default-src 'none';") {
		t.Error(Policy)
	}
}

// What a module or page asks for is there, but for the bundle, which may be missing.
func TestAssetsAreThere(t *testing.T) {
	s := New(fstest.MapFS{})
	if s.Bundled() {
		t.Error("there is a bundle in nothing")
	}
	needs := regexp.MustCompile(`(?:from|import\() ?"\./([a-z.]+)"|/assets/([a-z.]+)`)
	for name, text := range sources(t) {
		for _, m := range needs.FindAllStringSubmatch(text, -1) {
			asset := m[1] + m[2]
			if _, ok := s.Asset(asset); !ok && asset != "editor.js" && asset != "curves.js" && asset != "licenses.txt" {
				t.Errorf("%s needs %s", name, asset)
			}
		}
	}
	bundled := New(fstest.MapFS{"editor.js": {Data: []byte("x")}, ".gitignore": {Data: []byte("*")}})
	if _, ok := bundled.Asset(".gitignore"); ok || !bundled.Bundled() {
		t.Error("of the bundle something else is taken")
	}
	for _, page := range []string{"index", "dashboard", "reference", "error"} {
		html, err := s.Render(page, Page{Title: "<title>", Heading: "<b>", Text: "&", RequestID: "\"", Version: "<i>"})
		if err != nil || strings.Contains(string(html), "<b>") || strings.Contains(string(html), "<i>") || strings.Contains(string(html), "data-bundled") {
			t.Errorf("%s: %v", page, err)
		}
	}
}

// The packages of others are pinned, one version each with its sum, and the lock file
// names no server.
func TestPackagesArePinned(t *testing.T) {
	var want struct{ Dependencies map[string]string }
	var lock struct {
		Packages map[string]struct {
			Version, Integrity, Resolved, License string
			Dependencies                          map[string]string
		}
	}
	for name, into := range map[string]any{"package.json": &want, "package-lock.json": &lock} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, version := range want.Dependencies {
		if got := lock.Packages["node_modules/"+name].Version; got != version {
			t.Errorf("%s: %s is locked, %s is wanted", name, got, version)
		}
	}
	for place, p := range lock.Packages {
		if place != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "" || p.License != "MIT" || path.Dir(place) == ".") {
			t.Errorf("%s: %+v", place, p)
		}
	}
}
