package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// grace is how much later than the host the second keeper, inside the cell,
// ends a run; settleTime is how much later the run is settled at the latest.
const (
	grace      = time.Second
	settleTime = 2 * time.Second
)

// Streams are how a caller takes part in a run. The zero value is allowed.
type Streams struct {
	// Stdin is copied to the guest. The guest sees end of file after it, or at
	// once when it is nil.
	Stdin io.Reader
	// Event is called for every event, from one goroutine at a time; a slow
	// callback slows the guest's output, not its deadlines.
	Event func(api.Event)
	// Channel is called once a worker runs.
	Channel func(*Channel)
	// Signals are passed to the guest's first process while it runs.
	Signals <-chan unix.Signal
}

// finished tells of the end of a run that had no output.
func (s *Streams) finished(r *api.Result) {
	if s.Event != nil {
		s.Event(api.Event{Type: "finished", Result: r})
	}
}

// Run gives one job to a cell and returns how it ended. The error is for what
// keeps Glovebox from working at all: a closed host, or a context that ended
// while the call waited for a free cell.
func (h *Host) Run(ctx context.Context, job *Job, s Streams) (*api.Result, error) {
	if !h.enter() {
		return nil, api.ErrClosed
	}
	defer h.work.Done()
	if err := h.traceable(job.Trace); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := h.place(ctx); err != nil {
		return nil, err
	}
	defer func() { <-h.running }()
	if h.ctx.Err() != nil {
		return nil, api.ErrClosed
	}
	if len(job.Folders) > 0 {
		return h.apart(ctx, job, s)
	}
	queued := ms(time.Since(begin))
	r := &run{h: h, job: job, streams: s, ctx: ctx, want: wanted(job)}
	if job.Compile != nil {
		made := h.compile(ctx, job)
		if s.Event != nil && made.compile != nil {
			s.Event(api.Event{Type: "compiled", Compile: made.compile})
		}
		if r.product = made.product; r.product == nil {
			made.result.QueueMS = queued
			s.finished(made.result)
			return made.result, nil
		}
		r.result.Compile = made.compile
	}
	r.result.QueueMS = queued
	r.result.APIVersion = api.Version
	r.do()
	return &r.result, nil
}

// place takes one of the places for running programs; it waits for it if not too
// many wait already. Who came first gets the next.
func (h *Host) place(ctx context.Context) error {
	select {
	case h.running <- struct{}{}:
		return nil
	default:
	}
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > int64(h.cfg.MaxWaiting) {
		return api.ErrBusy
	}
	select {
	case h.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.ctx.Done():
		return api.ErrClosed
	}
}

// run is one job in one cell. A cause of death is set once, by whoever is
// first; see die.
type run struct {
	h       *Host
	job     *Job
	streams Streams
	ctx     context.Context
	c       *cell
	result  api.Result

	product []File            // of the compiler
	want    cellproto.Collect // what is to be given back

	out     *output
	started time.Time
	ended   time.Time // when the host knew; zero if it never ran
	cpuBase int64
	counted bool  // the counters were read
	lost    error // why the files could not be collected, which is not the guest's doing
	end     ending
	calls   callCounts
}

// do takes a cell, runs the job and fills the result.
func (r *run) do() {
	begin := time.Now()
	c, warm, err := r.acquire()
	if err != nil {
		r.failed(err)
		r.streams.finished(&r.result)
		return
	}
	r.c, r.result.Warm = c, warm
	r.result.Evidence = c.evidence
	r.result.Evidence.Layers = slices.Concat(c.evidence.Layers, c.h.lasting)
	if err := r.start(); err != nil {
		r.failed(err)
		c.kill()
		r.settle()
		return
	}
	r.result.SetupMS = ms(r.started.Sub(begin))
	r.watch()
	r.ended = time.Now()
	r.collect()
	r.settle()
	r.traced()
	r.trace(begin)
}

// trace reports the steps of this run, those of init as it timed them itself.
func (r *run) trace(begin time.Time) {
	trace := r.h.cfg.Trace
	if trace == nil {
		return
	}
	var before time.Duration
	for _, s := range r.c.steps {
		at := time.Duration(s.NS)
		trace("init: "+s.Name, at-before)
		before = at
	}
	trace("until the guest's exec", r.started.Sub(begin))
	trace("guest, until its end is known", r.ended.Sub(r.started))
	trace("settle", time.Since(r.ended))
}

// acquire takes an armed cell that still is what it was, or makes one. A cell
// that fails its second look is thrown away and the job gets a fresh one.
func (r *run) acquire() (c *cell, warm bool, err error) {
	k := r.job.kind()
	r.h.renew()
	if pool := r.h.armed(k); pool != nil {
		if c, ok := pool.take(); ok {
			if err = c.handOver(r.job.Limits, false); err == nil && c.gone(0) {
				err = errSilent
			}
			if err == nil {
				return c, true, nil
			}
			r.h.log.Warn("an armed cell is discarded", "error", err)
			r.h.later(c)
		}
	}
	if c, err = r.h.arm(k, nil); err != nil {
		return nil, false, err
	}
	if err := c.handOver(r.job.Limits, true); err != nil {
		r.h.later(c)
		return nil, false, err
	}
	return c, false, nil
}

// armed is the reserve of armed cells of a kind, nil if there is none.
func (h *Host) armed(k kind) *reserve {
	switch k {
	case h.usual():
		return h.pool
	case makerKind():
		h.making.Do(h.makers.run)
		return h.makers
	}
	return nil
}

// later destroys a cell without making the caller wait.
func (h *Host) later(c *cell) {
	h.work.Add(1)
	go func() {
		defer h.work.Done()
		c.destroy()
	}()
}

// start hands the job over and waits for the guest's exec.
func (r *run) start() error {
	c, l := r.c, r.job.Limits
	if g := c.place.group; g != nil {
		base, err := g.CPUUsec()
		if err == nil {
			r.cpuBase = base
		}
	}
	r.out = newOutput(c, l, r.streams.Event)
	wall := time.Duration(l.WallMS) * time.Millisecond
	j := &cellproto.Job{
		Argv: r.job.Argv, Env: r.job.Env, Dir: "/box",
		StandIns:  standIns(l.MemoryBytes, CPUs(l.CPUPercent)),
		FileBytes: uint64(l.FileBytes), OpenFiles: uint64(l.OpenFiles),
		CPUSeconds: uint64((l.CPUMS+999)/1000 + 1),
		DeadlineMS: uint64((wall + grace) / time.Millisecond),
		Signals:    r.streams.Signals != nil, Collect: r.want,
	}
	if c.place.group == nil && !r.h.off("nproc") {
		j.Tasks = r.h.taskLimit(l.Pids)
	}
	_ = c.control.SetDeadline(time.Now().Add(c.h.cfg.patience))
	refused := r.hand(j)
	// Init may have said why before it hung up.
	t, p, err := r.firstFrame()
	if err != nil {
		return &stageError{"job", errors.Join(refused, err)}
	}
	_ = c.control.SetDeadline(time.Time{})
	r.started = time.Now()
	return r.first(t, p)
}

// handBuffer is how much is put together for one write.
const handBuffer = 1 << 20

// hand writes the files, piece by piece, and the job.
func (r *run) hand(j *cellproto.Job) error {
	var b []byte
	for place, files := range [][]File{cellproto.PlaceBox: r.job.Files, cellproto.PlaceProduct: r.product} {
		for _, f := range files {
			p := cellproto.Piece{Place: cellproto.Place(place), Name: f.Name, Mode: uint64(f.Mode), More: true}
			for data := f.Data; p.More; data = data[len(p.Data):] {
				p.Data = data[:min(len(data), cellproto.MaxPiece)]
				p.More = len(p.Data) < len(data)
				if len(b) > 0 && len(b)+len(p.Data) > handBuffer {
					if _, err := r.c.control.Write(b); err != nil {
						return err
					}
					b = b[:0]
				}
				b = append(append(b, p.Head(cellproto.TypeFile)...), p.Data...)
			}
		}
	}
	payload := j.Encode()
	if len(payload) > cellproto.MaxFrame {
		return fmt.Errorf("a job of %d bytes", len(payload))
	}
	_, err := r.c.control.Write(cellproto.AppendFrame(b, cellproto.TypeJob, payload))
	return err
}

// first reads init's answer to the job.
func (r *run) first(t cellproto.Type, p []byte) error {
	switch t {
	case cellproto.TypeStarted:
		if _, err := cellproto.DecodeStarted(p); err != nil {
			return &stageError{"job", err}
		}
		r.out.begin(r.started)
		r.feed()
		return nil
	case cellproto.TypeDenied: // by the guest's first instructions, before init could say that it started
		r.out.begin(r.started)
		r.feed()
		r.frame(t, p)
		return nil
	case cellproto.TypeFailed:
		f, err := cellproto.DecodeFailed(p)
		if err != nil {
			return &stageError{"job", err}
		}
		if f.Stage == "exec" && f.Errno != 0 {
			r.out.begin(r.started)
			r.end.execFailed(unix.Errno(f.Errno))
			return nil
		}
		return saidBy(f)
	}
	return &stageError{"job", errors.New("an unexpected frame")}
}

// feed copies stdin to the guest. A guest that does not read is no fault; a
// reader that never ends is left behind at its own next read.
func (r *run) feed() {
	in, w := r.streams.Stdin, r.c.stdin
	if r.streams.Channel != nil {
		r.streams.Channel(&Channel{socket: r.c.socket, run: r})
		return
	}
	if in == nil {
		w.Close()
		return
	}
	go func() {
		_, _ = io.Copy(w, in)
		w.Close()
		if p, ok := in.(interface{ CloseWithError(error) error }); ok { // its writer must not wait for nobody
			_ = p.CloseWithError(unix.EPIPE)
		}
	}()
}

// failed makes a result of Glovebox's own failure.
func (r *run) failed(err error) {
	r.result.Verdict = api.SetupFailed
	r.result.Message = err.Error()
	var se *stageError
	if errors.As(err, &se) {
		r.result.Stage = se.stage
	}
	r.end.die(causeSetup)
}
