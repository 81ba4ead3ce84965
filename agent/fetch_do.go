package agent

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/egress"
)

// ask is a request that the rules have.
type ask struct {
	rule    *fetchRule
	url     egress.URL
	method  string
	headers map[string]string // the guest's, by canonical names
	body    []byte
}

// request checks what a guest asks for.
func (f *Fetcher) request(text string, init *FetchInit) (*ask, error) {
	u, err := egress.Parse(text)
	if err != nil {
		return nil, fetchFailed(FetchBadURL, "the URL %s", err)
	}
	a := &ask{url: u, method: init.Method, body: init.Bytes, headers: map[string]string{}}
	if a.method == "" {
		a.method = http.MethodGet
	}
	for _, m := range anyCase {
		if len(m) == len(a.method) && strings.EqualFold(m, a.method) { // of the same length: of ASCII alone
			a.method = m
		}
	}
	if a.rule, err = f.admit(a.method, u); err != nil {
		return nil, err
	}
	if init.Body != "" {
		if len(a.body) > 0 {
			return nil, fetchFailed(FetchBadInput, "there are both body and bytes")
		}
		a.body = []byte(init.Body)
	}
	switch {
	case int64(len(a.body)) > f.o.MaxRequestBytes:
		return nil, fetchFailed(FetchBadInput, "the body has more than %d bytes", f.o.MaxRequestBytes)
	case len(a.body) > 0 && bodyless(a.method):
		return nil, fetchFailed(FetchBadInput, "%s has no body", a.method)
	case len(init.Headers) > maxHeaders:
		return nil, fetchFailed(FetchBadInput, "there are more than %d headers", maxHeaders)
	}
	for _, name := range slices.Sorted(maps.Keys(init.Headers)) {
		if err := a.header(name, init.Headers[name]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// anyCase are the methods that the fetch of browsers takes in any case. Others are
// what they are, to the letter: https://fetch.spec.whatwg.org/#concept-method-normalize
var anyCase = []string{"DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"}

func bodyless(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// header takes one header of the guest's.
func (a *ask) header(name, value string) error {
	canonical, why := headerName(name)
	if why == "" {
		why = headerValue(value)
	}
	if _, twice := a.headers[canonical]; why == "" && twice {
		why = "is there twice"
	}
	if why != "" {
		return fetchFailed(FetchBadInput, "a header %s", why)
	}
	if _, fixed := a.rule.fixed[canonical]; fixed || !a.rule.guest[canonical] {
		return fetchFailed(FetchDenied, "the header %s is not the guest's to set", canonical)
	}
	a.headers[canonical] = value
	return nil
}

// admit returns the rule that has a request.
func (f *Fetcher) admit(method string, u egress.URL) (*fetchRule, error) {
	rule := f.rules[u.Origin]
	if rule == nil {
		return nil, fetchFailed(FetchDenied, "no rule has this origin")
	}
	if why := rule.allows(method, u); why != "" {
		return nil, fetchFailed(FetchDenied, "%s", why)
	}
	return rule, nil
}

// follow makes a request and those that its redirects ask for.
func (f *Fetcher) follow(ctx context.Context, a *ask) (*FetchResponse, error) {
	for hops := int64(0); ; hops++ {
		resp, err := f.once(ctx, a)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if f.o.NoRedirects || location == "" || !slices.Contains([]int{301, 302, 303, 307, 308}, resp.StatusCode) {
			return f.answer(a, resp)
		}
		_ = resp.Body.Close() // nothing of it is wanted
		if hops == f.o.MaxRedirects {
			return nil, fetchFailed(FetchRedirect, "more than %d redirects", f.o.MaxRedirects)
		}
		if a, err = f.redirect(a, resp.StatusCode, location); err != nil {
			return nil, err
		}
	}
}

// redirect is the request that a redirect asks for, if the rules have it.
func (f *Fetcher) redirect(from *ask, status int, location string) (*ask, error) {
	base, err := from.url.Standard()
	if err != nil {
		return nil, err
	}
	ref, err := url.Parse(location)
	if err != nil {
		return nil, fetchFailed(FetchRedirect, "to something that is no URL")
	}
	whole := base.ResolveReference(ref)
	whole.Fragment, whole.RawFragment = "", ""
	to, err := egress.Parse(whole.String())
	if err != nil {
		return nil, fetchFailed(FetchRedirect, "to a URL that %s", err)
	}
	next := &ask{url: to, method: from.method, body: from.body, headers: from.headers}
	if status == 303 && next.method != http.MethodHead || status < 303 && next.method == http.MethodPost {
		next.method, next.body = http.MethodGet, nil
	}
	if to.Origin != from.url.Origin && !from.rule.redirects[to.Origin] {
		return nil, fetchFailed(FetchRedirect, "to an origin to which it must not lead")
	}
	if next.rule, err = f.admit(next.method, to); err != nil {
		return nil, fetchFailed(FetchRedirect, "to what no rule has")
	}
	next.headers = map[string]string{}
	for name, value := range from.headers {
		_, fixed := next.rule.fixed[name]
		if next.rule.guest[name] && !fixed && (next.body != nil || name != "Content-Type") {
			next.headers[name] = value
		}
	}
	return next, nil
}

// maxAnswerHead bounds the status line and the headers of an answer.
const maxAnswerHead = 64 << 10

// once makes one request on a connection of its own. The caller closes the body
// of the answer.
func (f *Fetcher) once(ctx context.Context, a *ask) (*http.Response, error) {
	std, err := a.url.Standard()
	if err != nil {
		return nil, fetchFailed(FetchBadURL, "the URL %s", err)
	}
	if f.started.Add(1) > f.o.MaxRequests {
		f.started.Add(-1)
		return nil, fetchFailed(FetchBudget, "all %d requests are used up", f.o.MaxRequests)
	}
	if f.taken.Load() >= f.o.MaxTotalBytes {
		return nil, f.allTaken()
	}
	req := (&http.Request{Method: a.method, URL: std, Host: a.url.Authority(), Header: http.Header{}}).WithContext(ctx)
	if len(a.body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	}
	for _, set := range []map[string]string{a.headers, a.rule.fixed} {
		for name, value := range set {
			req.Header.Set(name, value)
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "glovebox")
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.transport().RoundTrip(req)
	if err == nil && resp.StatusCode < 200 { // 101: from here on nobody would hold the deadline
		_ = resp.Body.Close()
		return nil, fetchFailed(FetchNetwork, "the answer changes the protocol")
	}
	return resp, err
}

func (f *Fetcher) allTaken() error {
	return fetchFailed(FetchBudget, "all %d bytes of answers are used up", f.o.MaxTotalBytes)
}

// transport serves one request: no proxy, no HTTP/2, nothing kept.
func (f *Fetcher) transport() *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext: f.dialer.DialContext, TLSClientConfig: f.tls, Protocols: &http1,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// answer reads what the guest gets.
func (f *Fetcher) answer(a *ask, resp *http.Response) (*FetchResponse, error) {
	defer resp.Body.Close()
	if c := resp.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return nil, fetchFailed(FetchEncoding, "the answer is compressed")
	}
	if resp.ContentLength > f.o.MaxResponseBytes {
		return nil, fetchFailed(FetchTooLarge, "the answer has more than %d bytes", f.o.MaxResponseBytes)
	}
	body, err := io.ReadAll(io.LimitReader(&metered{resp.Body, f}, f.o.MaxResponseBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > f.o.MaxResponseBytes {
		return nil, fetchFailed(FetchTooLarge, "the answer has more than %d bytes", f.o.MaxResponseBytes)
	}
	out := &FetchResponse{Status: resp.StatusCode, URL: a.url.String(), Headers: map[string]string{}}
	for name, values := range resp.Header {
		if a.rule.shown[name] {
			out.Headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
		}
	}
	if utf8.Valid(body) {
		out.Body = string(body)
	} else {
		out.Bytes = body
	}
	return out, nil
}

// metered counts what is read against the Fetcher's whole.
type metered struct {
	r io.Reader
	f *Fetcher
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.f.taken.Add(int64(n)) > m.f.o.MaxTotalBytes {
		return 0, m.f.allTaken()
	}
	return n, err
}
