package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/js"
)

// site is a server on loopback that keeps what it was asked.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // first lines
	last *http.Request
	body string
}

func newSite(t testing.TB, h http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen, s.last, s.body = append(s.seen, r.Method+" "+r.RequestURI), r, string(body)
		s.mu.Unlock()
		if h != nil {
			h(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// origin is the site under a name.
func (s *site) origin(name string) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "http://" + name + ":" + port
}

// loopbackNames says that every name is at 127.0.0.1.
type loopbackNames struct{}

func (loopbackNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

var onLoopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// newFetcher is one that reaches loopback.
func newFetcher(t testing.TB, o FetchOptions) *Fetcher {
	t.Helper()
	if o.AllowAddresses == nil {
		o.AllowAddresses = onLoopback
	}
	if o.Resolver == nil {
		o.Resolver = loopbackNames{}
	}
	f, err := HTTPFetch(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func everything(origin string) FetchRule { return FetchRule{Origin: origin, Paths: []string{"/"}} }

// wantKind fails unless err is of a kind, and shows nothing of the host.
func wantKind(t *testing.T, what string, err error, kind FetchKind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want the kind %s", what, err, kind)
		return
	}
	seen, ok := errors.AsType[*js.GuestError](err)
	if !ok || seen.Name != "FetchError" || !strings.HasPrefix(seen.Message, string(kind)+": ") {
		t.Errorf("%s: the guest sees %+v of %v", what, seen, err)
	}
	if ok && strings.Contains(seen.Message, "127.0") {
		t.Errorf("%s: the guest sees an address: %s", what, seen.Message)
	}
}

func TestFetch(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Rate", "7")
		w.WriteHeader(201)
		_, _ = w.Write([]byte("hello é"))
	})
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{{Origin: s.origin("api.test"), Paths: []string{"/v1/"}, Methods: []string{"GET", "POST"},
		Headers: map[string]string{"authorization": "Bearer k"}, ResponseHeaders: []string{"x-rate"}}}})
	got, err := f.Fetch(t.Context(), s.origin("api.test")+"/v1/a%20b?q=1", &FetchInit{Method: "POST", Body: "data", Headers: map[string]string{"content-type": "text/csv"}})
	if err != nil {
		t.Fatal(err)
	}
	delete(got.Headers, "date")
	want := &FetchResponse{Status: 201, URL: s.origin("api.test") + "/v1/a%20b?q=1", Body: "hello é",
		Headers: map[string]string{"content-type": "text/plain", "x-rate": "7"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	wantHeader := http.Header{"Authorization": {"Bearer k"}, "Content-Type": {"text/csv"}, "Content-Length": {"4"}, "User-Agent": {"glovebox"},
		"Accept-Encoding": {"identity"}, "Connection": {"close"}}
	if diff := cmp.Diff(wantHeader, s.last.Header); diff != "" {
		t.Errorf("headers: -want +got\n%s", diff)
	}
	if s.body != "data" || s.last.Host != strings.TrimPrefix(s.origin("api.test"), "http://") || s.requests()[0] != "POST /v1/a%20b?q=1" {
		t.Errorf("the site got %q for %s: %q", s.body, s.last.Host, s.requests())
	}
	if n, bytes := f.Requests(); n != 1 || bytes != 8 {
		t.Errorf("spent %d requests, %d bytes", n, bytes)
	}
}

// Bytes that are no text come as bytes, and go as bytes.
func TestFetchBytes(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0, 1}) })
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{{Origin: s.origin("a.test"), Paths: []string{"/"}, Methods: []string{"PUT"}}}})
	got, err := f.Fetch(t.Context(), s.origin("a.test")+"/", &FetchInit{Method: "PUT", Bytes: []byte{0xfe}})
	if err != nil || got.Body != "" || !bytes.Equal(got.Bytes, []byte{0xff, 0, 1}) || s.body != "\xfe" {
		t.Errorf("%+v, %v; the site got %q", got, err, s.body)
	}
}

// meaning is what readers that are kinder than egress make of the hosts of case
// 121: the address that inet_aton and browsers see.
var meaning = map[string]string{
	"127.1": "127.0.0.1", "2130706433": "127.0.0.1", "0x7f.1": "127.0.0.1", "0177.0.0.1": "127.0.0.1", "localhost.": "127.0.0.1",
	"LOCALHOST": "127.0.0.1", "①②⑦.0.0.1": "127.0.0.1", "fe80::1%25eth0": "fe80::1%eth0", "": "127.0.0.1",
}

type ssrfForms struct {
	Block, Allow []string
}

func readForms(t *testing.T) (forms ssrfForms) {
	t.Helper()
	text, err := os.ReadFile("../testdata/cases/121-ssrf-forms.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &forms); err != nil || len(forms.Block) < 20 || len(forms.Allow) < 3 {
		t.Fatalf("%+v, %v", forms, err)
	}
	return forms
}

// hostOf is the host that a reader sees in a URL who takes all before the last @
// for a user, and what follows for the host.
func hostOf(s string) string {
	s = s[strings.Index(s, "//")+2:]
	s, _, _ = strings.Cut(s, "#")
	s = strings.Trim(s, "/")
	if i := strings.LastIndex(s, "@"); i >= 0 && !strings.Contains(s, "\\") {
		s = s[i+1:]
	}
	host, _, _ := strings.Cut(s, "\\")
	if strings.HasPrefix(host, "[") {
		return strings.Trim(host, "[]")
	}
	host, _, _ = strings.Cut(host, ":")
	return host
}

// TestFetchForms: of the forms of case 121 each that is to be blocked is refused,
// before anything connects, twice: as a URL, also when a rule names its very
// origin, and by the address that it means, were its spelling taken. What may
// pass is taken as a URL and as an address.
//
// The control: with the judging of addresses off, each that means loopback
// arrives at a listener there.
//
// proves part of S-16
func TestFetchForms(t *testing.T) {
	s := newSite(t, nil)
	forms := readForms(t)
	arrived := 0
	for _, form := range forms.Block {
		rules := []FetchRule{everything(s.origin("api.test"))}
		if u, err := egress.Parse(form); err == nil {
			rules = append(rules, everything(u.Origin.String()))
		}
		f := newFetcher(t, FetchOptions{Rules: rules, AllowAddresses: []netip.Prefix{}})
		_, err := f.Fetch(t.Context(), form, &FetchInit{})
		if !errors.Is(err, FetchBadURL) && !errors.Is(err, FetchAddress) {
			t.Errorf("%s: %v", form, err)
		}
		host := hostOf(form)
		if other, ok := meaning[host]; ok {
			host = other
		}
		a, err := netip.ParseAddr(host)
		if err != nil {
			if strings.HasPrefix(form, "http:") {
				t.Errorf("%s: the test does not know what %q means", form, host)
			}
			continue
		}
		if egress.Public(a) == nil {
			t.Errorf("%s means %s, which is called public", form, a)
		}
		if a = a.Unmap(); a == netip.MustParseAddr("127.0.0.1") {
			off := newFetcher(t, FetchOptions{Rules: []FetchRule{everything(s.origin("api.test"))}, Resolver: always{a}})
			if _, err := off.Fetch(t.Context(), s.origin("api.test")+"/", &FetchInit{}); err != nil {
				t.Errorf("%s, control: %v", form, err)
			}
			arrived++
			on := newFetcher(t, FetchOptions{Rules: []FetchRule{everything(s.origin("api.test"))}, Resolver: always{a}, AllowAddresses: []netip.Prefix{}})
			_, err := on.Fetch(t.Context(), s.origin("api.test")+"/", &FetchInit{})
			wantKind(t, form, err, FetchAddress)
		}
	}
	if got := len(s.requests()); arrived < 9 || got != arrived {
		t.Errorf("%d requests arrived, %d were to", got, arrived)
	}
	for _, form := range forms.Allow {
		u, err := egress.Parse(form)
		if err != nil || egress.Public(netip.MustParseAddr(u.Host)) != nil {
			t.Errorf("%s: %v", form, err)
		}
	}
}

type always struct{ a netip.Addr }

func (r always) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{r.a}, nil
}

// TestFetchDenied: everything but what the rules have is refused, and nothing
// arrives. The control is the same request as the rule has it.
// Long because of its table.
//
// proves part of S-16
func TestFetchDenied(t *testing.T) {
	s := newSite(t, nil)
	base := s.origin("api.test")
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{{Origin: base, Paths: []string{"/v1", "/pub/"}, Headers: map[string]string{"X-Key": "k"}},
		{Origin: s.origin("127.0.0.1"), Paths: []string{"/"}, Methods: []string{"POST", "OPTIONS"}, GuestHeaders: []string{"x-a"}}}})
	for what, c := range map[string]struct {
		url  string
		init *FetchInit
		kind FetchKind
	}{
		"other host":         {s.origin("api.test.evil"), &FetchInit{}, FetchDenied},
		"other scheme":       {strings.Replace(base, "http", "https", 1) + "/v1", &FetchInit{}, FetchDenied},
		"other port":         {"http://api.test/v1", &FetchInit{}, FetchDenied},
		"path beside":        {base + "/v10", &FetchInit{}, FetchDenied},
		"path above":         {base + "/", &FetchInit{}, FetchDenied},
		"folder itself":      {base + "/pub", &FetchInit{}, FetchDenied},
		"other case":         {base + "/V1", &FetchInit{}, FetchDenied},
		"climbs":             {base + "/v1/../admin", &FetchInit{}, FetchBadURL},
		"climbs, encoded":    {base + "/v1/%2e%2e/admin", &FetchInit{}, FetchBadURL},
		"method":             {base + "/v1", &FetchInit{Method: "DELETE"}, FetchDenied},
		"method in small":    {base + "/v1", &FetchInit{Method: "delete"}, FetchDenied},
		"patch in small":     {s.origin("127.0.0.1"), &FetchInit{Method: "patch"}, FetchDenied},
		"dotless i":          {s.origin("127.0.0.1"), &FetchInit{Method: "opt\u0131ons"}, FetchDenied},
		"long s":             {s.origin("127.0.0.1"), &FetchInit{Method: "po\u017ft"}, FetchDenied},
		"method smuggles":    {base + "/v1", &FetchInit{Method: "GET / HTTP/1.1\r\nX: y"}, FetchDenied},
		"body of a GET":      {base + "/v1", &FetchInit{Body: "x"}, FetchBadInput},
		"two bodies":         {s.origin("127.0.0.1"), &FetchInit{Method: "POST", Body: "x", Bytes: []byte("y")}, FetchBadInput},
		"fixed header":       {base + "/v1", &FetchInit{Headers: map[string]string{"x-key": "mine"}}, FetchDenied},
		"authorization":      {base + "/v1", &FetchInit{Headers: map[string]string{"Authorization": "x"}}, FetchDenied},
		"cookie":             {base + "/v1", &FetchInit{Headers: map[string]string{"Cookie": "x"}}, FetchDenied},
		"host":               {base + "/v1", &FetchInit{Headers: map[string]string{"Host": "internal"}}, FetchBadInput},
		"content-length":     {base + "/v1", &FetchInit{Headers: map[string]string{"content-length": "5"}}, FetchBadInput},
		"transfer-encoding":  {base + "/v1", &FetchInit{Headers: map[string]string{"Transfer-Encoding": "chunked"}}, FetchBadInput},
		"forwarded":          {base + "/v1", &FetchInit{Headers: map[string]string{"X-Forwarded-For": "127.0.0.1"}}, FetchBadInput},
		"new line in value":  {base + "/v1", &FetchInit{Headers: map[string]string{"Accept": "a\r\nX-Key: b"}}, FetchBadInput},
		"bare LF":            {base + "/v1", &FetchInit{Headers: map[string]string{"Accept": "a\nb"}}, FetchBadInput},
		"NUL":                {base + "/v1", &FetchInit{Headers: map[string]string{"Accept": "a\x00b"}}, FetchBadInput},
		"new line in name":   {base + "/v1", &FetchInit{Headers: map[string]string{"Accept\r\nX": "a"}}, FetchBadInput},
		"colon in name":      {base + "/v1", &FetchInit{Headers: map[string]string{"Accept:": "a"}}, FetchBadInput},
		"space in name":      {base + "/v1", &FetchInit{Headers: map[string]string{"Accept ": "a"}}, FetchBadInput},
		"Kelvin in name":     {base + "/v1", &FetchInit{Headers: map[string]string{"x-\u212aey": "a"}}, FetchBadInput},
		"twice":              {base + "/v1", &FetchInit{Headers: map[string]string{"Accept": "a", "accept": "b"}}, FetchBadInput},
		"long value":         {base + "/v1", &FetchInit{Headers: map[string]string{"Accept": strings.Repeat("a", 4097)}}, FetchBadInput},
		"header of another":  {s.origin("127.0.0.1"), &FetchInit{Method: "POST", Headers: map[string]string{"Accept": "a"}}, FetchDenied},
		"body over its size": {s.origin("127.0.0.1"), &FetchInit{Method: "POST", Body: strings.Repeat("x", 64<<10+1)}, FetchBadInput},
	} {
		_, err := f.Fetch(t.Context(), c.url, c.init)
		wantKind(t, what, err, c.kind)
	}
	if n, _ := f.Requests(); n != 0 || len(s.requests()) != 0 {
		t.Fatalf("%d requests, the site saw %q", n, s.requests())
	}
	for _, good := range []struct {
		url  string
		init *FetchInit
	}{
		{base + "/v1", &FetchInit{Headers: map[string]string{"accept": "a\tb"}}}, {base + "/v1/x", &FetchInit{}}, {base + "/pub/", &FetchInit{Method: "get"}},
		{s.origin("127.0.0.1") + "/", &FetchInit{Method: "pOsT", Body: strings.Repeat("x", 64<<10), Headers: map[string]string{"X-A": strings.Repeat("a", 4096)}}},
	} {
		if _, err := f.Fetch(t.Context(), good.url, good.init); err != nil {
			t.Errorf("the control %s: %v", good.url, err)
		}
	}
	if got := len(s.requests()); got != 4 {
		t.Errorf("%d of 4 arrived", got)
	}
}

// TestFetchRedirects: a redirect leads where the rules say and nowhere else; what
// belongs to one origin does not reach the other. Each that is refused has one
// beside it that is followed.
// Long because of its controls.
//
// proves part of S-16
func TestFetchRedirects(t *testing.T) {
	secret := newSite(t, nil)
	friend := newSite(t, nil)
	var s *site
	s = newSite(t, func(w http.ResponseWriter, r *http.Request) {
		to, code := r.URL.Query().Get("to"), 302
		if c := r.URL.Query().Get("code"); c != "" {
			_, _ = fmt.Sscan(c, &code)
		}
		if r.URL.Path == "/v1/loop" {
			to = s.origin("api.test") + "/v1/loop?n=" + r.URL.Query().Get("n") + "x"
		}
		if to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(code)
		}
	})
	rules := []FetchRule{
		{Origin: s.origin("api.test"), Paths: []string{"/v1/"}, Methods: []string{"GET", "POST"}, Headers: map[string]string{"X-Key": "k"},
			GuestHeaders: []string{"Accept", "Content-Type", "X-Mine"}, RedirectTo: []string{friend.origin("friend.test")}},
		{Origin: friend.origin("friend.test"), Paths: []string{"/ok/"}, Methods: []string{"GET", "POST"}},
		{Origin: secret.origin("other.test"), Paths: []string{"/"}},
	}
	f := newFetcher(t, FetchOptions{Rules: rules})
	from := s.origin("api.test") + "/v1/x?to="
	for what, to := range map[string]string{
		"metadata": "http://169.254.169.254/latest/", "loopback": secret.URL + "/", "origin with a rule": secret.origin("other.test") + "/",
		"other path": "/admin", "climbs": "../admin", "climbs, encoded": "/v1/%2e%2e/admin", "path of a friend": friend.origin("friend.test") + "/no",
		"scheme": "file:///etc/passwd", "without a scheme": "//" + secret.Listener.Addr().String() + "/", "user": "http://a@" + secret.Listener.Addr().String(),
		"script": "javascript:1", "nonsense": "http://%zz/", "decimal": "http://2130706433/",
	} {
		_, err := f.Fetch(t.Context(), from+url.QueryEscape(to), &FetchInit{})
		wantKind(t, what, err, FetchRedirect)
	}
	if len(secret.requests()) != 0 || len(friend.requests()) != 0 {
		t.Fatalf("arrived elsewhere: %q, %q", secret.requests(), friend.requests())
	}
	_, err := f.Fetch(t.Context(), s.origin("api.test")+"/v1/loop", &FetchInit{})
	wantKind(t, "without end", err, FetchRedirect)

	for _, to := range []string{"y", "/v1/y", s.origin("api.test") + "/v1/y#fragment"} {
		if got, err := f.Fetch(t.Context(), from+url.QueryEscape(to), &FetchInit{}); err != nil || got.Status != 200 || !strings.HasSuffix(got.URL, "/v1/y") {
			t.Errorf("the control, within: %+v, %v", got, err)
		}
	}
	post := &FetchInit{Method: "POST", Body: "data", Headers: map[string]string{"Content-Type": "text/csv", "X-Mine": "m", "Accept": "a"}}
	got, err := f.Fetch(t.Context(), from+friend.origin("friend.test")+"/ok/1&code=307", post)
	if err != nil || got.URL != friend.origin("friend.test")+"/ok/1" || friend.body != "data" {
		t.Fatalf("to a friend: %+v, %v", got, err)
	}
	if h := friend.last.Header; h.Get("X-Key")+h.Get("X-Mine")+h.Get("Referer") != "" || h.Get("Accept") != "a" || h.Get("Content-Type") != "text/csv" {
		t.Errorf("the friend got %v", h)
	}
	if _, err = f.Fetch(t.Context(), from+"/v1/y&code=303", post); err != nil || s.last.Method != "GET" || s.body != "" || s.last.Header.Get("Content-Type") != "" {
		t.Errorf("303: %v, %s with %q", err, s.last.Method, s.body)
	}
	stay := newFetcher(t, FetchOptions{Rules: rules[:2], NoRedirects: true})
	if got, err := stay.Fetch(t.Context(), from+"/admin", &FetchInit{}); err != nil || got.Status != 302 || got.Headers["location"] != "/admin" {
		t.Errorf("NoRedirects: %+v, %v", got, err)
	}

	// The control of all: a client without rules goes wherever it is sent.
	if resp, err := http.Get(s.URL + "/v1/x?to=" + secret.URL + "/"); err != nil || len(secret.requests()) != 1 {
		t.Errorf("the control: %v, %q", err, secret.requests())
	} else {
		_ = resp.Body.Close()
	}
}

// Options that say nothing, too much, or what cannot be sent.
func TestFetchOptions(t *testing.T) {
	rule := func(change func(*FetchRule)) FetchOptions {
		r := everything("https://a.test")
		change(&r)
		return FetchOptions{Rules: []FetchRule{r}}
	}
	for field, o := range map[string]FetchOptions{
		"Rules":                  {},
		"Rules[0].Origin":        rule(func(r *FetchRule) { r.Origin = "https://*.a.test" }),
		"Rules[1].Origin":        {Rules: []FetchRule{everything("https://a.test"), everything("https://a.test:443")}},
		"Rules[0].Paths":         rule(func(r *FetchRule) { r.Paths = nil }),
		"Rules[0].Methods":       rule(func(r *FetchRule) { r.Methods = []string{"CONNECT"} }),
		"Rules[0].Headers":       rule(func(r *FetchRule) { r.Headers = map[string]string{"Host": "x"} }),
		"Rules[0].GuestHeaders":  rule(func(r *FetchRule) { r.GuestHeaders = []string{"Content-Length"} }),
		"Rules[0].RedirectTo[0]": rule(func(r *FetchRule) { r.RedirectTo = []string{"https://b.test"} }),
		"Rules[0].RedirectTo[1]": {Rules: []FetchRule{{Origin: "https://a.test", Paths: []string{"/"}, RedirectTo: []string{"https://b.test", "http://a.test"}}, everything("http://a.test"), everything("https://b.test")}},
		"TimeoutMS":              {Rules: []FetchRule{everything("https://a.test")}, TimeoutMS: -1},
		"MaxResponseBytes":       {Rules: []FetchRule{everything("https://a.test")}, MaxResponseBytes: 8<<20 + 1},
		"AllowAddresses[0]":      {Rules: []FetchRule{everything("https://a.test")}, AllowAddresses: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
	} {
		_, err := HTTPFetch(o)
		if bad, ok := errors.AsType[*api.FieldError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, paths := range [][]string{{"v1"}, {"/v1?x"}, {"/a/../b"}, {"/a//b"}, {""}} {
		if _, err := HTTPFetch(rule(func(r *FetchRule) { r.Paths = paths })); err == nil {
			t.Errorf("the path %q is taken", paths)
		}
	}
	if _, err := HTTPFetch(rule(func(*FetchRule) {})); err != nil {
		t.Errorf("the control: %v", err)
	}
}
