package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
)

// request is a request that has passed the guard.
type request struct {
	*http.Request
	id      string // names it in the log
	route   *route
	client  admission.Client
	run     string   // the id in its path, of the right form
	body    any      // decoded
	release []func() // what the request holds, until it is answered
}

// done gives back what the request holds.
func (r *request) done() {
	for _, f := range r.release {
		f()
	}
}

// refusal makes an error for a client.
func refusal(code api.Code, format string, args ...any) *api.ServiceError {
	return &api.ServiceError{Code: code, Message: fmt.Sprintf(format, args...)}
}

func newRequestID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// names are what this service is called.
type names struct {
	hosts   map[string]bool
	origins map[string]bool // others, that may call it
}

func newNames(hosts, origins []string, addrs []net.Addr) (names, error) {
	n := names{hosts: map[string]bool{}, origins: map[string]bool{}}
	for _, a := range addrs {
		host, port, err := net.SplitHostPort(a.String())
		if err != nil {
			return n, err
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() { // nobody is called 0.0.0.0
			n.hosts[a.String()] = true
		}
		n.hosts["localhost:"+port] = true
	}
	for _, h := range hosts {
		n.hosts[lower(h)] = true
	}
	for _, o := range origins {
		n.origins[lower(o)] = true
	}
	return n, nil
}

// lower is for ASCII alone: other letters have no business in a host's name, and some
// fold into those of ASCII.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// ServeHTTP judges the head of a request and finds its route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	id := newRequestID()
	head.Set("Glovebox-Request-Id", id)
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, id))
	began := time.Now()
	pattern := noRoute
	out := &statusWriter{ResponseWriter: w}
	s.metrics.Began()
	defer func() {
		took := time.Since(began)
		s.metrics.Request(pattern, out.status, took, max(r.ContentLength, 0), out.sent)
		s.o.Log.Info("request", "id", id, "method", method(r.Method), "route", pattern, "status", out.status, "ms", float64(took.Microseconds())/1e3)
	}()
	if !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1 { // where a body ends is not the same for all who speak it
		head.Set("Connection", "close")
	}
	allowed := s.cors(out, r)
	if err := s.judgeHead(r); err != nil {
		s.refuse(out, r, err)
		return
	}
	if allowed && s.preflight(out, r) {
		return
	}
	handler, p := s.mux.Handler(r)
	if p == "" {
		s.unrouted(out, r, handler)
		return
	}
	pattern = p
	s.mux.ServeHTTP(out, r) // sets what the path says
}

type requestKey struct{}

// method is a method as it may stand in a log.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodPatch:
		return m
	}
	return "other"
}

// judgeHead says why nobody is answered. Nothing of a body was read yet.
func (s *Server) judgeHead(r *http.Request) error {
	switch {
	case r.URL.Host != "" || r.URL.Scheme != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return refusal(api.CodeMisdirected, "the request names another server")
	case !s.names.hosts[lower(r.Host)]:
		return refusal(api.CodeMisdirected, "this service is not called that; --allow-host adds a name")
	case !canonical(r.URL):
		return refusal(api.CodeBadRequest, "the path must be in its one canonical form")
	case len(r.Header.Values("Content-Encoding")) > 0:
		return refusal(api.CodeMediaType, "a body must not be compressed")
	case len(r.TransferEncoding) > 0: // chunks have trailers, which nobody here needs to parse
		return refusal(api.CodeLength, "a body must say its length")
	case r.ContentLength > s.o.MaxBody:
		return refusal(api.CodeTooLarge, "a body has at most %d bytes", s.o.MaxBody)
	}
	return nil
}

// canonical tells whether a path is written in the one way that this service knows:
// clean, without control characters, and no letter, digit, slash or backslash in it is
// encoded. What stands between may read other ways otherwise than the mux does.
func canonical(u *url.URL) bool {
	p := u.Path
	if p != path.Clean(p) || strings.Contains(p, "\\") || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	for rest := u.RawPath; ; { // empty if it is as Go itself would encode the path
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return true
		}
		c, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil || c < 0x80 && strings.IndexByte(plain, byte(c)) >= 0 {
			return false
		}
		rest = after[2:]
	}
}

// plain are the characters that are never encoded, and the slash, which would be
// another one then.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"

// unrouted answers where there is no route: the mux knows the methods of a path.
func (s *Server) unrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	told := &told{head: http.Header{}}
	handler.ServeHTTP(told, r)
	if allow := told.head.Get("Allow"); told.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		s.refuse(w, r, refusal(api.CodeMethod, "the methods of this path are %s", allow))
		return
	}
	s.refuse(w, r, refusal(api.CodeNotFound, "there is nothing here; /openapi.json lists what there is"))
}

// told keeps what a handler says.
type told struct {
	head   http.Header
	status int
}

func (t *told) Header() http.Header         { return t.head }
func (t *told) Write(b []byte) (int, error) { return len(b), nil }
func (t *told) WriteHeader(status int)      { t.status = status }

// fromHere refuses pages of other sites: what changes something or streams is not for
// them.
func (s *Server) fromHere(r *http.Request) error {
	no := refusal(api.CodeForbidden, "pages of other sites may not ask this service; --allow-origin allows one")
	origins := r.Header.Values("Origin")
	for _, o := range origins {
		if !s.names.origins[lower(o)] && !s.own(o, r) {
			return no
		}
	}
	if len(origins) > 0 {
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") { // a GET of a page has no Origin
	case "", "none", "same-origin":
		return nil
	}
	return no
}

// own tells whether an origin is this service's own, by the name that was asked for,
// which is one of its names.
func (s *Server) own(origin string, r *http.Request) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return lower(origin) == scheme+"://"+lower(r.Host)
}
