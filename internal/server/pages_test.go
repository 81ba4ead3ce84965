package server_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
)

// An artifact has a type of a closed set, which its bytes decide and not its name; what
// is no picture to its end is a download. In either case it runs nothing.
//
// proves part of H-69
func TestTypesOfArtifacts(t *testing.T) {
	var p, j, g bytes.Buffer
	m := image.NewGray(image.Rect(0, 0, 3, 2))
	for _, err := range []error{png.Encode(&p, m), jpeg.Encode(&j, m, nil), gif.Encode(&g, m, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const page = "<!doctype html><script>alert(1)</script>"
	files := map[string]struct{ data, kind string }{
		"a.html": {p.String(), "image/png"}, "b": {j.String(), "image/jpeg"}, "c.exe": {g.String(), "image/gif"},
		"d.png": {page, ""}, "e.png": {p.String() + page, ""}, "f.gif": {"GIF89a" + page, ""}, "g.html": {page, ""}, "h.pdf": {"%PDF-1.7", ""},
		"i.svg": {`<svg xmlns="http://www.w3.org/2000/svg"/>`, ""}, "\"j'; x=y.html": {page, ""}, "k.png": {p.String()[:p.Len()-4], ""},
	}
	program := api.Program{Language: "bash", Artifacts: []string{"*"}, Files: []api.File{{Name: "main.sh", Content: "true"}}}
	for name, f := range files {
		program.Files = append(program.Files, api.File{Name: name, Content: base64.StdEncoding.EncodeToString([]byte(f.data)), Encoding: "base64"})
	}
	s := shared(t)
	run := s.ask(t, "POST", "/v1/runs?wait=30s", api.Submission{Program: program}).run(t)
	if len(run.Result.Artifacts) != len(program.Files) {
		t.Fatalf("%+v", run.Result)
	}
	for _, a := range run.Result.Artifacts {
		got, want := s.ask(t, "GET", a.URL, nil), files[a.Name]
		kind, how := "application/octet-stream", "attachment; filename*=UTF-8''"
		if want.kind != "" {
			kind, how = want.kind, "inline; filename*=UTF-8''"
		}
		h := got.Header
		if got.StatusCode != http.StatusOK || h.Get("Content-Type") != kind || !strings.HasPrefix(h.Get("Content-Disposition"), how) || strings.ContainsAny(h.Get("Content-Disposition")[len(how):], `"';, `) ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox; default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%q: %d %v", a.Name, got.StatusCode, h)
		}
	}
}

// Assets come compressed to who takes that, and not again to who has them.
func TestAssets(t *testing.T) {
	s := shared(t)
	a := s.ask(t, "GET", "/assets/page.css", nil)
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/css; charset=utf-8" || a.Header.Get("ETag") == "" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	if again := s.ask(t, "GET", "/assets/page.css", nil, "If-None-Match", a.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Error(again.StatusCode)
	}
	if c := s.ask(t, "GET", "/assets/page.css", nil, "Accept-Encoding", "gzip"); c.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%v", c.Header)
	}
	for _, path := range []string{"/assets/none.js", "/assets/..%2fweb.go", "/assets/", "/assets"} {
		if a := s.ask(t, "GET", path, nil); a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}
