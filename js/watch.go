package js

import (
	"sync"
	"time"
)

// lookEvery is how often a running evaluation is looked at.
const lookEvery = 100 * time.Millisecond

// watch looks at an evaluation while it runs, for what the deadline of the
// channel does not hold: processor time, and a worker that takes what it is sent
// drop by drop.
type watch struct {
	r *Runtime

	mu          sync.Mutex
	timer       *time.Timer
	stopped     bool
	base, last  time.Duration // processor time at the beginning, at the last look
	guest, host time.Duration // of the clock at the last look
}

// watchCPU begins to look, and returns what ends it. An evaluation shorter than
// a look costs a timer and a reading of the worker's clock. One that goes on keeps
// its beginning.
func (r *Runtime) watchCPU(on bool) (stop func()) {
	w := &watch{r: r}
	w.last, _ = r.w.used()
	if !on {
		r.cpu = w.last
	}
	w.base = r.cpu
	w.guest, w.host = r.clk.used()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(lookEvery, w.look)
	return w.stop
}

// writes says that the conversation is about to write, wrote that it has.
func (r *Runtime) writes() { r.sending.Store(time.Now().UnixNano()) }
func (r *Runtime) wrote()  { r.sending.Store(0) }

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// look is one look.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if why := w.judge(); why != nil {
		go w.r.shut(why) // it waits for the worker's end, and whoever reads stops this watch
		return
	}
	w.timer.Reset(lookEvery)
}

// judge says what is over, nil if nothing is.
func (w *watch) judge() *Error {
	limits := &w.r.limits
	since := w.r.sending.Load()
	if since != 0 && time.Since(time.Unix(0, since)) > time.Duration(limits.WriteStallMS)*time.Millisecond {
		return limits.passed(WriteStall)
	}
	used, ok := w.r.w.used()
	if !ok {
		return nil
	}
	var over bool
	w.guest, w.host, over = w.r.clk.book(used-w.last, w.guest, w.host)
	w.last = used
	switch {
	case used-w.base > ms(limits.CPUMS):
		return limits.passed(CPULimit)
	case over:
		return failed(HardTimeout, "it ran on beside functions of the host for longer than hard_ms, %d ms, and the worker was killed", limits.HardMS)
	}
	return nil
}
