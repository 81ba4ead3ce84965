package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/glovebox-dev/glovebox/api"
)

// Job is a run that waits.
type Job struct {
	// ID and Client are tokens, see [CheckToken]: ids that the service made, and a
	// hash of who the client is. Jobs of different clients take turns.
	ID, Client string
	// Program is what to run, [MaxObject] at most. The queue does not read it.
	Program []byte
	// Note is what the service wants to find again with the job: [MaxNote] at most.
	Note []byte
	// Submitted is set by Submit, if it is zero.
	Submitted time.Time
}

// What the cause of a result says that the queue itself gave.
const (
	// CauseLost says that the executor was lost after the run had begun.
	CauseLost = "lost"
	// CauseKilled says that the job has lost so many executors that it is held for
	// what kills them.
	CauseKilled = "killed"
)

const (
	jobVersion    = 1
	programObject = "program"
)

func (j *Job) encode(program []byte, object string) []byte {
	b := make([]byte, 0, 256+len(j.Note)+len(program))
	b = append(b, jobVersion)
	for _, s := range []string{j.Client, j.ID, object} {
		b = appendText(b, s)
	}
	b = appendVarint(b, j.Submitted.UnixMilli())
	b = appendText(b, j.Note)
	return append(b, program...)
}

// decodeJob reads what encode wrote. A program that is an object is not there yet.
func decodeJob(b []byte) (j Job, object string, err error) {
	d := decoder{b: b}
	if d.byte() != jobVersion {
		return Job{}, "", fmt.Errorf("%w: a job of another version", ErrDamaged)
	}
	j.Client, j.ID, object = d.text(maxToken), d.text(maxToken), d.text(maxToken)
	j.Submitted = time.UnixMilli(d.varint())
	j.Note = bytes.Clone(d.bytes(MaxNote))
	j.Program = bytes.Clone(d.b)
	if d.short || CheckToken(j.Client) != nil || CheckToken(j.ID) != nil {
		return Job{}, "", fmt.Errorf("%w: a job that ends within itself", ErrDamaged)
	}
	return j, object, nil
}

// Submit accepts a job: when it returns nil, JetStream has it, and the job comes to
// exactly one final event. The same job of the same client may be submitted again,
// as who does not know what came of the first time does; it still is one job, for as
// long as its records are kept.
//
// The error is [ErrBacklog], [ErrFull], [ErrTooLarge], [ErrName] or [ErrExists] (another job
// has the id), and nothing was accepted; with others that is not known.
func (q *Queue) Submit(ctx context.Context, j Job) (err error) {
	defer q.closing(&err)
	subject, err := q.build(jobSubject, j.Client, j.ID)
	switch {
	case err != nil:
		return err
	case len(j.Note) > MaxNote:
		return fmt.Errorf("%w: a note of %d bytes", ErrTooLarge, len(j.Note))
	case len(j.Program) > MaxObject:
		return fmt.Errorf("%w: a program of %d bytes", ErrTooLarge, len(j.Program))
	case q.ctx.Err() != nil:
		return ErrClosed
	}
	if err := q.room(ctx, forJobs); err != nil {
		return err
	}
	if j.Submitted.IsZero() {
		j.Submitted = time.Now()
	}
	program, object := j.Program, ""
	if len(program) > maxJobInline {
		if err := q.runs.Put(ctx, j.ID, programObject, bytes.NewReader(program)); err != nil {
			return err
		}
		program, object = nil, programObject
	}
	_, err = q.publish(ctx, outgoing{to: subject, body: j.encode(program, object), cas: true})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errConflict):
		return q.submitted(ctx, subject, &j, program)
	case errors.Is(err, ErrFull), errors.Is(err, ErrBacklog):
		if object != "" {
			_ = q.runs.Delete(ctx, j.ID, object)
		}
	}
	return err
}

// submitted says whether the job that has the id already is the same.
func (q *Queue) submitted(ctx context.Context, subject name, j *Job, program []byte) error {
	m, err := q.jobs.last(ctx, subject)
	if errors.Is(err, errNone) {
		return nil // it has come to its end meanwhile
	}
	if err != nil {
		return err
	}
	old, _, err := decodeJob(m.body)
	if err != nil {
		return err
	}
	if !bytes.Equal(old.Program, program) || !bytes.Equal(old.Note, j.Note) {
		return fmt.Errorf("%w: another job has this id", ErrExists)
	}
	return nil
}

// State is how far a run is.
type State string

// States of a run.
const (
	Waiting  State = "waiting"
	Taken    State = "taken" // an executor has it and has not begun
	Begun    State = "begun"
	Finished State = "finished"
)

// Status is what is known of a run.
type Status struct {
	State State
	// Position is how many jobs were accepted before it and wait too, with 0 for the
	// next, while it waits. Clients take turns, so it may be taken earlier.
	Position int
	// Losses is how many executors it has lost.
	Losses int
	// Since is when it came to this state.
	Since time.Time
}

// Status says how far a run is. The error is [ErrNotFound], [ErrName] or one of NATS.
func (q *Queue) Status(ctx context.Context, id string) (_ Status, err error) {
	defer q.closing(&err)
	job, last, err := q.look(ctx, id)
	if err != nil {
		return Status{}, err
	}
	st := Status{State: Waiting}
	if last != nil {
		st.Losses, st.Since = int(last.losses), last.at
		switch last.kind {
		case kindFinished:
			st.State = Finished
			return st, nil
		case kindStarted:
			st.State = Begun
			return st, nil
		case kindAttempt:
			st.State = Taken
			return st, nil
		}
	}
	if last == nil {
		st.Since = job.at
	}
	st.Position, err = q.position(ctx, job.seq)
	return st, err
}

// look reads a job and the last record of its control. It has at least one of them.
// The job is read first: it is there until there is a final event.
func (q *Queue) look(ctx context.Context, id string) (job *stored, last *control, err error) {
	of, err := q.build(jobOfAnyone, id)
	if err != nil {
		return nil, nil, err
	}
	for try := 0; ; try++ {
		job, err = q.jobs.last(ctx, of)
		if err != nil && !errors.Is(err, errNone) {
			return nil, nil, err
		}
		last, err = q.control(ctx, id)
		switch {
		case errors.Is(err, errNone) && job == nil:
			return nil, nil, ErrNotFound
		case errors.Is(err, errNone):
			return job, nil, nil
		case err != nil:
			return nil, nil, err
		case last.kind == kindFinished && q.old(last.at):
			return nil, nil, ErrNotFound
		case job != nil || last.kind == kindFinished:
			return job, last, nil
		case try == 0: // it may have been accepted between the two
		default:
			// The loss of power took the job: nobody will come back for it.
			last, err = q.settle(ctx, id, last, CauseLost)
			if errors.Is(err, errConflict) {
				err = nil
			}
			return nil, last, err
		}
	}
}

// control is the last record of a run's control, and its number on the server.
type control struct {
	record
	at  time.Time
	num uint64
}

// control reads it. The error is errNone if nobody has taken the job yet.
func (q *Queue) control(ctx context.Context, id string) (*control, error) {
	on, err := q.build(controlSubject, id)
	if err != nil {
		return nil, err
	}
	m, err := q.events.last(ctx, on)
	if err != nil {
		return nil, err
	}
	r, err := decodeRecord(m.body)
	if err != nil {
		return nil, err
	}
	return &control{*r, m.at, m.seq}, nil
}

// settle gives a run a final event of the queue's own, in the place of what was last
// seen of it. Whoever was first has won: the record that is there then is returned.
func (q *Queue) settle(ctx context.Context, id string, last *control, cause string) (*control, error) {
	body, err := json.Marshal(api.Result{ID: id, Verdict: api.Interrupted, Cause: cause, APIVersion: api.Version})
	if err != nil {
		return nil, err
	}
	job := q.jobOf(ctx, id) // before it is gone
	got, err := q.end(ctx, id, last, body)
	if err == nil && job != nil && got.by == q.instance && bytes.Equal(got.data, body) {
		q.o.Settled(*job, body)
	}
	return got, err
}

// jobOf is the job of a run, for whoever hears of its end; nil if it is gone.
func (q *Queue) jobOf(ctx context.Context, id string) *Job {
	if q.o.Settled == nil {
		return nil
	}
	of, err := q.build(jobOfAnyone, id)
	if err != nil {
		return nil
	}
	m, err := q.jobs.last(ctx, of)
	if err != nil {
		return nil
	}
	j, _, err := decodeJob(m.body)
	if err != nil {
		return nil
	}
	return &j
}

// end is settle with a result.
func (q *Queue) end(ctx context.Context, id string, last *control, result []byte) (*control, error) {
	all, err := q.build(runSubjects, id)
	if err != nil {
		return nil, err
	}
	on, err := q.build(controlSubject, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	for range 3 {
		r := &record{kind: kindFinished, seq: 1, at: time.Now(), name: TypeFinished, by: q.instance, data: result}
		var num uint64
		if last != nil {
			num, r.losses, r.tries = last.num, last.losses, last.tries
			m, err := q.events.last(ctx, all) // events have the numbers on
			if err != nil {
				return nil, err
			}
			newest, err := decodeRecord(m.body)
			if err != nil {
				return nil, err
			}
			r.seq = max(newest.seq, last.seq) + 1
		}
		num, err = q.publish(ctx, outgoing{to: on, body: r.encode(), cas: true, last: num, end: true})
		if err == nil {
			return &control{*r, r.at, num}, nil
		}
		now, e := q.control(ctx, id)
		switch {
		case e != nil && !errors.Is(e, errNone):
			return nil, errors.Join(err, e)
		case e == nil && now.kind == kindFinished:
			return now, nil
		case e == nil:
			return now, errConflict
		}
	}
	return nil, err
}

// JobName is what a job is called.
type JobName struct{ ID, Client string }

// Unfinished are the jobs of a client that have not ended, those of all clients for "":
// what waits, what was taken and what has begun. One that ends just now may be among
// them. The error is [ErrName] or one of NATS.
func (q *Queue) Unfinished(ctx context.Context, client string) (_ []JobName, err error) {
	defer q.closing(&err)
	on := q.fixed(jobsSubjects)
	if client != "" {
		if on, err = q.build(jobsOfClient, client); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	info, err := q.jobs.js.Info(ctx, jetstream.WithSubjectFilter(on.s))
	if err != nil {
		return nil, err
	}
	all := make([]JobName, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		n := heard(subject)
		all = append(all, JobName{ID: n.token(3), Client: n.token(2)})
	}
	return all, nil
}

// Cancel ends a job that waits, with this result as its final event. The error is
// [ErrRunning] if an executor has it, [ErrOver] if it has ended, [ErrNotFound],
// [ErrName] or one of NATS.
func (q *Queue) Cancel(ctx context.Context, id string, result []byte) (err error) {
	defer q.closing(&err)
	if len(result) > MaxInline {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, len(result))
	}
	for range 3 {
		job, last, err := q.look(ctx, id)
		switch {
		case err != nil:
			return err
		case last != nil && last.kind == kindFinished:
			return ErrOver
		case last != nil && last.kind != kindReleased:
			return ErrRunning
		}
		_, err = q.end(ctx, id, last, result)
		if errors.Is(err, errConflict) {
			continue
		}
		if err == nil {
			if err = q.jobs.remove(ctx, job.seq); errors.Is(err, errNone) {
				err = nil
			}
		}
		return err
	}
	return ErrRunning
}
