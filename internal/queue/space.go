package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// spaceLeft knows how much is stored.
type spaceLeft struct {
	mu      sync.Mutex
	at      time.Time
	used    int64
	events  int64 // of it, in the stream of events
	objects int64 // and in that of the objects of runs
}

// more counts what was written since.
func (s *spaceLeft) more(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += int64(bytes)
	s.events += int64(bytes)
}

// moreObjects counts what was written of objects of runs since.
func (s *spaceLeft) moreObjects(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += int64(bytes)
	s.objects += int64(bytes)
}

// Stored is how many bytes were stored when somebody last looked, and how many may be.
func (q *Queue) Stored() (used, most int64) {
	q.spaceLeft.mu.Lock()
	defer q.spaceLeft.mu.Unlock()
	return q.spaceLeft.used, q.o.MaxBytes
}

// purpose is what room is wanted for.
type purpose int

const (
	forJobs    purpose = iota // something new
	forEvents                 // what a run writes that was accepted; its end needs room too
	forObjects                // the same, large
)

// eventShare is the events' part of all that is kept. At fifteen sixteenths of it events
// are refused, and the rest is for attempts, starts and final events; at half of that
// rest jobs are refused, so that those of accepted ones find their room.
func (o *Options) eventShare() int64 { return o.MaxBytes / 16 * 5 }

// objectShare is that of the objects of runs. A job is refused at four fifths of it: the
// rest is for programs, results and artifacts of accepted ones.
func (o *Options) objectShare() int64 { return o.MaxBytes / 16 * 6 }

// fresh is how old a figure of what is stored may be.
const fresh = 200 * time.Millisecond

// room says whether there is room: for jobs at a low-water mark that leaves enough
// for what was accepted before. The error wraps [ErrFull], or is one of NATS.
func (q *Queue) room(ctx context.Context, p purpose) error {
	most, events, free := q.o.MaxBytes/5*4, q.o.eventShare()/32*31, q.o.MinFree
	if p != forJobs {
		most, events, free = q.o.MaxBytes/16*15, q.o.eventShare()/16*15, free/2
	}
	if q.srv != nil {
		if err := q.Err(); err != nil {
			return err
		}
		var st unix.Statfs_t
		if err := unix.Statfs(q.o.Dir, &st); err != nil {
			return err
		}
		if left := int64(st.Bavail) * st.Bsize; left < free { //nolint:unconvert // 32 bits elsewhere
			return fmt.Errorf("%w: the disk has %d MiB left, of %d that must be", ErrFull, left>>20, free>>20)
		}
	}
	s := &q.spaceLeft
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > fresh {
		info, err := q.js.AccountInfo(ctx)
		if err != nil {
			return err
		}
		stream, err := q.events.js.Info(ctx)
		if err != nil {
			return err
		}
		s.used, s.events = int64(info.Store), int64(stream.State.Bytes)
		if stream, err = q.runs.s.js.Info(ctx); err != nil {
			return err
		}
		s.objects, s.at = int64(stream.State.Bytes), time.Now()
	}
	if most := q.o.objectShare() / 5 * 4; p == forJobs && s.objects >= most {
		return fmt.Errorf("%w: %d MiB of results and files are stored, of %d at most", ErrFull, s.objects>>20, most>>20)
	}
	if p != forObjects && s.events >= events {
		return fmt.Errorf("%w: %d MiB of events are stored, of %d at most", ErrFull, s.events>>20, events>>20)
	}
	if s.used >= most {
		return fmt.Errorf("%w: %d MiB are stored, of %d at most", ErrFull, s.used>>20, most>>20)
	}
	return nil
}

// stalled knows whether the store of an embedded server still takes anything. A stream
// that could not be written once does not answer any more, whether there is room again
// or not, until it is opened again; the server does not say so.
type stalled struct {
	on    atomic.Bool
	mu    sync.Mutex
	asked time.Time
}

// noAnswer is called when the server did not answer in time.
func (q *Queue) noAnswer(after time.Duration) {
	if q.srv != nil && after >= step/2 && q.ctx.Err() == nil {
		q.stalled.on.Store(true)
		q.o.Log.Error("queue: the store does not answer")
	}
}

// stillStalled asks again, from time to time.
func (q *Queue) stillStalled() bool {
	s := &q.stalled
	if !s.on.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on.Load() || time.Since(s.asked) < step/2 {
		return s.on.Load()
	}
	ctx, cancel := context.WithTimeout(q.ctx, step/10)
	defer cancel()
	to, err := q.build(padSubject, eventsToken)
	if err == nil {
		_, err = q.publish(ctx, outgoing{to: to})
	}
	s.asked = time.Now()
	s.on.Store(err != nil)
	return err != nil
}
