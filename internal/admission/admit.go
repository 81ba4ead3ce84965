package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Request is a run that wants to begin.
type Request struct {
	// ID is the run's. The same one again, as with an Idempotency-Key, is the same run
	// and is counted once.
	ID string
	// SourceHash is a hash of what runs, 1 to 64 letters and digits; empty for none.
	SourceHash string
	// Bytes is how much the queue has to keep of it at least.
	Bytes int64
}

// Place is a run's place among those in flight. One of Accepted, Refuse and Settle ends
// the request's part in it, and the first one counts.
type Place struct {
	a      *Admission
	c      Client
	r      Request
	mine   bool // the quota was charged for this one
	closed bool
}

// Admit lets a run go to the queue, or says why not and when it can: the error is an
// *api.ServiceError with the code slowed, in_flight, busy, quota, storage, conflict (the
// id is another client's) or internal. What it charges to the quota stands unless the
// queue did not accept the run, see [Place.Refuse]; if this process dies in between,
// it stands.
func (a *Admission) Admit(ctx context.Context, c Client, r Request) (*Place, error) {
	if !credential.Run.Is(r.ID) || queue.CheckToken(c.ID) != nil || r.Bytes < 0 {
		return nil, a.failed("a run or a client was not named as it must be", queue.ErrName)
	}
	if err := a.slowed(ctx, c, r.SourceHash); err != nil {
		return nil, err
	}
	pending, err := a.enter(ctx, c, r)
	if err != nil {
		return nil, err
	}
	p := &Place{a: a, c: c, r: r}
	if err := p.pay(ctx, pending); err != nil {
		a.shares.leave(r.ID, false)
		return nil, err
	}
	return p, nil
}

// pay does what needs the store: nothing is charged when it returns an error, or it is
// not known.
func (p *Place) pay(ctx context.Context, pending int64) (err error) {
	a := p.a
	if a.o.Queue.Shared() {
		if err := a.elsewhere(ctx, p.c); err != nil {
			return err
		}
	}
	if !a.o.Quotas || p.c.Kind == Operator {
		return nil
	}
	p.mine, err = a.chargeRun(ctx, p.c, p.r.ID, pending)
	return err
}

// elsewhere refuses a client whose runs of all machines are more than it may have. What
// several machines admit in the same moment is not seen by it.
func (a *Admission) elsewhere(ctx context.Context, c Client) error {
	all, err := a.o.Queue.Unfinished(ctx, c.ID)
	if err != nil {
		return a.failed("the queue's jobs cannot be read", err)
	}
	if a.shares.together(c.ID, all) > a.o.InFlight {
		return inFlight(a.o.InFlight)
	}
	return nil
}

// enter takes a place among those in flight, and says how many bytes the client's runs
// bring that are not counted yet.
func (a *Admission) enter(ctx context.Context, c Client, r Request) (pending int64, err error) {
	for try := 0; ; try++ {
		pending, err = a.shares.enter(c.ID, r, a.o.InFlight)
		full, ok := errors.AsType[*api.ServiceError](err)
		if !ok || full.Code != api.CodeInFlight || try > 0 || !a.shares.mayLook(c.ID) {
			return pending, err
		}
		// Some may have ended where nobody told this process of it.
		if err := a.look(ctx, c.ID); err != nil {
			return 0, a.failed("the queue's jobs cannot be read", err)
		}
	}
}

// Accepted says that the queue has the run. Its place is taken until Done.
func (p *Place) Accepted() {
	if !p.closed {
		p.closed = true
		p.a.shares.accepted(p.r.ID, p.c.ID)
	}
}

// Refuse says that the queue has not accepted the run, for sure: what this request has
// charged is given back. Not for an error after which that is not known.
func (p *Place) Refuse(ctx context.Context) {
	if p.closed {
		return
	}
	p.closed = true
	if p.a.shares.leave(p.r.ID, p.mine) && p.a.o.Quotas && p.c.Kind != Operator {
		p.a.refundRun(ctx, p.c, p.r.ID)
	}
}

// Settle is Accepted or Refuse, by what queue.Submit has returned. After an error with
// which it is not known whether the run was accepted the charge stands, and the place
// is taken until the queue can tell.
func (p *Place) Settle(ctx context.Context, err error) {
	if err == nil {
		p.Accepted()
		return
	}
	for _, sure := range []error{queue.ErrBacklog, queue.ErrFull, queue.ErrTooLarge, queue.ErrName, queue.ErrExists} {
		if errors.Is(err, sure) {
			p.Refuse(ctx)
			return
		}
	}
	p.closed = true
}

// Done says that a run has ended: its place is free. Of an id that is not known it
// says nothing.
func (a *Admission) Done(id string) { a.shares.done(id) }

// Adopt takes a run over that the queue has and that came to this process by another
// way than Admit: of an instance before this one, or of another machine. One that is
// known already stays what it is. client is the job's.
func (a *Admission) Adopt(id, client string) { a.shares.accepted(id, client) }

// resume adopts what the queue has from before.
func (a *Admission) resume(ctx context.Context) error {
	all, err := a.o.Queue.Unfinished(ctx, "")
	for _, j := range all {
		a.Adopt(j.ID, j.Client)
	}
	return err
}

// look frees the places of a client's runs that the queue has no more, all clients'
// for "".
func (a *Admission) look(ctx context.Context, client string) error {
	before := a.shares.mark()
	all, err := a.o.Queue.Unfinished(ctx, client)
	if err != nil {
		return err
	}
	still := make(map[string]bool, len(all))
	for _, j := range all {
		still[j.ID] = true
	}
	a.shares.reconcile(client, before, still)
	return nil
}

func inFlight(n int) *api.ServiceError {
	return &api.ServiceError{Code: api.CodeInFlight, RetryAfterMS: 1000, Message: fmt.Sprintf("a client may have %d runs that have not ended", n)}
}

func busy(what string) *api.ServiceError {
	return &api.ServiceError{Code: api.CodeBusy, RetryAfterMS: 1000, Message: what}
}
