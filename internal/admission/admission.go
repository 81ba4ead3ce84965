// Package admission decides who a client is and whether what it asks for may
// begin: keys, quotas, shares of what runs, waits and streams at once, and programs
// that have ended their executor. What must outlive the process or hold for several
// machines is in the queue's store, counted by compare and swap; the rest is in
// memory, as much of it as there are requests at the moment.
package admission

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Options are what is admitted. Zero values are the defaults.
type Options struct {
	// Queue has the store, and Secret is the service's own. Both must be set.
	Queue  *queue.Queue
	Secret *credential.Secret

	// ProxyHeader is the one header in which a trusted proxy says whom it speaks for,
	// "X-Forwarded-For" for example; Trusted is where such proxies are. Without both no
	// header is read, and the peer is the client.
	ProxyHeader string
	Trusted     []netip.Prefix
	// IPv4Bits and IPv6Bits say how much of an address is one client: 32 and 64.
	// CoarseIPv4Bits and CoarseIPv6Bits are the network around it, which has a share of
	// its own: 24 and 48.
	IPv4Bits, IPv6Bits             int
	CoarseIPv4Bits, CoarseIPv6Bits int

	// Quotas puts what is counted by the hour in force. Off by default.
	Quotas bool
	// RunsPerHour is how many runs a client without a key may submit in an hour: 20.
	// KeyRunsPerHour is that of a key: 200. KeysPerHour is how many keys a client may
	// make in an hour: 5. At most 2,000 each.
	RunsPerHour, KeyRunsPerHour, KeysPerHour int
	// CoarseFactor is how many times as much a network may do: 16. A network that may
	// do more than 4,000 in an hour is refused.
	CoarseFactor int
	// CPUPerRun is the CPU time that a run of the quota stands for: when a client's runs
	// and what replaced their cells have had as many of it in an hour as it may submit
	// runs, it has to wait. 60 s.
	CPUPerRun time.Duration
	// StoredPerHour is how many bytes of programs, results and artifacts a client
	// without a key may have stored in an hour: 256 MiB; KeyStoredPerHour is that of a
	// key: 1 GiB.
	StoredPerHour, KeyStoredPerHour int64
	// EgressPerHour is how many bytes a client without a key may be sent in an hour: 1
	// GiB; KeyEgressPerHour is that of a key: 4 GiB; EgressInAll that of all: 64 GiB.
	EgressPerHour, KeyEgressPerHour, EgressInAll int64

	// KeyTTL is how long a key lives: 90 days. MaxKeysPerClient is how many living
	// keys a client may have made, with Quotas: 20.
	KeyTTL           time.Duration
	MaxKeysPerClient int

	// InFlight is how many runs of one client may wait and run: 8.
	InFlight int
	// SocketsPerRun is how many streams may watch one run: 10. SocketsPerClient is how
	// many one client may have: 64; MaxSockets is how many there may be: 1,024.
	SocketsPerRun, SocketsPerClient, MaxSockets int
	// WaitsPerClient is how many requests of one client may wait for the end of a run:
	// 16; MaxWaits is how many there may be: 256.
	WaitsPerClient, MaxWaits int

	// SlowFor is how long a program that has ended its executor is refused to its
	// owner, twice as long each time, a day at most: 10 min.
	SlowFor time.Duration

	// OperatorToken is the operator's: 16 printable characters at least; without it
	// nobody is the operator. AccessToken makes the installation a private one: whoever
	// has neither it nor a key nor the operator's token is nobody.
	OperatorToken, AccessToken string

	// Now is the clock: time.Now. Quotas go by the store's.
	Now func() time.Time
	// Log gets what went wrong, and which keys were made and revoked. Nothing by default.
	Log *slog.Logger
}

const (
	hour = time.Hour
	day  = 24 * hour
	// maxPending is how many requests may be between Admit and the queue's answer.
	maxPending = 4096
)

// bound is a default and the least and most that an option may be.
type bound struct {
	name      string
	v         *int
	def       int
	low, high int
}

func (o *Options) complete() error {
	if o.Queue == nil || o.Secret == nil {
		return &api.FieldError{Field: "Queue", Reason: "Queue and Secret must be set"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, f := range []bound{
		{"IPv4Bits", &o.IPv4Bits, 32, 8, 32}, {"IPv6Bits", &o.IPv6Bits, 64, 16, 128},
		{"CoarseIPv4Bits", &o.CoarseIPv4Bits, 24, 1, 32}, {"CoarseIPv6Bits", &o.CoarseIPv6Bits, 48, 1, 128},
		{"RunsPerHour", &o.RunsPerHour, 20, 1, 2000}, {"KeyRunsPerHour", &o.KeyRunsPerHour, 200, 1, 2000},
		{"KeysPerHour", &o.KeysPerHour, 5, 1, 2000}, {"CoarseFactor", &o.CoarseFactor, 16, 1, 2000},
		{"MaxKeysPerClient", &o.MaxKeysPerClient, 20, 1, maxListed},
		{"InFlight", &o.InFlight, 8, 1, 100_000},
		{"SocketsPerRun", &o.SocketsPerRun, 10, 1, 100_000}, {"MaxSockets", &o.MaxSockets, 1024, 1, 1_000_000},
		{"SocketsPerClient", &o.SocketsPerClient, min(64, share(o.MaxSockets, 1024)), 1, share(o.MaxSockets, 1024)},
		{"MaxWaits", &o.MaxWaits, 256, 1, 1_000_000},
		{"WaitsPerClient", &o.WaitsPerClient, min(16, share(o.MaxWaits, 256)), 1, share(o.MaxWaits, 256)},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.low || *f.v > f.high {
			return &api.FieldError{Field: f.name, Value: *f.v, Reason: fmt.Sprintf("must be %d to %d", f.low, f.high)}
		}
	}
	for _, f := range []struct {
		name      string
		v         *int64
		def, low  int64
		high, per int64
	}{
		{"CPUPerRun", (*int64)(&o.CPUPerRun), int64(time.Minute), int64(time.Millisecond), int64(30 * time.Minute), 1},
		{"StoredPerHour", &o.StoredPerHour, 256 << 20, 1 << 10, 1 << 41, 1}, {"KeyStoredPerHour", &o.KeyStoredPerHour, 1 << 30, 1 << 10, 1 << 41, 1},
		{"EgressPerHour", &o.EgressPerHour, 1 << 30, 1, math.MaxInt64, 1}, {"KeyEgressPerHour", &o.KeyEgressPerHour, 4 << 30, 1, math.MaxInt64, 1},
		{"EgressInAll", &o.EgressInAll, 64 << 30, 1, math.MaxInt64, 1},
		{"KeyTTL", (*int64)(&o.KeyTTL), int64(90 * day), int64(time.Second), int64(3650 * day), 1},
		{"SlowFor", (*int64)(&o.SlowFor), int64(10 * time.Minute), int64(time.Second), int64(day), 1},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.low || *f.v > f.high {
			return &api.FieldError{Field: f.name, Value: *f.v, Reason: fmt.Sprintf("must be %d to %d", f.low, f.high)}
		}
	}
	return o.consistent()
}

// share is the most that one client may have of a number that is for all: three
// quarters, so that one never has all of it.
func share(all, def int) int {
	if all == 0 {
		all = def
	}
	return max(1, all/4*3)
}

// consistent looks at what options say together.
func (o *Options) consistent() error {
	for _, f := range []struct {
		name string
		n    int
		most int
	}{
		{"RunsPerHour", o.RunsPerHour, maxPerHour}, {"KeysPerHour", o.KeysPerHour, maxPerHour}, {"MaxKeysPerClient", o.MaxKeysPerClient, maxListed},
	} {
		if f.n*o.CoarseFactor > f.most {
			return &api.FieldError{Field: "CoarseFactor", Value: o.CoarseFactor, Reason: fmt.Sprintf("times %s must be %d at most", f.name, f.most)}
		}
	}
	switch {
	case o.CoarseIPv4Bits > o.IPv4Bits:
		return &api.FieldError{Field: "CoarseIPv4Bits", Value: o.CoarseIPv4Bits, Reason: "must be IPv4Bits at most"}
	case o.CoarseIPv6Bits > o.IPv6Bits:
		return &api.FieldError{Field: "CoarseIPv6Bits", Value: o.CoarseIPv6Bits, Reason: "must be IPv6Bits at most"}
	case o.OperatorToken != "" && credential.Equal(o.OperatorToken, o.AccessToken):
		return &api.FieldError{Field: "AccessToken", Reason: "must not be the operator's token"}
	}
	for name, token := range map[string]string{"OperatorToken": o.OperatorToken, "AccessToken": o.AccessToken} {
		if token != "" && !tokenForm(token) {
			return &api.FieldError{Field: name, Reason: "must be 16 to 256 printable characters without spaces"}
		}
	}
	return o.proxies()
}

func tokenForm(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(s) >= 16 && len(s) <= 256
}

const headerChars = "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func (o *Options) proxies() error {
	o.ProxyHeader = http.CanonicalHeaderKey(o.ProxyHeader)
	switch {
	case (o.ProxyHeader == "") != (len(o.Trusted) == 0):
		return &api.FieldError{Field: "ProxyHeader", Reason: "ProxyHeader and Trusted must be set together"}
	case o.ProxyHeader == "":
		return nil
	case strings.Trim(o.ProxyHeader, headerChars) != "":
		return &api.FieldError{Field: "ProxyHeader", Value: o.ProxyHeader, Reason: "must be the name of a header"}
	case o.ProxyHeader == "Forwarded" || o.ProxyHeader == "Authorization" || o.ProxyHeader == "Cookie":
		return &api.FieldError{Field: "ProxyHeader", Value: o.ProxyHeader, Reason: "must be one that has addresses alone, X-Forwarded-For for example"}
	}
	trusted := make([]netip.Prefix, 0, len(o.Trusted))
	for _, p := range o.Trusted {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if !p.IsValid() || p.Bits() == 0 || p.Addr().Is4In6() {
			return &api.FieldError{Field: "Trusted", Value: p.String(), Reason: "must be a network, and not all of them"}
		}
		trusted = append(trusted, p.Masked())
	}
	o.Trusted = trusted
	return nil
}

// Admission admits. It is safe for concurrent use.
type Admission struct {
	o                 Options
	slow              *queue.Bucket
	keys, issued      packed
	quotas, keyQuotas packed
	shares            shares
	egress            egress
	cancel            context.CancelFunc
	work              sync.WaitGroup
}

// Open opens the buckets, and takes over the runs that the queue has from before.
// The error is an *api.FieldError or one of the queue.
func Open(ctx context.Context, o Options) (*Admission, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	a := &Admission{o: o}
	a.shares.begin()
	if err := a.buckets(ctx); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	if err := a.resume(ctx); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.work.Go(func() { a.sweeps(background) })
	return a, nil
}

// buckets opens what is kept.
func (a *Admission) buckets(ctx context.Context) error {
	var keys, quotas, keyQuotas *queue.Bucket
	for _, b := range []struct {
		to   **queue.Bucket
		name string
		o    queue.BucketOptions
	}{
		{&keys, "keys", queue.BucketOptions{TTL: a.o.KeyTTL, MaxValue: maxPart}},
		{&a.slow, "slowed", queue.BucketOptions{TTL: 2 * day}},
		// The flood of addresses that fills the one does not fill the other.
		{&quotas, "quota_net", queue.BucketOptions{TTL: 3 * hour, MaxValue: maxPart}},
		{&keyQuotas, "quota_key", queue.BucketOptions{TTL: 3 * hour, MaxValue: maxPart}},
	} {
		var err error
		if *b.to, err = a.o.Queue.Bucket(ctx, b.name, b.o); err != nil {
			return err
		}
	}
	old := func(data []byte) bool { return over(a.o.Queue.Now())(data) }
	a.quotas.b, a.quotas.prefix, a.quotas.dead = quotas, "c", old
	a.keyQuotas.b, a.keyQuotas.prefix, a.keyQuotas.dead = keyQuotas, "c", old
	a.keys.b, a.keys.prefix, a.keys.dead = keys, "k", func(data []byte) bool {
		k, err := decodeKey(name{}, data)
		return err == nil && !a.o.Now().Before(k.expires)
	}
	a.issued.b, a.issued.prefix, a.issued.dead = keys, "i", func(data []byte) bool {
		all, err := decodeIssued(data)
		return err == nil && len(a.living(all)) == 0
	}
	return nil
}

// Close ends what goes on in the background. The queue is the caller's.
func (a *Admission) Close() {
	a.cancel()
	a.work.Wait()
}
