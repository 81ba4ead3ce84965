package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// maxPerHour is how many charges a counter of the queue has room for.
const maxPerHour = 4000

// unit is what stored bytes are counted in.
const unit = 1 << 10

// failed makes an answer of an error of the queue, which goes to the log alone.
func (a *Admission) failed(what string, err error) *api.ServiceError {
	switch {
	case errors.Is(err, queue.ErrFull):
		return &api.ServiceError{Code: api.CodeStorage, Message: "the service has no room left", RetryAfterMS: 10_000}
	case errors.Is(err, queue.ErrContended):
		return &api.ServiceError{Code: api.CodeBusy, Message: "too many ask at once", RetryAfterMS: 1000}
	case errors.Is(err, context.Canceled):
		return &api.ServiceError{Code: api.CodeInternal, Message: "the request ended"}
	}
	a.o.Log.Error("admission: "+what, "error", err)
	return &api.ServiceError{Code: api.CodeInternal, Message: "the service's store does not answer as it should"}
}

// until is how long a time is away in ms: one second at least, and no longer than
// most, whatever the clocks say.
func (a *Admission) until(t time.Time, most time.Duration) int64 {
	return min(max(t.Sub(a.o.Now()).Milliseconds(), 1000), most.Milliseconds())
}

// counters is where a client's are, and how many runs it has in an hour.
func (a *Admission) counters(c Client) (b *queue.Bucket, runs int) {
	if c.Kind == KeyHolder {
		return a.keyQuotas, a.o.KeyRunsPerHour
	}
	return a.quotas, a.o.RunsPerHour
}

func (a *Admission) cpuLimit(runs int) uint32 {
	return uint32(min(int64(runs)*a.o.CPUPerRun.Milliseconds(), math.MaxUint32))
}

func (a *Admission) storedLimit(c Client) int64 {
	if c.Kind == KeyHolder {
		return a.o.KeyStoredPerHour
	}
	return a.o.StoredPerHour
}

func (a *Admission) overQuota(u queue.Usage, what string) *api.ServiceError {
	return &api.ServiceError{Code: api.CodeQuota, RetryAfterMS: a.until(u.Reset, hour),
		Message: fmt.Sprintf("the quota of %d %s an hour is used up", u.Limit, what)}
}

// chargeRun charges a run to its client, and to the network of one without a key.
// mine says that it was not charged before.
func (a *Admission) chargeRun(ctx context.Context, c Client, id string) (mine bool, err error) {
	b, runs := a.counters(c)
	if c.Kind == KeyHolder || c.Wide == "" {
		u, err := b.Charge(ctx, "r-"+c.ID, queue.Charge{ID: id, N: 1, Limit: uint32(runs), Window: hour})
		return !u.Same, a.charged(u, err, "runs")
	}
	return a.chargeTwo(ctx, b, "r-", c, id, runs, "runs")
}

func (a *Admission) charged(u queue.Usage, err error, what string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrQuota):
		return a.overQuota(u, what)
	}
	return a.failed("a charge", err)
}

// chargeBoth is chargeTwo for what is never charged again.
func (a *Admission) chargeBoth(ctx context.Context, b *queue.Bucket, prefix string, c Client, id string, limit int, what string) error {
	_, err := a.chargeTwo(ctx, b, prefix, c, id, limit, what)
	return err
}

// chargeTwo charges a client and its network. A refusal of one whose quota is used up
// writes nothing: a flood of them costs two reads each.
func (a *Admission) chargeTwo(ctx context.Context, b *queue.Bucket, prefix string, c Client, id string, limit int, what string) (mine bool, err error) {
	one := queue.Charge{ID: id, N: 1, Limit: uint32(limit), Window: hour}
	many := one
	many.Limit *= uint32(a.o.CoarseFactor)
	fine, wide := prefix+c.Net, prefix+c.Wide
	u, err := b.Used(ctx, fine, one.Limit, hour)
	if err != nil {
		return false, a.failed("a quota", err)
	}
	if u.Used >= u.Limit { // nothing is written unless it was charged before
		u, err = b.Charge(ctx, fine, one)
		return !u.Same, a.charged(u, err, what)
	}
	w, err := b.Charge(ctx, wide, many)
	if err != nil {
		return false, a.charged(w, err, what+" of a network")
	}
	u, err = b.Charge(ctx, fine, one)
	if errors.Is(err, queue.ErrQuota) && !w.Same {
		a.refund(ctx, b, wide, id)
	}
	return !u.Same, a.charged(u, err, what)
}

// refund takes a charge back. If that does not come through the charge stands.
func (a *Admission) refund(ctx context.Context, b *queue.Bucket, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, err := b.Refund(ctx, key, id, hour); err != nil {
		a.o.Log.Warn("admission: a charge stands", "error", err)
	}
}

func (a *Admission) refundRun(ctx context.Context, c Client, id string) {
	b, _ := a.counters(c)
	a.refund(ctx, b, "r-"+c.ID, id)
	if c.Kind == Anonymous && c.Wide != "" {
		a.refund(ctx, b, "r-"+c.Wide, id)
	}
}

// paidFor refuses a client whose former runs have used up what is counted after them.
func (a *Admission) paidFor(ctx context.Context, c Client, pending int64) error {
	b, runs := a.counters(c)
	cpu, err := b.Used(ctx, "c-"+c.ID, a.cpuLimit(runs), hour)
	if err != nil {
		return a.failed("a quota", err)
	}
	if cpu.Used >= cpu.Limit {
		e := a.overQuota(cpu, "ms of CPU time")
		return e
	}
	limit := a.storedLimit(c)
	stored, err := b.Used(ctx, "s-"+c.ID, uint32(min(limit/unit, math.MaxUint32)), hour)
	if err != nil {
		return a.failed("a quota", err)
	}
	if int64(stored.Used)*unit+pending > limit {
		return &api.ServiceError{Code: api.CodeStorage, RetryAfterMS: a.until(stored.Reset, hour),
			Message: fmt.Sprintf("a client may have %d bytes stored in an hour", limit)}
	}
	return nil
}

// Cost is what a run has used when it is over.
type Cost struct {
	// ID is the run's: its cost counts once.
	ID string
	// CPUMS is its CPU time in ms, and that of what had to be made again because of it.
	CPUMS int64
	// StoredBytes is how much of it is kept: program, result, artifacts, events.
	StoredBytes int64
}

// Spend counts the cost of a run to its client, also beyond what the client may: the
// next run has to wait then. Without quotas it does nothing. The error is one of the
// queue.
func (a *Admission) Spend(ctx context.Context, c Client, cost Cost) error {
	if !a.o.Quotas || c.Kind == Operator {
		return nil
	}
	b, _ := a.counters(c)
	var all error
	for prefix, n := range map[string]int64{"c-": cost.CPUMS, "s-": (cost.StoredBytes + unit - 1) / unit} {
		if n <= 0 {
			continue
		}
		_, err := b.Charge(ctx, prefix+c.ID, queue.Charge{ID: cost.ID, N: uint32(min(n, math.MaxInt32)), Limit: math.MaxUint32, Window: hour})
		if err != nil && !errors.Is(err, queue.ErrQuota) { // no room for one more charge: it is over any limit
			all = errors.Join(all, err)
		}
	}
	return all
}

// Quotas are what the client may still do in this hour, nil where nothing is counted.
// It consumes nothing. The error is an *api.ServiceError.
func (a *Admission) Quotas(ctx context.Context, c Client) (runs, keys *api.Quota, err error) {
	if !a.o.Quotas || c.Kind == Operator {
		return nil, nil, nil
	}
	b, limit := a.counters(c)
	if runs, err = a.quota(ctx, b, "r-"+c.ID, limit); err != nil {
		return nil, nil, err
	}
	if c.Kind == Anonymous && c.Wide != "" {
		if err := a.narrow(ctx, "r-"+c.Wide, limit, runs); err != nil {
			return nil, nil, err
		}
	}
	if c.Net == "" || c.Wide == "" {
		return runs, nil, nil
	}
	if keys, err = a.quota(ctx, a.quotas, "k-"+c.Net, a.o.KeysPerHour); err != nil {
		return nil, nil, err
	}
	return runs, keys, a.narrow(ctx, "k-"+c.Wide, a.o.KeysPerHour, keys)
}

func (a *Admission) quota(ctx context.Context, b *queue.Bucket, key string, limit int) (*api.Quota, error) {
	u, err := b.Used(ctx, key, uint32(limit), hour)
	if err != nil {
		return nil, a.failed("a quota", err)
	}
	return &api.Quota{Limit: limit, Used: int(u.Used), Remaining: max(limit-int(u.Used), 0), Reset: u.Reset.UTC()}, nil
}

// narrow leaves no more of a quota than the network has left.
func (a *Admission) narrow(ctx context.Context, wide string, limit int, q *api.Quota) error {
	w, err := a.quota(ctx, a.quotas, wide, limit*a.o.CoarseFactor)
	if err == nil {
		q.Remaining = min(q.Remaining, w.Remaining)
	}
	return err
}
