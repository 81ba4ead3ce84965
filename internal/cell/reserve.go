package cell

import (
	"sync"
	"time"
)

// maxArmedAge is how long an armed cell may wait; an older one is replaced
// unused.
const maxArmedAge = 10 * time.Minute

// reserve keeps a number of cells made ahead of need, up to some point. A
// failure to make one is not repeated at once; whoever needs one then makes it
// and sees the error.
type reserve struct {
	h     *Host
	size  int
	age   time.Duration // 0: does not matter
	build func() (*cell, error)
	ready chan aged
	want  chan struct{}

	mu     sync.Mutex
	closed bool
}

type aged struct {
	c    *cell
	born time.Time
}

func newReserve(h *Host, size int, age time.Duration, build func() (*cell, error)) *reserve {
	return &reserve{h: h, size: size, age: age, build: build,
		ready: make(chan aged, max(size, 1)), want: make(chan struct{}, 1)}
}

// run starts the goroutine that fills the reserve.
func (r *reserve) run() {
	if r.size > 0 {
		r.h.work.Add(1)
		go r.fill()
	}
}

func (r *reserve) fill() {
	defer r.h.work.Done()
	for {
		for len(r.ready) < r.size {
			v, err := r.build()
			if err != nil {
				r.h.log.Warn("reserve", "error", err)
				break
			}
			if !r.put(v) {
				return
			}
		}
		if !r.wanted() {
			return
		}
	}
}

// How long the reserve waits for quiet before it is filled again, after the
// last taking and after the first.
const (
	quiet     = 15 * time.Millisecond
	impatient = 150 * time.Millisecond
)

// wanted waits until one was taken and the run that took it is likely to be on
// its way: on cgroup v1 a thread that enters a group holds up every fork and exit
// of the machine for some milliseconds. It reports false when the host closes.
func (r *reserve) wanted() bool {
	select {
	case <-r.want:
	case <-r.h.ctx.Done():
		return false
	}
	calm, last := time.NewTimer(quiet), time.NewTimer(impatient)
	defer calm.Stop()
	defer last.Stop()
	for {
		select {
		case <-r.want:
			calm.Reset(quiet)
		case <-calm.C:
			return true
		case <-last.C:
			return true
		case <-r.h.ctx.Done():
			return false
		}
	}
}

// put adds one made elsewhere; it reports false, and does not keep it, when the
// reserve is closed. The caller then gets rid of it.
func (r *reserve) put(v *cell) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		select {
		case r.ready <- aged{v, time.Now()}:
			return true
		default:
		}
	}
	r.h.later(v)
	return !r.closed
}

// take returns one if there is one, and asks for the next.
func (r *reserve) take() (v *cell, ok bool) {
	for {
		select {
		case a := <-r.ready:
			r.wish()
			if r.age > 0 && time.Since(a.born) > r.age || !a.c.place.slot.l.usable() {
				r.h.later(a.c)
				continue
			}
			return a.c, true
		default:
			r.wish()
			return v, false
		}
	}
}

// flush gives up all that is there, and asks for new.
func (r *reserve) flush() {
	defer r.wish()
	for {
		select {
		case a := <-r.ready:
			r.h.later(a.c)
		default:
			return
		}
	}
}

func (r *reserve) wish() {
	select {
	case r.want <- struct{}{}:
	default:
	}
}

// drain closes the reserve and gives everything in it to end.
func (r *reserve) drain(end func(*cell)) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for {
		select {
		case a := <-r.ready:
			end(a.c)
		default:
			return
		}
	}
}
