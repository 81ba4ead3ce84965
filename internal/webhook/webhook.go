// Package webhook tells others that a run has ended: by one POST to an https URL that
// the run came with, of a host that the operator has listed. What is to be told is
// written down before the run is accepted, and is found again after a restart.
//
// A URL is a stranger's. So every request goes through internal/egress, speaks HTTP/1.1
// over TLS, follows nothing, reads no body, and is one of few: for each host, each key
// and in all.
package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Options say who may be told, how, and how often. Zero values are the defaults.
type Options struct {
	// Queue has the runs, and keeps what is to be delivered. Secret makes the secret of
	// each key and the id of each delivery. Both must be set.
	Queue  *queue.Queue
	Secret *credential.Secret
	// Allow are the hosts that may be told: "hooks.example.com" for port 443, with
	// ":8443" for another one. There are no wildcards. Without any there are no webhooks.
	Allow []string
	// AllowAddresses lists addresses that may be reached though they are private or this
	// host's own; every other one that is not of the public internet is refused, whatever
	// name leads to it.
	AllowAddresses []netip.Prefix
	// Resolver finds the addresses of names: the host's.
	Resolver egress.Resolver
	// RootCAs are the authorities for https: the host's.
	RootCAs *x509.CertPool
	// Active, if it is set, is asked before each try whether the key may still be used.
	Active func(ctx context.Context, keyID string) bool

	// Timeout bounds one try, from the name's resolution to the head of the answer: 10 s.
	Timeout time.Duration
	// Pauses are before the second and the third try: 10 s and 60 s. As many tries as
	// there are pauses, and one.
	Pauses []time.Duration
	// PerMinute is how many tries one host gets in a minute: 60. A sixth of them, one at
	// least, may come at once.
	PerMinute int
	// InFlight is how many tries are made at a time: 8; PerHost and PerKey how many of
	// them to one host and for one key: 2.
	InFlight, PerHost, PerKey int
	// MaxPending is how many deliveries may be owed: 10,000. One host, and one key, have a
	// tenth of them at most.
	MaxPending int

	// Now is the clock: time.Now.
	Now func() time.Time
	// Log gets what becomes of deliveries, by the ids of run and key, and the host.
	Log *slog.Logger
	// Observe gets each Outcome, for metrics. It must not wait.
	Observe func(outcome string)
}

// Outcomes, for Observe.
const (
	Queued    = "queued"    // taken for delivery
	Delivered = "delivered" // the receiver said 2xx
	Retried   = "retried"   // a try failed, and there will be another
	Failed    = "failed"    // the last try failed, or no other could do better
	Dropped   = "dropped"   // not taken, because too many are owed; or not tried: the run or the key is gone
)

// Errors. Others are the queue's.
var (
	// ErrBusy says that as many deliveries are owed as may be: in all, to this host or
	// for this key.
	ErrBusy = errors.New("webhook: too many deliveries are owed")
	// ErrOther says that the run has a webhook already, which is another one.
	ErrOther = errors.New("webhook: the run has another one")
)

const (
	// MaxURL is the longest URL, in bytes.
	MaxURL = 2048
	// MaxBody is the longest body. A run whose result is longer is told of without its
	// output.
	MaxBody = 256 << 10
	// maxRecord has room for a URL whose letters are all escaped in JSON.
	maxRecord = 6*MaxURL + 1<<10
	field     = "webhook"
	bucket    = "webhooks"
	// share is the part of MaxPending that one host or key may have.
	share = 10
)

// place is a host and port that may be told.
type place struct {
	host string
	port uint16
}

// Hooks owes and makes deliveries. It is safe for concurrent use.
type Hooks struct {
	o       Options
	allow   map[place]bool
	bucket  *queue.Bucket
	dialer  egress.Dialer
	tls     *tls.Config
	big     sync.Mutex // one result that is long at a time
	wake    chan struct{}
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	drain   chan struct{} // closed: no new try
	drained sync.Once
	work    sync.WaitGroup

	mu     sync.Mutex
	ended  bool
	items  map[string]*item // by run
	fresh  map[string]bool  // runs that were expected while records of before are read, nil after that
	keys   map[string]*count
	hosts  map[string]*target
	trying int
}

// count is what is owed, and tried just now, for a key.
type count struct{ owed, trying int }

// New takes up what is owed since the program ran last. The error is an
// *api.FieldError or one of the queue.
func New(ctx context.Context, o Options) (*Hooks, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	h := &Hooks{o: o, allow: map[place]bool{}, wake: make(chan struct{}, 1), drain: make(chan struct{}),
		items: map[string]*item{}, fresh: map[string]bool{}, keys: map[string]*count{}, hosts: map[string]*target{}}
	for i, a := range o.Allow {
		origin, err := egress.ParseOrigin("https://" + a)
		if err != nil {
			return nil, &api.FieldError{Field: fmt.Sprintf("Allow[%d]", i), Value: a, Reason: err.Error()}
		}
		h.allow[place{origin.Host, origin.Port}] = true
	}
	for i, p := range o.AllowAddresses {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, &api.FieldError{Field: fmt.Sprintf("AllowAddresses[%d]", i), Value: p.String(), Reason: "must be a prefix, in its IPv4 form if it is one of IPv4"}
		}
	}
	h.dialer = egress.Dialer{Resolver: o.Resolver, Allow: o.AllowAddresses}
	h.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs}
	var err error
	if h.bucket, err = o.Queue.Bucket(ctx, bucket, queue.BucketOptions{MaxValue: maxRecord}); err != nil {
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.work.Go(h.recover)
	h.work.Go(h.dispatch)
	return h, nil
}

// complete sets defaults and holds every limit against its bounds.
func (o *Options) complete() error {
	if o.Queue == nil || o.Secret == nil {
		return &api.FieldError{Field: "Queue", Reason: "must be set, and Secret"}
	}
	if o.Pauses == nil {
		o.Pauses = []time.Duration{10 * time.Second, time.Minute}
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Timeout < 0 || o.Timeout > time.Minute {
		return &api.FieldError{Field: "Timeout", Value: o.Timeout.String(), Reason: "must be up to a minute"}
	}
	if len(o.Pauses) > 5 {
		return &api.FieldError{Field: "Pauses", Value: len(o.Pauses), Reason: "must be five at most"}
	}
	for _, l := range []struct {
		name        string
		value       *int
		usual, most int
	}{
		{"PerMinute", &o.PerMinute, 60, 60_000}, {"InFlight", &o.InFlight, 8, 256}, {"PerHost", &o.PerHost, 2, 256},
		{"PerKey", &o.PerKey, 2, 256}, {"MaxPending", &o.MaxPending, 10_000, 1_000_000},
	} {
		if *l.value < 0 || *l.value > l.most {
			return &api.FieldError{Field: l.name, Value: *l.value, Reason: fmt.Sprintf("must be from 1 to %d, or 0 for %d", l.most, l.usual)}
		}
		if *l.value == 0 {
			*l.value = l.usual
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string) {}
	}
	return nil
}

// On tells whether there are webhooks at all.
func (h *Hooks) On() bool { return len(h.allow) > 0 }

// Check judges the URL of a submission. The error is an *api.FieldError without the
// URL, which may have a secret in it.
func (h *Hooks) Check(url string) error {
	_, err := h.parse(url)
	return err
}

func (h *Hooks) parse(url string) (egress.URL, error) {
	refuse := func(reason string) (egress.URL, error) {
		return egress.URL{}, &api.FieldError{Field: field, Reason: reason}
	}
	if !h.On() {
		return refuse("this service sends no webhooks")
	}
	if len(url) > MaxURL {
		return refuse(fmt.Sprintf("is longer than %d bytes", MaxURL))
	}
	u, err := egress.Parse(url)
	switch {
	case err != nil:
		return refuse(err.Error())
	case u.Scheme != "https":
		return refuse("does not begin with https://")
	case !h.allow[place{u.Host, u.Port}]:
		return refuse("leads to a host and port that this service does not tell of runs")
	}
	return u, nil
}

// SecretOf is what the webhooks of a key are signed with.
func (h *Hooks) SecretOf(keyID string) string { return h.o.Secret.Derive(credential.Webhook, keyID) }

// Close ends deliveries. Tries that are being made may end by themselves until ctx
// ends; what is owed then is found again by the next New.
func (h *Hooks) Close(ctx context.Context) {
	h.drained.Do(func() {
		h.mu.Lock()
		h.ended = true
		h.mu.Unlock()
		close(h.drain)
	})
	stop := context.AfterFunc(ctx, h.cancel)
	defer stop()
	h.tries(ctx)
	h.cancel()
	h.work.Wait()
}
