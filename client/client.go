// Package client runs programs on a Glovebox service, with the verbs of the library
// where they mean the same.
//
// A Client takes the service, and whatever lies between, for something that can break
// and can lie. A submission carries an Idempotency-Key, so that it is sent again after
// a broken connection and is still one run. Events go on where they broke off: none
// twice and none lost. What cannot be sent twice without harm is not. On the other
// side, an answer has a longest length and a longest time, a redirection is followed
// nowhere, credentials go to the one origin of [Options.URL] and to it in the clear
// only on this host, and a file is given out when its digest has been compared.
//
// An error that a service answers with is an *[api.ServiceError]. An answer that is
// none of a service is an *[AnswerError]. Text of a service in either, in a result or
// an event is a stranger's: whoever shows it on a terminal or a page filters it.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// Options of a Client. URL is needed; zero values of the others are the defaults.
type Options struct {
	// URL is the service's origin, "https://glovebox.example" or
	// "http://127.0.0.1:8080", and nothing behind it.
	URL string
	// Key is an API key, "gbk_…", or the access token of a private installation. Without
	// one the client is known by its address.
	Key string
	// OperatorToken is the operator's, in place of Key.
	OperatorToken string
	// AllowHTTP lets http:// go to other hosts than this one. Whoever is between
	// reads and changes everything then: programs, their output, the key and the
	// tokens that control runs.
	AllowHTTP bool
	// RootCAs are the authorities for https: the host's.
	RootCAs *x509.CertPool
	// Transport makes the requests in place of the client's own, which speaks
	// HTTP/1.1, knows the proxies of the environment for https alone, and refuses a
	// "localhost" that is elsewhere. RootCAs goes with the client's own.
	Transport http.RoundTripper
	// Patience is how long a request is repeated that finds the service busy (429, 503)
	// or gets no answer. Retry-After is honoured; one that is later than Patience ends
	// the wait at once, with the error that has it. Zero means 30 s, less not at all.
	Patience time.Duration
	// Reconnect is how long a run that was accepted is followed while nothing answers.
	// Zero means 5 min, less not at all.
	Reconnect time.Duration
	// MaxAnswer is the longest answer, in bytes, and the longest event. Zero means 96 MiB,
	// which every result fits into.
	MaxAnswer int64
	// Retrying hears of each error after which a request is repeated, and the pause
	// before that. It must not wait.
	Retrying func(err error, pause time.Duration)
	// Log gets the same, without what requests hold. Nil means silence.
	Log *slog.Logger
}

// Bounds of one request.
const (
	dialTime = 10 * time.Second
	maxHead  = 64 << 10
	maxTold  = 64 << 10 // bytes of an answer that is an error
)

// times are how long things may take.
type times struct {
	head  time.Duration // until an answer begins, beside what it may wait
	body  time.Duration // from there to its end
	quiet time.Duration // without a byte of a stream, whose server shows life each 15 s
	wait  time.Duration // of one request for a result
}

var usual = times{30 * time.Second, 5 * time.Minute, 45 * time.Second, 25 * time.Second}

// Client speaks with one service. It is safe for concurrent use.
type Client struct {
	o      Options
	base   string // scheme://host
	http   *http.Client
	bearer string
	idle   func()
	times  times
}

// New checks the options; it sends nothing. The error is an *[api.FieldError].
func New(o Options) (*Client, error) {
	c := &Client{o: o, times: usual}
	if err := c.check(); err != nil {
		return nil, err
	}
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{{&c.o.Patience, 30 * time.Second}, {&c.o.Reconnect, 5 * time.Minute}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.o.MaxAnswer == 0 {
		c.o.MaxAnswer = 96 << 20
	}
	if c.o.Log == nil {
		c.o.Log = slog.New(slog.DiscardHandler)
	}
	transport := o.Transport
	if transport == nil {
		own := c.transport()
		transport, c.idle = own, own.CloseIdleConnections
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// Close lets go of idle connections. Runs go on.
func (c *Client) Close() {
	if c.idle != nil {
		c.idle()
	}
}

// URL is the service's origin.
func (c *Client) URL() string { return c.base }

// check refuses options by their names; credentials are in no sentence.
func (c *Client) check() error {
	u, err := url.Parse(c.o.URL)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return &api.FieldError{Field: "URL", Reason: `must be an origin, such as "https://glovebox.example"`}
	case u.User != nil:
		return &api.FieldError{Field: "URL", Reason: "must have no user or password; the key goes into a header"}
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "", u.ForceQuery:
		return &api.FieldError{Field: "URL", Value: c.o.URL, Reason: "must end behind the host: the service is all of an origin"}
	case u.Scheme == "http" && !c.o.AllowHTTP && !onHost(u.Hostname()):
		return &api.FieldError{Field: "URL", Value: c.o.URL, Reason: "must be https, or whoever is between reads programs, output, key and tokens"}
	case c.o.Key != "" && c.o.OperatorToken != "":
		return &api.FieldError{Field: "OperatorToken", Reason: "goes in place of Key, not beside it"}
	case c.o.Key != "" && !isToken(c.o.Key):
		return &api.FieldError{Field: "Key", Reason: "must be at most 512 ASCII characters without a space"}
	case c.o.OperatorToken != "" && !isToken(c.o.OperatorToken):
		return &api.FieldError{Field: "OperatorToken", Reason: "must be at most 512 ASCII characters without a space"}
	case c.o.MaxAnswer < 0:
		return &api.FieldError{Field: "MaxAnswer", Value: c.o.MaxAnswer, Reason: "must not be negative"}
	}
	c.base, c.bearer = u.Scheme+"://"+u.Host, c.o.Key+c.o.OperatorToken
	return nil
}

// isToken tells whether a text can be sent as a bearer token.
func isToken(s string) bool {
	return len(s) <= 512 && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// isSecret tells whether a text has the form of a secret: its prefix and 256 bits.
func isSecret(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && isHex(rest, 64)
}

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// onHost tells whether a name is this host's own, by its form.
func onHost(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}

// transport is the client's own.
func (c *Client) transport() *http.Transport {
	var http1 http.Protocols // what the service speaks
	http1.SetHTTP1(true)
	dialer := net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}
	if strings.HasPrefix(c.base, "http://") && !c.o.AllowHTTP {
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
				return errElsewhere
			}
			return nil
		}
	}
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "https" { // a proxy would read it
				return nil, nil
			}
			return http.ProxyFromEnvironment(r)
		},
		DialContext:            dialer.DialContext,
		Protocols:              &http1,
		TLSClientConfig:        &tls.Config{RootCAs: c.o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTime,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        20 * time.Second, // the service waits a minute
		MaxResponseHeaderBytes: maxHead,
	}
}

// errElsewhere is why a connection is not made.
var errElsewhere = errors.New("the name is not this host's, and http:// is for this host alone")

// AnswerError is an answer that no service gives: of something in its place, of one
// that is broken, or of one that lies.
type AnswerError struct {
	// Status is that of HTTP, 0 if it was not about that.
	Status int
	// Reason is one sentence.
	Reason string
}

// Error is one line.
func (e *AnswerError) Error() string {
	if e.Status == 0 {
		return "the answer is none of a Glovebox service: " + e.Reason
	}
	return fmt.Sprintf("the answer is none of a Glovebox service: status %d, %s", e.Status, e.Reason)
}

func answerErrorf(format string, args ...any) error {
	return &AnswerError{Reason: fmt.Sprintf(format, args...)}
}
