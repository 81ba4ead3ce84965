// Package web is the service's pages: what a person sees of it. The pages and modules
// are our own, in pages/ and static/; the editor and the library of the curves are
// bundled of others' by "make build" into dist/, and without them the pages work with a
// plain text field and with numbers.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"path"
	"sync"
)

//go:embed pages static
var own embed.FS

//go:embed all:dist
var dist embed.FS

// types are those of assets, by the ends of their names. There are no others.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// Policy is the Content-Security-Policy of the pages. Pictures of guests come as blobs,
// after the service has decoded them.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Asset is a file that pages load.
type Asset struct {
	Type string // of its content
	Body []byte
	// Gzip is the same compressed, nil if that is not worth it.
	Gzip []byte
	ETag string
}

// small is what is not worth compressing.
const small = 8 << 10

func compressed(body []byte) []byte {
	if len(body) < small {
		return nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // memory takes everything
	_ = w.Close()
	return b.Bytes()
}

// Site is the pages and what they load. It is safe for concurrent use.
type Site struct {
	assets  map[string]Asset
	pages   *template.Template
	bundled bool
}

// Page is what a page is made of.
type Page struct {
	Title string
	// Script is the page's module, empty for none.
	Script string
	// Heading and Text are what an error page says.
	Heading, Text string
	// RequestID is how the service's log calls the request that failed.
	RequestID string
	// Version is that of the service.
	Version string
	// Bundled is filled in.
	Bundled bool
}

// Default is the site with the bundle that was built into the program, if one was.
var Default = sync.OnceValue(func() *Site {
	bundle, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err)
	}
	return New(bundle)
})

// New makes a site with a bundle, which may be empty. It panics when the program was
// built wrongly.
func New(bundle fs.FS) *Site {
	s := &Site{assets: map[string]Asset{}, pages: template.Must(template.ParseFS(own, "pages/*.html"))}
	static, err := fs.Sub(own, "static")
	if err != nil {
		panic(err)
	}
	s.load(static)
	before := len(s.assets)
	s.load(bundle)
	s.bundled = len(s.assets) > before
	return s
}

func (s *Site) load(files fs.FS) {
	names, err := fs.Glob(files, "*")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		kind, ok := types[path.Ext(name)]
		if !ok {
			continue
		}
		body, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		s.assets[name] = Asset{Type: kind, Body: body, Gzip: compressed(body), ETag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
}

// Asset is a file by its name.
func (s *Site) Asset(name string) (Asset, bool) {
	a, ok := s.assets[name]
	return a, ok
}

// Bundled tells whether the editor and the curves are there.
func (s *Site) Bundled() bool { return s.bundled }

// Render makes a page by its template's name: "index", "dashboard", "reference" or
// "error".
func (s *Site) Render(name string, p Page) ([]byte, error) {
	p.Bundled = s.bundled
	var b bytes.Buffer
	err := s.pages.ExecuteTemplate(&b, name, p)
	return b.Bytes(), err
}
