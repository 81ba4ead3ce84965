package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/egress"
)

// FetchOptions say where a [Fetcher] may go and how much it may take. A zero
// limit is its default; what is out of bounds is refused.
type FetchOptions struct {
	// Rules are the places. There is at least one; an origin occurs once.
	Rules []FetchRule

	// TimeoutMS bounds one call, redirects and the reading of the answer
	// included, in ms. Default 10,000, at most 300,000.
	TimeoutMS int64
	// MaxResponseBytes bounds the body of an answer. Default 1 MiB, at most 8 MiB.
	MaxResponseBytes int64
	// MaxRequestBytes bounds the body of a request. Default 64 KiB, at most 8 MiB.
	MaxRequestBytes int64
	// MaxRequests is how many requests the Fetcher makes in its life, each
	// redirect counted. Default 100, at most 1,000,000.
	MaxRequests int64
	// MaxTotalBytes bounds the bodies of all answers together. Default 16 MiB, at
	// most 16 GiB.
	MaxTotalBytes int64
	// MaxRedirects is how many redirects one call follows. Default 5, at most 20.
	MaxRedirects int64
	// NoRedirects hands a redirect to the guest instead of following it.
	NoRedirects bool
	// MaxInFlight is how many calls run at a time; more wait their turn. Default
	// 6, at most 64.
	MaxInFlight int64

	// Resolver finds the addresses of names. Nil is the host's.
	Resolver FetchResolver
	// AllowAddresses lists addresses that may be reached though they are private
	// or this host's own. Every other address that is not of the public internet
	// is refused, whatever name leads to it.
	AllowAddresses []netip.Prefix
	// RootCAs are the authorities for https. Nil is the host's.
	RootCAs *x509.CertPool
}

// FetchRule is one place: an origin and what may be asked of it.
type FetchRule struct {
	// Origin is "https://api.example.com" or "http://10.0.0.7:8080": scheme, host
	// and, if it is not the usual one, port. There are no wildcards.
	Origin string
	// Paths are prefixes of paths. "/v1/" has all below it, "/v1" also itself; "/"
	// has all. They are compared with the path as it is sent. At least one.
	Paths []string
	// Methods are the methods that may be used. Empty is GET alone. CONNECT and
	// TRACE cannot be had.
	Methods []string
	// Headers are sent with every request to this place, and cannot be set by the
	// guest: credentials, an API version. A redirect to another place does not
	// take them along. They stay secret only if the place does not repeat them in
	// its answers.
	Headers map[string]string
	// GuestHeaders are names of headers that the guest may set. Nil is Accept,
	// Accept-Language and Content-Type.
	GuestHeaders []string
	// ResponseHeaders are names of headers that the guest is shown besides
	// Cache-Control, Content-Language, Content-Type, Date, ETag, Expires,
	// Last-Modified, Link, Location and Retry-After.
	ResponseHeaders []string
	// RedirectTo are other origins with a rule, to which this place may redirect.
	// Within its own rule it may always; from https to http never.
	RedirectTo []string
}

// FetchResolver finds the addresses of a name; *net.Resolver is one. Names with
// a dot in them have one at their end.
type FetchResolver = egress.Resolver

// FetchInit is what the guest may say beside the URL, by the names of the fetch
// of browsers. A member that is none of these is refused, by its name.
type FetchInit struct {
	_       struct{}          `js:"strict"`
	Method  string            `json:"method,omitempty"`  // "" is GET; delete, get, head, options, post and put in whatever case
	Headers map[string]string `json:"headers,omitempty"` // each name once, in whatever case
	Body    string            `json:"body,omitempty"`    // text
	Bytes   []byte            `json:"bytes,omitempty"`   // or bytes; not both
}

// FetchResponse is an answer. Its content is a stranger's.
type FetchResponse struct {
	Status  int               `json:"status"`
	URL     string            `json:"url"`     // of the last request
	Headers map[string]string `json:"headers"` // names in lower case; values of one name joined by ", "
	Body    string            `json:"body"`    // if it is UTF-8
	Bytes   []byte            `json:"bytes"`   // else; nil if it is text
}

// Fetcher fetches by the rules of its [FetchOptions]. Make one for each session:
// what it has spent is its own. It keeps no cookies, cache or connections, and
// heeds no proxy of the environment. It is safe for concurrent use.
type Fetcher struct {
	o       FetchOptions
	rules   map[egress.Origin]*fetchRule
	dialer  egress.Dialer
	tls     *tls.Config
	slots   chan struct{}
	started atomic.Int64 // requests
	taken   atomic.Int64 // bytes of answers
}

// HTTPFetch makes a Fetcher. Give its Fetch to a guest as a tool. The error is
// an *api.FieldError.
func HTTPFetch(o FetchOptions) (*Fetcher, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	f := &Fetcher{o: o, rules: map[egress.Origin]*fetchRule{}, slots: make(chan struct{}, o.MaxInFlight)}
	f.dialer = egress.Dialer{Resolver: o.Resolver, Allow: o.AllowAddresses}
	f.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs, ClientSessionCache: tls.NewLRUClientSessionCache(len(o.Rules) + 1)}
	if len(o.Rules) == 0 {
		return nil, &api.FieldError{Field: "Rules", Reason: "must have at least one"}
	}
	for i, r := range o.Rules {
		rule, err := newFetchRule(r)
		if err != nil {
			err.Field = fmt.Sprintf("Rules[%d].%s", i, err.Field)
			return nil, err
		}
		if f.rules[rule.origin] != nil {
			return nil, &api.FieldError{Field: fmt.Sprintf("Rules[%d].Origin", i), Value: r.Origin, Reason: "has a rule already"}
		}
		f.rules[rule.origin] = rule
	}
	for i, r := range o.Rules {
		for j, to := range r.RedirectTo {
			if err := f.addRedirect(r.Origin, to); err != nil {
				err.Field = fmt.Sprintf("Rules[%d].RedirectTo[%d]", i, j)
				return nil, err
			}
		}
	}
	return f, nil
}

// addRedirect lets one place redirect to another.
func (f *Fetcher) addRedirect(from, to string) *api.FieldError {
	origin, err := egress.ParseOrigin(to)
	switch {
	case err != nil:
		return &api.FieldError{Value: to, Reason: err.Error()}
	case f.rules[origin] == nil:
		return &api.FieldError{Value: to, Reason: "has no rule of its own"}
	}
	source, err := egress.ParseOrigin(from)
	if err != nil {
		return &api.FieldError{Value: from, Reason: err.Error()}
	}
	if source.Scheme == "https" && origin.Scheme == "http" {
		return &api.FieldError{Value: to, Reason: "leads from https to http"}
	}
	f.rules[source].redirects[origin] = true
	return nil
}

// complete sets defaults and holds every limit against its bounds.
func (o *FetchOptions) complete() error {
	for _, l := range []struct {
		name        string
		value       *int64
		usual, most int64
	}{
		{"TimeoutMS", &o.TimeoutMS, 10_000, 300_000},
		{"MaxResponseBytes", &o.MaxResponseBytes, 1 << 20, 8 << 20},
		{"MaxRequestBytes", &o.MaxRequestBytes, 64 << 10, 8 << 20},
		{"MaxRequests", &o.MaxRequests, 100, 1_000_000},
		{"MaxTotalBytes", &o.MaxTotalBytes, 16 << 20, 16 << 30},
		{"MaxRedirects", &o.MaxRedirects, 5, 20},
		{"MaxInFlight", &o.MaxInFlight, 6, 64},
	} {
		if *l.value < 0 || *l.value > l.most {
			return &api.FieldError{Field: l.name, Value: *l.value, Reason: fmt.Sprintf("must be from 1 to %d, or 0 for %d", l.most, l.usual)}
		}
		*l.value = cmp.Or(*l.value, l.usual)
	}
	for i, p := range o.AllowAddresses {
		if !p.IsValid() || p.Addr().Is4In6() {
			return &api.FieldError{Field: fmt.Sprintf("AllowAddresses[%d]", i), Value: p.String(), Reason: "must be a prefix, in its IPv4 form if it is one of IPv4"}
		}
	}
	return nil
}

// Requests returns how many requests were begun, and how many bytes of answers
// were read.
func (f *Fetcher) Requests() (requests, bytes int64) { return f.started.Load(), f.taken.Load() }

// Fetch makes one request and follows its redirects within the rules. A nil init
// is a plain GET. Every
// failure is a *FetchError, whose text the guest may read.
func (f *Fetcher) Fetch(ctx context.Context, url string, init *FetchInit) (*FetchResponse, error) {
	if init == nil {
		init = &FetchInit{}
	}
	ask, err := f.request(url, init)
	if err != nil {
		return nil, err
	}
	limit := time.Duration(f.o.TimeoutMS) * time.Millisecond
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-timed.Done():
		return nil, f.failure(ctx, timed, timed.Err())
	}
	answer, err := f.follow(timed, ask)
	if err != nil {
		return nil, f.failure(ctx, timed, err)
	}
	return answer, nil
}
