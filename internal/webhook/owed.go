package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// Delivery is what is owed: when the run has ended, the URL is told, signed with the
// secret of the key.
type Delivery struct {
	RunID, KeyID, URL string
}

// record is what the bucket has for a run.
type record struct {
	Key   string `json:"key"`
	URL   string `json:"url,omitempty"`   // "" when nothing is owed any more
	Tries int    `json:"tries,omitempty"` // begun, each written down before it is made
	At    int64  `json:"at,omitempty"`    // when the last one began, in ms since 1970
	Ended string `json:"ended,omitempty"` // an outcome
}

// item is a delivery that is owed.
type item struct {
	run, key string
	url      egress.URL
	rev      uint64
	tries    int
	due      time.Time
	holders  int  // between Expect and Follow
	follows  int  // how many times Follow was called
	followed bool // somebody waits for the run's end

	written chan struct{} // closed when the record is, or cannot be, written
	failed  error         // set before that
}

// Expect writes down that a run's end is to be told of. It comes before the run is
// submitted to the queue, and Follow after that, whatever came of it. The same again is
// no error and is delivered once. The error is an *api.FieldError, [ErrBusy], [ErrOther]
// or the queue's, queue.ErrFull among them: then nothing is owed.
func (h *Hooks) Expect(ctx context.Context, d Delivery) error {
	u, err := h.parse(d.URL)
	if err != nil {
		return err
	}
	if err := errors.Join(credential.Run.Check(d.RunID), credential.KeyID.Check(d.KeyID)); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	h.mu.Lock()
	if i := h.items[d.RunID]; i != nil {
		if i.key != d.KeyID || i.url != u {
			h.mu.Unlock()
			return ErrOther
		}
		i.holders++
		h.mu.Unlock()
		select {
		case <-i.written:
			return i.failed
		case <-ctx.Done():
			h.Follow(d.RunID)
			return context.Cause(ctx)
		}
	}
	i, err := h.take(d, u)
	h.mu.Unlock()
	if err != nil {
		h.o.Observe(Dropped)
		return err
	}
	defer close(i.written)
	old, err := h.write(ctx, i, d)
	switch i.failed = err; {
	case err != nil, old: // old: it has been told of
		h.forget(i)
	default:
		h.o.Observe(Queued)
	}
	return err
}

// take makes an item, in its share of what may be owed. The lock is held.
func (h *Hooks) take(d Delivery, u egress.URL) (*item, error) {
	if h.ended {
		return nil, queue.ErrClosed
	}
	key, to := h.key(d.KeyID), h.target(u.Host)
	most := max(1, h.o.MaxPending/share)
	if len(h.items) >= h.o.MaxPending || key.owed >= most || to.owed >= most {
		h.tidy(d.KeyID)
		return nil, ErrBusy
	}
	i := &item{run: d.RunID, key: d.KeyID, url: u, holders: 1, written: make(chan struct{})}
	h.items[d.RunID] = i
	if h.fresh != nil {
		h.fresh[d.RunID] = true
	}
	key.owed++
	to.owed++
	return i, nil
}

func (h *Hooks) key(id string) *count {
	c := h.keys[id]
	if c == nil {
		c = &count{}
		h.keys[id] = c
	}
	return c
}

// tidy drops the counters of a key that has nothing to count.
func (h *Hooks) tidy(id string) {
	if c := h.keys[id]; c != nil && *c == (count{}) {
		delete(h.keys, id)
	}
}

// forget ends an item. What the bucket has stays.
func (h *Hooks) forget(i *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(i)
}

// drop is forget, with the lock held.
func (h *Hooks) drop(i *item) {
	if h.items[i.run] != i {
		return
	}
	delete(h.items, i.run)
	h.key(i.key).owed--
	h.target(i.url.Host).owed--
	h.tidy(i.key)
}

// write makes an item's record, or finds it. It says whether the run has been told of.
func (h *Hooks) write(ctx context.Context, i *item, d Delivery) (old bool, err error) {
	data, err := json.Marshal(record{Key: d.KeyID, URL: d.URL})
	if err != nil {
		return false, err
	}
	for range 8 {
		rev, err := h.bucket.Create(ctx, d.RunID, data, 0)
		if !errors.Is(err, queue.ErrExists) {
			h.setRev(i, rev)
			return false, err
		}
		r, rev, err := h.read(ctx, d.RunID)
		switch {
		case errors.Is(err, queue.ErrNotFound):
			continue
		case err != nil:
			return false, err
		case r.Key != d.KeyID || r.URL != d.URL && r.Ended == "":
			return false, ErrOther
		case r.Ended != "", r.Tries > 0: // it has been told of, or another instance is at it
			return true, nil
		}
		// A new revision keeps whoever finds that the run was not accepted from dropping it.
		rev, err = h.bucket.Update(ctx, d.RunID, data, rev, 0)
		if !errors.Is(err, queue.ErrConflict) {
			h.setRev(i, rev)
			return false, err
		}
	}
	return false, queue.ErrContended
}

func (h *Hooks) setRev(i *item, rev uint64) {
	h.mu.Lock()
	i.rev = rev
	h.mu.Unlock()
}

func (h *Hooks) read(ctx context.Context, run string) (r record, rev uint64, err error) {
	v, err := h.bucket.Get(ctx, run)
	if err != nil {
		return r, 0, err
	}
	return r, v.Revision, strictjson.Decode(v.Data, &r, strictjson.Options{})
}

// Follow waits, in the background, for the end of a run that was expected. A run that
// the queue does not have is expected no longer.
func (h *Hooks) Follow(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.items[run]
	if i == nil {
		return
	}
	i.holders--
	i.follows++
	h.follow(i)
}

// follow begins to wait for a run, once. The lock is held.
func (h *Hooks) follow(i *item) {
	if !i.followed && !h.ended {
		i.followed = true
		h.work.Go(func() { h.await(i) })
	}
}

// await waits for a run's end. How many wait is bounded by how many runs the queue
// takes.
func (h *Hooks) await(i *item) {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		h.mu.Lock()
		follows := i.follows
		h.mu.Unlock()
		_, err := h.o.Queue.Wait(h.ctx, i.run)
		switch {
		case err == nil:
			h.ready(i, i.due)
			return
		case errors.Is(err, queue.ErrNotFound):
			if h.unexpect(i, follows) {
				return
			}
		case errors.Is(err, queue.ErrClosed), h.ctx.Err() != nil:
			return
		default:
			h.o.Log.Warn("webhook: a run cannot be waited for", "run", i.run, "error", err)
			if !h.sleep(pause) {
				return
			}
		}
	}
}

// unexpect drops an item whose run was not there, unless somebody is about to submit
// it, who follows it again, or has since it was looked for, by the count of follows: then
// the waiting is not over.
func (h *Hooks) unexpect(i *item, follows int) (over bool) {
	h.mu.Lock()
	rev := i.rev
	if i.follows != follows {
		h.mu.Unlock()
		return false
	}
	if i.holders > 0 {
		i.followed = false
		h.mu.Unlock()
		return true
	}
	h.drop(i) // from here on the next Expect writes a new record, or a new revision of this
	h.mu.Unlock()
	h.o.Observe(Dropped)
	if err := h.bucket.Delete(h.ctx, i.run, rev); err != nil && !errors.Is(err, queue.ErrConflict) && !errors.Is(err, queue.ErrNotFound) {
		h.o.Log.Warn("webhook: a record cannot be dropped", "run", i.run, "error", err)
	}
	return true
}

func (h *Hooks) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.ctx.Done():
		return false
	}
}

// recover takes up what was owed when the program ended.
func (h *Hooks) recover() {
	for run, v := range h.bucket.All(h.ctx) {
		var r record
		if err := strictjson.Decode(v.Data, &r, strictjson.Options{}); err != nil {
			h.o.Log.Warn("webhook: a record cannot be read", "run", run, "error", err)
			continue
		}
		if r.Ended == "" {
			h.resume(run, r, v.Revision)
		}
	}
	h.mu.Lock()
	h.fresh = nil
	h.mu.Unlock()
}

func (h *Hooks) resume(run string, r record, rev uint64) {
	h.mu.Lock()
	fresh := h.fresh[run]
	h.mu.Unlock()
	if fresh {
		return
	}
	u, err := h.parse(r.URL)
	if err != nil { // the operator has taken the host off his list
		h.end(record{Key: r.Key, Tries: r.Tries}, run, rev, Dropped)
		return
	}
	i := &item{run: run, key: r.Key, url: u, rev: rev, tries: r.Tries, written: make(chan struct{})}
	close(i.written)
	if i.tries > len(h.o.Pauses) {
		h.end(record{Key: r.Key, Tries: r.Tries}, run, rev, Failed)
		return
	}
	if i.tries > 0 {
		i.due = h.after(i.tries, time.UnixMilli(r.At))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.items[run] != nil || h.fresh[run] || h.ended {
		return
	}
	h.items[run] = i
	h.key(i.key).owed++
	h.target(u.Host).owed++
	h.follow(i)
}

// after is when the try behind try n, which began at a time, is due. A clock that was
// set back makes nobody wait longer than a pause.
func (h *Hooks) after(n int, began time.Time) time.Time {
	now, pause := h.o.Now(), h.o.Pauses[n-1]
	if at := began.Add(pause); at.Before(now.Add(pause)) {
		return at
	}
	return now.Add(pause)
}

// end writes that nothing is owed any more, in a record without a URL. It stays as long as the run's
// own, so that a submission that is repeated is not told of twice.
func (h *Hooks) end(r record, run string, rev uint64, outcome string) {
	h.o.Observe(outcome)
	r.Ended = outcome
	data, err := json.Marshal(r)
	if err == nil {
		_, err = h.bucket.Update(h.ctx, run, data, rev, 0)
	}
	if err != nil && !errors.Is(err, queue.ErrConflict) {
		h.o.Log.Warn("webhook: an outcome cannot be written", "run", run, "outcome", outcome, "error", err)
	}
}

// body is what a run's webhook says: an [api.Run] as JSON.
func (h *Hooks) body(ctx context.Context, run string) ([]byte, error) {
	h.big.Lock()
	defer h.big.Unlock()
	text, err := h.o.Queue.Result(ctx, run)
	if err != nil {
		return nil, err
	}
	var result api.Result
	if err := strictjson.Decode(text, &result, strictjson.Options{MaxBytes: 256 << 20, MaxValues: 1 << 20}); err != nil {
		return nil, err
	}
	out := api.Run{ID: run, State: api.RunFinished, Result: &result, APIVersion: api.Version}
	body, err := json.Marshal(out)
	if err == nil && len(body) > MaxBody {
		shorten(&result)
		body, err = json.Marshal(out)
	}
	if err == nil && len(body) > MaxBody {
		out.Result = &api.Result{ID: run, Verdict: result.Verdict, Cause: result.Cause, APIVersion: api.Version, Warnings: result.Warnings[:1]}
		body, err = json.Marshal(out)
	}
	return body, err
}

// shorten leaves out of a result what may be long.
func shorten(r *api.Result) {
	r.Stdout, r.Stderr, r.StdoutBase64, r.StderrBase64 = "", "", "", ""
	r.Artifacts, r.RefusedArtifacts = nil, nil
	if r.Compile != nil {
		c := *r.Compile
		c.Stdout, c.Stderr = "", ""
		r.Compile = &c
	}
	r.Warnings = append([]string{"this result was too long for a webhook: read it from the service"}, r.Warnings...)
}
