package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is where the server answers over HTTP.
const Path = "/mcp"

// Bounds of requests.
const (
	headTimeout    = 5 * time.Second
	bodyTimeout    = 10 * time.Second
	idleTimeout    = time.Minute
	sessionTimeout = 30 * time.Minute // of a session in which nothing is asked
	maxHead        = 16 << 10
	maxConns       = 256
)

// requestKey is where the context of a request is kept in the SDK's TokenInfo.
const requestKey = "request"

// HTTPOptions say who may speak to a server over HTTP. There is no way in without a
// token.
type HTTPOptions struct {
	// Tokens open the server.
	Tokens *Tokens
	// Hosts are what the Host header may be, beside the address that is listened on
	// and localhost with its port: NAME or NAME:PORT.
	Hosts []string
	// Origins are what an Origin header may be: https://NAME. A request of a page of
	// anywhere else is refused, and one without the header is not from a page.
	Origins []string

	noHost, noOrigin, idOnly bool // negative controls of this package's tests
}

// web is the server over HTTP.
type web struct {
	s       *Server
	o       HTTPOptions
	hosts   map[string]bool
	origins map[string]bool
	sdk     http.Handler

	mu   sync.Mutex
	busy map[string]int // requests of a principal
}

// ServeHTTP serves streamable HTTP on a listener until the context ends.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	h, err := s.web(l.Addr(), o)
	if err != nil {
		return err
	}
	var http1 http.Protocols // HTTP/2 would be a second parser of what strangers send
	http1.SetHTTP1(true)
	srv := &http.Server{Handler: h, Protocols: &http1, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(io.Discard, "", 0)}
	stop := func() {
		for p := range o.Tokens.principals() {
			s.client(p).end("")
		}
		_ = srv.Close()
	}
	defer context.AfterFunc(ctx, stop)()
	defer context.AfterFunc(s.ctx, stop)()
	if err := srv.Serve(&limitListener{Listener: l, places: make(chan struct{}, maxConns)}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	for p := range o.Tokens.principals() {
		s.client(p).close()
	}
	return nil
}

// web makes the handler for a listener's address.
func (s *Server) web(addr net.Addr, o HTTPOptions) (*web, error) {
	if o.Tokens == nil || len(o.Tokens.hashes) == 0 {
		return nil, errors.New("there is no token")
	}
	h := &web{s: s, o: o, hosts: map[string]bool{}, origins: map[string]bool{}, busy: map[string]int{}}
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, err
	}
	h.hosts[addr.String()], h.hosts["localhost:"+port] = true, true
	for _, x := range o.Hosts {
		h.hosts[lower(x)] = true
	}
	for _, x := range o.Origins {
		h.origins[lower(x)] = true
	}
	sdk := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if p, ok := principalFrom(r.Context()); ok {
			return s.client(p).mcp
		}
		return nil
	}, &mcp.StreamableHTTPOptions{Logger: s.log, SessionTimeout: sessionTimeout, MaxRequestBodyBytes: MaxMessage,
		// Its check knows loopback names alone; ours knows the list.
		DisableLocalhostProtection: true})
	h.sdk = auth.RequireBearerToken(h.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(sdk)
	return h, nil
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

// refused is an answer without the work.
type refused struct {
	code int
	text string
}

// ServeHTTP judges a request by its head, then by its body, and hands it to the SDK.
func (h *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &slowWriter{ResponseWriter: w}
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	p, no := h.judgeHead(r)
	if no != nil {
		refuse(w, no)
		return
	}
	if h.o.idOnly {
		p = principal{name: "anybody"}
	}
	release, no := h.enter(p)
	if no != nil {
		refuse(w, no)
		return
	}
	defer release()
	r = r.WithContext(withPrincipal(r.Context(), p))
	c := h.s.client(p)
	id := r.Header.Get("Mcp-Session-Id")
	switch r.Method {
	case http.MethodPost:
		if no := h.readBody(w, r); no != nil {
			refuse(w, no)
			return
		}
		if id == "" { // it makes a session
			done, no := c.admit()
			if no != nil {
				refuse(w, no)
				return
			}
			defer done()
			out.begun = done // it counts by itself once it answers
		}
	case http.MethodDelete:
		if c.has(id) {
			c.end(id) // or the SDK would wait for what runs
		}
	}
	h.sdk.ServeHTTP(out, r)
}

// refuse answers and closes the connection. The server would read on, for what is
// left of a body and its trailers: it finds its time over.
func refuse(w http.ResponseWriter, no *refused) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // a recorder of tests has none
	w.Header().Set("Connection", "close")
	if no.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if strings.HasPrefix(no.text, "{") { // an answer of JSON-RPC
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(no.code)
		_, _ = io.WriteString(w, no.text)
		return
	}
	http.Error(w, no.text, no.code)
}

// judgeHead says who speaks, or why nobody is answered. Nothing of a body was read yet.
func (h *web) judgeHead(r *http.Request) (principal, *refused) {
	none := principal{}
	switch {
	case r.URL.Host != "" || r.URL.Scheme != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return none, &refused{http.StatusMisdirectedRequest, "the request names another server"}
	case !h.o.noHost && !h.hosts[lower(r.Host)]:
		return none, &refused{http.StatusMisdirectedRequest, "this server has no such name"}
	case !h.o.noOrigin && !h.fromHere(r):
		return none, &refused{http.StatusForbidden, "pages of other sites may not ask this server"}
	}
	p, ok := h.authorized(r)
	switch {
	case !ok:
		return none, &refused{http.StatusUnauthorized, "a bearer token is needed"}
	case r.URL.Path != Path:
		return none, &refused{http.StatusNotFound, "there is nothing here; the path is " + Path}
	case r.Method != http.MethodPost && r.Method != http.MethodGet && r.Method != http.MethodDelete:
		return none, &refused{http.StatusMethodNotAllowed, "the methods are POST, GET and DELETE"}
	case r.Header.Get("Content-Encoding") != "":
		return none, &refused{http.StatusUnsupportedMediaType, "a body must not be compressed"}
	case r.Method != http.MethodPost && (r.ContentLength != 0 || len(r.TransferEncoding) > 0):
		return none, &refused{http.StatusBadRequest, "this method has no body"}
	case len(r.TransferEncoding) > 0: // chunks have trailers, which nobody here needs to parse
		return none, &refused{http.StatusLengthRequired, "a body must say its length"}
	case r.ContentLength > MaxMessage:
		return none, &refused{http.StatusRequestEntityTooLarge, fmt.Sprintf("a message has at most %d bytes", MaxMessage)}
	}
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return none, &refused{http.StatusUnsupportedMediaType, "the body must be application/json"}
		}
	}
	return p, nil
}

// fromHere reports whether no page, or a page that is listed, makes the request.
func (h *web) fromHere(r *http.Request) bool {
	for _, o := range r.Header.Values("Origin") {
		if !h.origins[lower(o)] {
			return false
		}
	}
	if len(r.Header.Values("Origin")) > 0 {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") { // GET of a page has no Origin
	case "", "none", "same-origin":
		return true
	}
	return false
}

// authorized finds the principal of the request's token, which stands in the header
// and nowhere else.
func (h *web) authorized(r *http.Request) (principal, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 || len(values[0]) > maxToken+8 {
		return principal{}, false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if lower(scheme) != "bearer" {
		return principal{}, false
	}
	return h.o.Tokens.find(strings.TrimSpace(token))
}

// verify tells the SDK who speaks, so that it binds its session to that, and hands the
// request's context on: what nobody waits for any more ends.
func (h *web) verify(ctx context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
	p, ok := principalFrom(ctx)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: p.name, Extra: map[string]any{requestKey: r.Context()}}, nil
}

// enter counts a request of a principal.
func (h *web) enter(p principal) (release func(), no *refused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[p.name] >= maxCalls {
		return nil, &refused{http.StatusTooManyRequests, errTooMany.Error()}
	}
	h.busy[p.name]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy[p.name]--
	}, nil
}

// readBody reads and judges a body, within a time, and puts it in the request's place.
func (h *web) readBody(w http.ResponseWriter, r *http.Request) *refused {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return &refused{http.StatusInternalServerError, "the server failed"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMessage))
	if err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return &refused{http.StatusRequestEntityTooLarge, fmt.Sprintf("a message has at most %d bytes", MaxMessage)}
		}
		return &refused{http.StatusRequestTimeout, "the body did not come"}
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return &refused{http.StatusInternalServerError, "the server failed"}
	}
	if _, err := judge(body); err != nil {
		var no *refusal
		if errors.As(err, &no) {
			return &refused{http.StatusBadRequest, string(no.line())}
		}
		return &refused{http.StatusBadRequest, words(err)}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// admit counts a session that is being made, and refuses one too many. One that was
// never initialised goes with its request and does not count: clients ask in one for
// what the server knows.
func (c *client) admit() (done func(), no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.pending
	for ss := range c.mcp.Sessions() {
		if ss.InitializeParams() != nil {
			open++
		}
	}
	if open >= c.s.o.Sessions {
		return nil, &refused{http.StatusTooManyRequests, fmt.Sprintf("a client may have %d sessions; end one", c.s.o.Sessions)}
	}
	c.pending++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pending--
	}), nil
}

// has reports whether a session of the protocol is the client's own.
func (c *client) has(id string) bool {
	for ss := range c.mcp.Sessions() {
		if id != "" && ss.ID() == id {
			return true
		}
	}
	return false
}

type principalKey struct{}

func withPrincipal(ctx context.Context, p principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

func principalFrom(ctx context.Context) (principal, bool) {
	p, ok := ctx.Value(principalKey{}).(principal)
	return p, ok
}

// principals are all that the tokens stand for.
func (t *Tokens) principals() func(yield func(principal) bool) {
	return func(yield func(principal) bool) {
		for _, h := range t.hashes {
			if !yield(principalOf(h)) {
				return
			}
		}
	}
}

// slowWriter gives up on a client that does not read.
type slowWriter struct {
	http.ResponseWriter
	begun func() // the answer begins; may be nil
}

// Unwrap lets the controller of a response find what it needs.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.begun != nil {
		w.begun()
	}
	if err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// limitListener bounds the connections that are open at once; more wait in the
// kernel's queue.
type limitListener struct {
	net.Listener
	places chan struct{}
}

func (l *limitListener) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitConn{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

type limitConn struct {
	net.Conn
	leave func()
}

func (c *limitConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
