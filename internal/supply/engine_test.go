package supply

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const upstreamPage = `<a href="webkitgtk-2.50.6.tar.xz">webkitgtk-2.50.6.tar.xz</a> <a href="webkitgtk-2.50.6.tar.xz.asc">
<a href="webkitgtk-2.51.3.tar.xz">unstable</a> <a href="webkitgtk-2.52.90.tar.xz">candidate</a> <a href="webkitgtk-2.50.10.tar.xz">newest</a>
<a href="webkitgtk-2.9.9.tar.xz"> <a href="wpewebkit-2.54.0.tar.xz">`

const debianPackages = "Package: a\nVersion: 9.9.9-1\n\nPackage: libjavascriptcoregtk-6.0-dev\nVersion: 2.98.0-1\n\nPackage: libjavascriptcoregtk-6.0-1\nSource: webkit2gtk\nVersion: 2.50.10-1\n\n" +
	"Package: libjavascriptcoregtk-4.1-0\nVersion: 2.50.9-1\n\nPackage: b\nVersion: 8.8.8\n"

func gzipped(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.Bytes()
}

// The newest stable release is found in both forms, the second source is asked
// where the first does not answer, and where none does nothing is claimed.
//
// proves part of T-18
func TestNewestEngine(t *testing.T) {
	down := true
	mux := http.NewServeMux()
	mux.HandleFunc("/releases/", func(w http.ResponseWriter, _ *http.Request) {
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte(upstreamPage))
	})
	mux.HandleFunc("/Packages.gz", func(w http.ResponseWriter, _ *http.Request) { w.Write(gzipped(debianPackages)) })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("nothing")) })
	s := httptest.NewServer(mux)
	defer s.Close()
	upstream, debian := EngineSource{s.URL + "/releases/", ReadUpstream}, EngineSource{s.URL + "/Packages.gz", ReadDebian}
	want := EngineRelease{2, 50, 10}
	r, from, err := NewestEngine(s.Client(), []EngineSource{upstream, debian})
	if r != want || from != debian.URL || err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v from %s, %v", r, from, err)
	}
	down = false
	if r, from, err = NewestEngine(s.Client(), []EngineSource{upstream, debian}); r != want || from != upstream.URL || err != nil {
		t.Errorf("%v from %s, %v", r, from, err)
	}
	for _, bad := range []EngineSource{{s.URL + "/empty", ReadUpstream}, {s.URL + "/empty", ReadDebian}, {s.URL + "/missing", ReadUpstream}, {"http://127.0.0.1:1/", ReadUpstream}} {
		if r, from, err = NewestEngine(s.Client(), []EngineSource{bad}); from != "" || err == nil {
			t.Errorf("%s: %v from %s, %v", bad.URL, r, from, err)
		}
	}
}

// Releases are compared by their numbers, not as text.
func TestEngineReleases(t *testing.T) {
	for i, s := range []string{"2.9.9", "2.48.90", "2.50.6-1~deb12u2", "2.50.10", "2.52.0", "3.0.0"} {
		r, err := ParseEngineRelease(s)
		if err != nil {
			t.Fatal(err)
		}
		if older, _ := ParseEngineRelease([]string{"2.9.8", "2.48.7", "2.50.5", "2.50.9", "2.50.99", "2.99.99"}[i]); r.Compare(older) <= 0 || older.Compare(r) >= 0 || r.Compare(r) != 0 {
			t.Errorf("%v and %v", r, older)
		}
	}
	for _, s := range []string{"", "2.50", "v2.50.1", "12345.1.1"} {
		if r, err := ParseEngineRelease(s); err == nil {
			t.Errorf("%q is %v", s, r)
		}
	}
	if (EngineRelease{2, 51, 3}).Stable() || (EngineRelease{2, 52, 90}).Stable() || !(EngineRelease{2, 52, 0}).Stable() {
		t.Error("what is stable")
	}
}
