package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// taking is what an executor has at hand: jobs that the server has delivered and
// that nobody has taken, by client, and those that were taken.
type taking struct {
	mu      sync.Mutex
	server  jetstream.Consumer       // nil before the first Take
	from    jetstream.ConsumeContext // nil with an external server
	waiting map[string]*item         // by id
	clients map[string][]*item
	turns   []string // clients that have something, the next first
	active  map[string]*Delivery
	more    chan struct{} // closed when there is something new
	room    chan struct{} // closed when something went
	closed  bool
}

// item is a delivered job.
type item struct {
	id, client string
	msg        jetstream.Msg
}

func newItem(msg jetstream.Msg) *item {
	subject := name{msg.Subject()}
	return &item{id: subject.token(3), client: subject.token(2), msg: msg}
}

// window is how many jobs are at hand, so that clients take turns. No other executor
// could want them: the server is in this process.
func (q *Queue) window() int { return min(q.o.MaxJobs, 256) }

// startTaking asks the server for jobs, at the first Take.
func (q *Queue) startTaking(ctx context.Context) error {
	t := &q.taking
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if t.server != nil {
		return nil
	}
	t.waiting, t.clients, t.active = map[string]*item{}, map[string][]*item{}, map[string]*Delivery{}
	t.more, t.room = make(chan struct{}), make(chan struct{})
	config := jetstream.ConsumerConfig{
		Durable: q.fixed(executorsName).s, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.o.Patience,
		MaxDeliver: -1, MaxAckPending: q.o.MaxJobs + 1, MemoryStorage: q.srv != nil,
	}
	if q.srv != nil {
		// What a process before this one had at hand must come at once.
		err := q.js.DeleteConsumer(ctx, q.jobs.name.s, config.Durable)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
	}
	c, err := q.js.CreateOrUpdateConsumer(ctx, q.jobs.name.s, config)
	if err != nil {
		return err
	}
	if q.srv != nil {
		if t.from, err = c.Consume(q.arrived, jetstream.PullMaxMessages(q.window())); err != nil {
			return err
		}
	}
	t.server = c
	q.background(q.beat)
	return nil
}

// stopTaking gives back what was not taken.
func (q *Queue) stopTaking() {
	t := &q.taking
	t.mu.Lock()
	t.closed = true
	if t.from != nil {
		t.from.Stop()
	}
	for _, it := range t.waiting {
		_ = it.msg.Nak()
	}
	active := slices.Collect(maps.Values(t.active))
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	for _, d := range active {
		d.close(ctx) // it has a lock of its own, which comes first
	}
}

// arrived is called for each job that the server delivers, one at a time.
func (q *Queue) arrived(msg jetstream.Msg) {
	t := &q.taking
	it := newItem(msg)
	t.mu.Lock()
	for {
		if t.closed {
			t.mu.Unlock()
			_ = msg.Nak()
			return
		}
		if d := t.active[it.id]; d != nil { // it was late with its sign of life
			d.msg = msg
			t.mu.Unlock()
			return
		}
		if old := t.waiting[it.id]; old != nil {
			old.msg = msg
			t.mu.Unlock()
			return
		}
		if len(t.waiting) < q.window() {
			break
		}
		room := t.room
		t.mu.Unlock()
		select {
		case <-room:
		case <-q.ctx.Done():
		}
		t.mu.Lock()
	}
	t.waiting[it.id] = it
	if len(t.clients[it.client]) == 0 {
		t.turns = append(t.turns, it.client)
	}
	t.clients[it.client] = append(t.clients[it.client], it)
	close(t.more)
	t.more = make(chan struct{})
	t.mu.Unlock()
}

// pop takes the next job of the client whose turn it is.
func (q *Queue) pop(ctx context.Context) (*item, error) {
	if q.srv == nil {
		return q.fetch(ctx)
	}
	t := &q.taking
	for {
		t.mu.Lock()
		if len(t.turns) > 0 && !t.closed {
			client := t.turns[0]
			its := t.clients[client]
			it := its[0]
			t.turns = t.turns[1:]
			if len(its) > 1 {
				t.clients[client] = its[1:]
				t.turns = append(t.turns, client)
			} else {
				delete(t.clients, client)
			}
			delete(t.waiting, it.id)
			// From here on a second delivery of it is known.
			t.active[it.id] = newDelivery(q, it.msg)
			close(t.room)
			t.room = make(chan struct{})
			t.mu.Unlock()
			return it, nil
		}
		more := t.more
		t.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-q.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// fetchWait is how long the server is asked at once.
const fetchWait = 5 * time.Second

// fetch asks an external server for one job, and for none that is not wanted now:
// other machines could run it.
func (q *Queue) fetch(ctx context.Context) (*item, error) {
	for {
		some, err := q.taking.server.Fetch(1, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return nil, err
		}
		select {
		case msg := <-some.Messages():
			if it := q.fetched(msg); it != nil {
				return it, nil
			}
			if err := some.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
				return nil, err
			}
			continue
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-q.ctx.Done():
			err = ErrClosed
		}
		q.background(func() { // it may come all the same
			select {
			case msg := <-some.Messages():
				if msg != nil {
					_ = msg.Nak()
				}
			case <-q.ctx.Done():
			}
		})
		return nil, err
	}
}

// fetched makes a job one that is taken, unless it is none, or held here already.
func (q *Queue) fetched(msg jetstream.Msg) *item {
	if msg == nil {
		return nil
	}
	t := &q.taking
	it := newItem(msg)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch d := t.active[it.id]; {
	case t.closed:
		_ = msg.Nak()
		return nil
	case d != nil: // it was late with its sign of life
		d.msg = msg
		return nil
	}
	t.active[it.id] = newDelivery(q, msg)
	return it
}

// beat tells the server of each job at hand that it is in work.
func (q *Queue) beat() {
	tick := time.NewTicker(q.o.Patience / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-q.ctx.Done():
			return
		}
		t := &q.taking
		t.mu.Lock()
		msgs := make([]jetstream.Msg, 0, len(t.waiting)+len(t.active))
		for _, it := range t.waiting {
			msgs = append(msgs, it.msg)
		}
		for _, d := range t.active {
			msgs = append(msgs, d.msg)
		}
		t.mu.Unlock()
		for _, m := range msgs {
			_ = m.InProgress() // the next one may come through
		}
	}
}

// Take waits for a job and takes it. That it was taken is written down before Take
// returns, so that an executor that dies of it is counted. Jobs of one client come
// in the order in which they were accepted.
//
// What cannot be run any more ends here by itself and is not returned: a job whose
// executor was lost after the start, or that has lost Options.MaxLosses of them.
//
// The error is [ErrClosed], the context's, or one of NATS.
func (q *Queue) Take(ctx context.Context) (_ *Delivery, err error) {
	defer q.closing(&err)
	if err := q.startTaking(ctx); err != nil {
		return nil, err
	}
	for {
		it, err := q.pop(ctx)
		if err != nil {
			return nil, err
		}
		d, err := q.attempt(ctx, it)
		if err == nil && d != nil {
			return d, nil
		}
		msg := q.drop(it.id)
		switch {
		case msg == nil:
		case err == nil:
			_ = msg.Ack()
		default:
			_ = msg.NakWithDelay(time.Second)
		}
		if err != nil && !errors.Is(err, errConflict) {
			return nil, err
		}
	}
}

// drop forgets what pop has begun, and returns what the server wants to hear of. An
// acknowledgement that is lost does no harm: the job comes again, and is over.
func (q *Queue) drop(id string) jetstream.Msg {
	t := &q.taking
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.active[id]
	delete(t.active, id)
	if d == nil {
		return nil
	}
	return d.msg
}

// attempt writes down that the job was taken. Neither a delivery nor an error means
// that the job is over.
func (q *Queue) attempt(ctx context.Context, it *item) (*Delivery, error) {
	job, object, err := decodeJob(it.msg.Data())
	if err == nil && (job.ID != it.id || job.Client != it.client) {
		err = fmt.Errorf("%w: a job of another subject", ErrDamaged)
	}
	if err != nil {
		q.o.Log.Error("queue: a job cannot be read", "error", err)
		if _, e := q.settleNow(ctx, it.id, CauseLost); e != nil {
			return nil, e
		}
		return nil, nil
	}
	d := q.held(it.id)
	if d == nil {
		return nil, ErrClosed
	}
	d.Job = job
	on, err := q.build(controlSubject, it.id)
	if err != nil {
		return nil, err
	}
	d.control = on
	step, cancel := bounded(ctx)
	defer cancel()
	mine := &record{kind: kindAttempt, at: time.Now(), by: q.instance}
	d.last, err = q.publish(step, outgoing{to: on, body: mine.encode(), cas: true})
	if errors.Is(err, errConflict) {
		var over bool
		if over, err = q.again(step, d); over {
			return nil, err
		}
	}
	if err == nil && object != "" {
		err = q.program(step, d, object)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
			_, err = q.settleNow(step, it.id, CauseLost)
			return nil, err
		}
	}
	if err == nil {
		err = d.listen()
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (q *Queue) held(id string) *Delivery {
	q.taking.mu.Lock()
	defer q.taking.mu.Unlock()
	return q.taking.active[id]
}

// again is attempt for a job that was taken before.
func (q *Queue) again(ctx context.Context, d *Delivery) (over bool, err error) {
	last, err := q.control(ctx, d.Job.ID)
	if err != nil {
		return false, err
	}
	losses := last.losses
	switch last.kind {
	case kindFinished:
		return true, nil
	case kindStarted:
		_, err = q.settle(ctx, d.Job.ID, last, CauseLost)
		return err == nil, err
	case kindAttempt:
		if last.by != q.instance { // else it was this one, which had no answer
			losses++
		}
	}
	if losses >= uint64(q.o.MaxLosses) {
		last.losses = losses
		_, err = q.settle(ctx, d.Job.ID, last, CauseKilled)
		return err == nil, err
	}
	mine := &record{kind: kindAttempt, at: time.Now(), by: q.instance, losses: losses, tries: last.tries}
	d.losses, d.tries = losses, last.tries
	d.last, err = q.publish(ctx, outgoing{to: d.control, body: mine.encode(), cas: true, last: last.num})
	return false, err
}

// program reads a program that is an object.
func (q *Queue) program(ctx context.Context, d *Delivery, object string) error {
	o, err := q.runs.Get(ctx, d.Job.ID, object)
	if err == nil {
		d.Job.Program, err = io.ReadAll(o)
	}
	return err
}

// settleNow ends a run, however far it is.
func (q *Queue) settleNow(ctx context.Context, id, cause string) (*control, error) {
	last, err := q.control(ctx, id)
	if err != nil && !errors.Is(err, errNone) {
		return nil, err
	}
	if err == nil && last.kind == kindFinished {
		return last, nil
	}
	return q.settle(ctx, id, last, cause)
}

// recover ends what a process before this one has left behind. Nobody else has the
// folder, so whoever had taken something is gone.
func (q *Queue) recover(ctx context.Context) error {
	for job, err := range q.jobs.scan(ctx, q.fixed(jobsSubjects), 1) {
		if err != nil {
			return err
		}
		id := job.on.token(3)
		last, err := q.control(ctx, id)
		if errors.Is(err, errNone) {
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case last.kind == kindStarted:
			_, err = q.settle(ctx, id, last, CauseLost)
		case last.kind == kindAttempt && last.losses+1 >= uint64(q.o.MaxLosses):
			last.losses++
			_, err = q.settle(ctx, id, last, CauseKilled)
		case last.kind != kindFinished:
			continue
		}
		if err == nil {
			err = q.jobs.remove(ctx, job.seq)
		}
		if err != nil && !errors.Is(err, errNone) {
			return err
		}
	}
	return nil
}
