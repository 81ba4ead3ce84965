package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// maxPerHour leaves a counter room for charges.
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

// runsPerHour is how many runs a client has in an hour.
func (a *Admission) runsPerHour(c Client) int64 {
	if c.Kind == KeyHolder {
		return int64(a.o.KeyRunsPerHour)
	}
	return int64(a.o.RunsPerHour)
}

func (a *Admission) storedLimit(c Client) int64 {
	if c.Kind == KeyHolder {
		return a.o.KeyStoredPerHour
	}
	return a.o.StoredPerHour
}

func (a *Admission) overQuota(n *counter, limit int64, what string) *api.ServiceError {
	return &api.ServiceError{Code: api.CodeQuota, RetryAfterMS: a.until(n.reset(), window),
		Message: fmt.Sprintf("the quota of %d %s an hour is used up", limit, what)}
}

// answer is what the caller of tally says of its error.
func (a *Admission) answer(err error) error {
	if refused, ok := errors.AsType[*api.ServiceError](err); ok || err == nil {
		if err == nil {
			return nil
		}
		return refused
	}
	return a.failed("a quota", err)
}

// chargeRun charges a run to its client, and to the network of one without a key, in one
// step. pending is how many bytes of the client's are not counted yet. mine says that the
// run was not charged before. A refusal writes nothing.
func (a *Admission) chargeRun(ctx context.Context, c Client, id string, pending int64) (mine bool, err error) {
	err = a.tally(ctx, c, func(t *tally) error {
		mine = false
		own := t.of("r-" + c.ID)
		if own.find(chargeID(id)) >= 0 {
			return nil
		}
		if err := a.paidFor(t, c, pending); err != nil {
			return err
		}
		if err := a.chargeBoth(t, "r-", c.ID, c, id, a.runsPerHour(c), "runs"); err != nil {
			return err
		}
		mine = true
		return nil
	})
	return mine, a.answer(err)
}

// chargeKey charges the issue of a key to the address and its network.
func (a *Admission) chargeKey(ctx context.Context, c Client) error {
	if c.Net == "" || c.Wide == "" {
		return a.failed("a key was asked for by a client without an address", queue.ErrName)
	}
	id := credential.Run.New()
	return a.answer(a.tally(ctx, Client{ID: c.Net, Net: c.Net}, func(t *tally) error {
		return a.chargeBoth(t, "k-", c.Net, Client{Kind: Anonymous, Wide: c.Wide}, id, int64(a.o.KeysPerHour), "keys")
	}))
}

// chargeBoth charges a client, and its network if it is known by its address.
func (a *Admission) chargeBoth(t *tally, prefix, token string, c Client, id string, limit int64, what string) error {
	own := t.of(prefix + token)
	if !own.room(1, limit) {
		return a.overQuota(own, limit, what)
	}
	if c.Kind == Anonymous && c.Wide != "" {
		wide := t.of(prefix + c.Wide)
		limit *= int64(a.o.CoarseFactor)
		if !wide.room(1, limit) {
			return a.overQuota(wide, limit, what+" of a network")
		}
		t.add(prefix+c.Wide, wide, id, 1)
	}
	t.add(prefix+token, own, id, 1)
	return nil
}

// refundRun takes a charge back. If that does not come through the charge stands.
func (a *Admission) refundRun(ctx context.Context, c Client, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := a.tally(ctx, c, func(t *tally) error {
		t.remove("r-"+c.ID, id)
		if c.Kind == Anonymous && c.Wide != "" {
			t.remove("r-"+c.Wide, id)
		}
		return nil
	})
	if err != nil {
		a.o.Log.Warn("admission: a charge stands", "error", err)
	}
}

// paidFor refuses a client whose former runs have used up what is counted after them.
func (a *Admission) paidFor(t *tally, c Client, pending int64) error {
	most := a.runsPerHour(c) * a.o.CPUPerRun.Milliseconds()
	if cpu := t.of("c-" + c.ID); cpu.used() >= most {
		return a.overQuota(cpu, most, "ms of CPU time")
	}
	limit := a.storedLimit(c)
	if stored := t.of("s-" + c.ID); stored.used()*unit+pending > limit {
		return &api.ServiceError{Code: api.CodeStorage, RetryAfterMS: a.until(stored.reset(), window),
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
	return a.tally(ctx, c, func(t *tally) error {
		for prefix, n := range map[string]int64{"c-": cost.CPUMS, "s-": cost.StoredBytes/unit + min(cost.StoredBytes%unit, 1)} {
			if n > 0 {
				t.add(prefix+c.ID, t.of(prefix+c.ID), cost.ID, uint32(min(n, math.MaxUint32)))
			}
		}
		return nil
	})
}

// Quotas are what the client may still do in this hour, nil where nothing is counted.
// It consumes nothing. The error is an *api.ServiceError.
func (a *Admission) Quotas(ctx context.Context, c Client) (runs, keys *api.Quota, err error) {
	if !a.o.Quotas || c.Kind == Operator {
		return nil, nil, nil
	}
	err = a.tally(ctx, c, func(t *tally) error {
		wide := c.Wide
		if c.Kind != Anonymous {
			wide = ""
		}
		runs = a.quota(t, "r-", c.ID, wide, a.runsPerHour(c))
		return nil
	})
	if err == nil && c.Net != "" && c.Wide != "" {
		err = a.tally(ctx, Client{ID: c.Net, Net: c.Net}, func(t *tally) error {
			keys = a.quota(t, "k-", c.Net, c.Wide, int64(a.o.KeysPerHour))
			return nil
		})
	}
	if err != nil {
		return nil, nil, a.answer(err)
	}
	return runs, keys, nil
}

// quota is what a counter says; no more remains of it than of that of the network.
func (a *Admission) quota(t *tally, prefix, token, wide string, limit int64) *api.Quota {
	own := t.of(prefix + token)
	q := &api.Quota{Limit: int(limit), Used: int(own.used()), Reset: own.reset()}
	left := limit - own.used()
	if wide != "" {
		left = min(left, limit*int64(a.o.CoarseFactor)-t.of(prefix+wide).used())
	}
	q.Remaining = int(max(left, 0))
	return q
}
