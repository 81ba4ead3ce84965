package cell

import (
	"sync"
	"time"
)

// maxArmedAge is how long an armed cell may wait; an older one is replaced
// unused.
const maxArmedAge = 10 * time.Minute

// reserve keeps a number of things made ahead of need. A failure to make one is
// not repeated at once; whoever needs one then makes it and sees the error.
type reserve[T any] struct {
	h     *Host
	size  int
	age   time.Duration // 0: does not matter
	build func() (T, error)
	ready chan aged[T]
	want  chan struct{}

	mu     sync.Mutex
	closed bool
}

type aged[T any] struct {
	v    T
	born time.Time
}

func newReserve[T any](h *Host, size int, age time.Duration, build func() (T, error)) *reserve[T] {
	return &reserve[T]{h: h, size: size, age: age, build: build,
		ready: make(chan aged[T], max(size, 1)), want: make(chan struct{}, 1)}
}

// run starts the goroutine that fills the reserve.
func (r *reserve[T]) run() {
	if r.size > 0 {
		r.h.work.Add(1)
		go r.fill()
	}
}

func (r *reserve[T]) fill() {
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
		select {
		case <-r.want:
		case <-r.h.ctx.Done():
			return
		}
	}
}

// put adds one made elsewhere; it reports false, and does not keep it, when the
// reserve is closed. The caller then gets rid of it.
func (r *reserve[T]) put(v T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		select {
		case r.ready <- aged[T]{v, time.Now()}:
			return true
		default:
		}
	}
	r.h.discard(v)
	return !r.closed
}

// take returns one if there is one, and asks for the next.
func (r *reserve[T]) take() (v T, ok bool) {
	for {
		select {
		case a := <-r.ready:
			r.wish()
			if r.age > 0 && time.Since(a.born) > r.age {
				r.h.discard(a.v)
				continue
			}
			return a.v, true
		default:
			r.wish()
			return v, false
		}
	}
}

func (r *reserve[T]) wish() {
	select {
	case r.want <- struct{}{}:
	default:
	}
}

// drain closes the reserve and gives everything in it to end.
func (r *reserve[T]) drain(end func(T)) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for {
		select {
		case a := <-r.ready:
			end(a.v)
		default:
			return
		}
	}
}
