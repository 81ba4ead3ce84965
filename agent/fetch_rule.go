package agent

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/egress"
)

// fetchRule is a FetchRule that was checked.
type fetchRule struct {
	origin    egress.Origin
	paths     []string
	methods   []string
	fixed     map[string]string // by canonical name
	guest     map[string]bool   // canonical names
	shown     map[string]bool
	redirects map[egress.Origin]bool // where it may redirect to
}

// Bounds of what a guest says in headers.
const (
	maxHeaders     = 32
	maxHeaderName  = 64
	maxHeaderValue = 4 << 10
)

// framing are headers that say where a message begins and ends, through whom it
// goes or in which coding. They are never anybody's to set but the transport's.
var framing = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Expect", "Forwarded", "Host", "Http2-Settings", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
}

var (
	usualGuestHeaders    = []string{"Accept", "Accept-Language", "Content-Type"}
	usualResponseHeaders = []string{"Cache-Control", "Content-Language", "Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After"}
)

// newFetchRule checks a rule. The error names the field of the rule.
func newFetchRule(r FetchRule) (*fetchRule, *api.FieldError) {
	origin, err := egress.ParseOrigin(r.Origin)
	if err != nil {
		return nil, &api.FieldError{Field: "Origin", Value: r.Origin, Reason: err.Error()}
	}
	out := &fetchRule{origin: origin, paths: r.Paths, methods: []string{"GET"}, fixed: map[string]string{}, redirects: map[egress.Origin]bool{}}
	if len(r.Paths) == 0 {
		return nil, &api.FieldError{Field: "Paths", Reason: `must have at least one; "/" has all`}
	}
	for _, p := range r.Paths {
		u, err := egress.Parse(origin.String() + p)
		if err != nil || u.Path != p {
			return nil, &api.FieldError{Field: "Paths", Value: p, Reason: "must be a plain path that begins with a slash, without a query"}
		}
	}
	if len(r.Methods) > 0 {
		out.methods = r.Methods
	}
	for _, m := range out.methods {
		if !upperWord(m) || m == "CONNECT" || m == "TRACE" || m == "TRACK" {
			return nil, &api.FieldError{Field: "Methods", Value: m, Reason: "must be a method in capital letters, and not CONNECT or TRACE"}
		}
	}
	for name, value := range r.Headers {
		canonical, why := headerName(name)
		if why == "" {
			why = headerValue(value)
		}
		if _, twice := out.fixed[canonical]; why == "" && twice {
			why = "is there twice"
		}
		if why != "" {
			return nil, &api.FieldError{Field: "Headers", Value: name, Reason: why}
		}
		out.fixed[canonical] = value
	}
	guest := r.GuestHeaders
	if guest == nil {
		guest = usualGuestHeaders
	}
	if out.guest, err = names("GuestHeaders", guest); err == nil {
		out.shown, err = names("ResponseHeaders", slices.Concat(usualResponseHeaders, r.ResponseHeaders))
	}
	if bad, ok := err.(*api.FieldError); ok {
		return nil, bad
	}
	return out, nil
}

func names(field string, list []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, n := range list {
		canonical, why := headerName(n)
		if why != "" {
			return nil, &api.FieldError{Field: field, Value: n, Reason: why}
		}
		out[canonical] = true
	}
	return out, nil
}

// allows says why a rule does not have a request, or "".
func (r *fetchRule) allows(method string, u egress.URL) string {
	switch {
	case !slices.Contains(r.methods, method):
		return "its origin does not allow this method"
	case !slices.ContainsFunc(r.paths, func(p string) bool { return below(u.Path, p) }):
		return "its origin does not allow this path"
	}
	return ""
}

// below reports whether a path is a prefix itself or lies below it.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || strings.HasSuffix(prefix, "/") || rest[0] == '/')
}

func upperWord(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// headerName returns a name in its canonical form, and says why it cannot be
// used, or "".
func headerName(s string) (canonical, why string) {
	if s == "" || len(s) > maxHeaderName {
		return "", "must have 1 to 64 characters"
	}
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' {
			return "", "must be of letters, digits and hyphens"
		}
	}
	canonical = textproto.CanonicalMIMEHeaderKey(s)
	if slices.Contains(framing, canonical) || strings.HasPrefix(canonical, "Sec-") {
		return "", "belongs to the transport"
	}
	return canonical, ""
}

// headerValue says why a value cannot be sent, or "".
func headerValue(s string) string {
	if len(s) > maxHeaderValue {
		return "has a value of more than 4096 bytes"
	}
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c >= 0x7f) {
			return "has a value with a control character or a letter beyond ASCII"
		}
	}
	if strings.Trim(s, " \t") != s {
		return "has a value with space around it"
	}
	return ""
}
