package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// Bounds of following one run.
const (
	maxFrames      = 1_000_000
	maxInternal    = 5 // times that a service says "internal" with nothing else between
	maxStreamBytes = 1 << 30
)

// result follows the run to its end.
func (r *Running) result(ctx context.Context) (*api.Result, error) {
	if r.t.event == nil && !r.t.stream && r.stdin == nil {
		return r.poll(ctx)
	}
	return r.watch(ctx)
}

// poll asks for the result until there is one.
func (r *Running) poll(ctx context.Context) (*api.Result, error) {
	wait := r.c.times.wait
	for n := 0; ; n++ {
		asked := time.Now()
		run, err := r.c.state(ctx, r.id, wait, r.c.o.Reconnect)
		if told := (*api.ServiceError)(nil); errors.As(err, &told) && told.Field == "wait" && wait == r.c.times.wait {
			limits, err := r.c.Limits(ctx)
			if err != nil {
				return nil, err
			}
			wait = time.Duration(min(max(limits.WaitMS, 0), wait.Milliseconds()-1)) * time.Millisecond
			continue
		}
		if err != nil {
			return nil, err
		}
		if run.Result != nil {
			return run.Result, nil
		}
		if time.Since(asked) > time.Second {
			n = 0
			continue
		}
		if err := sleep(ctx, min(10*time.Millisecond<<min(n, 10), 2*time.Second)); err != nil { // it did not wait
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watch follows the run's events until the final one, over as many connections as it
// takes.
func (r *Running) watch(ctx context.Context) (*api.Result, error) {
	alive := time.Now() // when something came last
	for n := 0; ; n++ {
		before := r.given
		result, err := r.stream(ctx)
		switch {
		case result != nil:
			return result, nil
		case context.Cause(ctx) != nil:
			return nil, context.Cause(ctx)
		case r.given > before:
			n, alive = 0, time.Now()
		}
		if err == nil {
			err = errEnded
		}
		pause, again := retry(err, false, n)
		if told := (*api.ServiceError)(nil); errors.As(err, &told) && told.Code == api.CodeInternal {
			again = n < maxInternal // what a service says that is broken off in the middle
		}
		if !again || time.Since(alive)+pause > r.c.o.Reconnect {
			return nil, err
		}
		if err := r.c.pause(ctx, pause, err); err != nil {
			return nil, err
		}
	}
}

// errEnded is why a stream is taken up again that has ended in order.
var errEnded = errors.New("the stream ended before the run")

// stream reads events from one connection. It returns the result, if the final one
// was among them.
func (r *Running) stream(ctx context.Context) (*api.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &call{method: "GET", path: r.path() + "/events", header: map[string]string{"Accept": "text/event-stream"}}
	if r.seq > 0 {
		k.header["Last-Event-ID"] = strconv.FormatUint(r.seq, 10)
	}
	a, err := r.c.send(ctx, cancel, k)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	switch {
	case a.StatusCode == http.StatusNoContent: // all events are known, the final one too
		return r.known(ctx)
	case a.StatusCode != http.StatusOK:
		return nil, r.c.refusal(a)
	}
	if kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return nil, answerErrorf("it is no stream of events")
	}
	body := &quiet{r: a.Body, after: r.c.times.quiet, end: cancel}
	in := newEventReader(body, r.c.o.MaxAnswer)
	for {
		data, err := in.next()
		if r.bytes += int64(in.taken); err == nil && r.bytes > maxStreamBytes {
			err = answerErrorf("the events of one run are more than %d bytes", int64(maxStreamBytes))
		}
		if err != nil {
			return nil, err
		}
		result, err := r.frame(ctx, data)
		if result != nil || err != nil {
			return result, err
		}
	}
}

// known is the result of a run that has ended.
func (r *Running) known(ctx context.Context) (*api.Result, error) {
	run, err := r.c.state(ctx, r.id, 0, r.c.o.Reconnect)
	if err == nil && run.Result == nil {
		err = answerErrorf("a run has no further events and no result")
	}
	if err != nil {
		return nil, err
	}
	return run.Result, nil
}

// quiet ends a stream from which nothing comes any more. It counts only while it is read.
type quiet struct {
	r     io.Reader
	after time.Duration
	end   context.CancelFunc
}

func (q *quiet) Read(p []byte) (int, error) {
	t := time.AfterFunc(q.after, q.end)
	defer t.Stop()
	return q.r.Read(p)
}

// frame takes one event.
func (r *Running) frame(ctx context.Context, data []byte) (*api.Result, error) {
	var f api.Frame
	if err := decode(data, &f); err != nil {
		return nil, err
	}
	if r.frames++; r.frames > maxFrames {
		return nil, answerErrorf("one run has more than %d events", maxFrames)
	}
	switch {
	case f.Type == "error":
		return nil, &api.ServiceError{Code: f.Code, Message: f.Message, RetryAfterMS: retryAfter(f.Code)}
	case f.Seq == 0: // of the stream: where the run is in the queue
		if f.Position == nil || r.started || *f.Position == r.position {
			return nil, nil
		}
		r.position = *f.Position
	case f.Seq <= r.seq: // it was given out
		return nil, nil
	default:
		r.begin()
	}
	if f.Type != "finished" {
		r.give(f)
		r.seq = max(r.seq, f.Seq)
		return nil, nil
	}
	if err := checkResult(f.Result, r.id); err != nil {
		return nil, err
	}
	r.give(f)
	r.seq = f.Seq
	return f.Result, nil
}

// retryAfter says whether a stream that ended with an error is taken up again.
func retryAfter(code api.Code) int64 {
	switch code.HTTPStatus() {
	case 429, 503:
		return 500
	}
	return 0
}

// begin notes that the run has begun.
func (r *Running) begin() {
	if !r.started {
		r.started = true
		close(r.began)
	}
}

// give gives an event to whom the options name.
func (r *Running) give(f api.Frame) {
	r.given++
	if r.t.event != nil {
		r.t.event(f)
	}
	if r.events != nil {
		select {
		case r.events <- f:
		case <-r.unread:
		}
	}
}

// eventReader reads server-sent events, as the HTML standard has them, of which only
// the data counts here.
type eventReader struct {
	in    *bufio.Reader
	most  int64
	taken int // bytes that the last call has read
}

func newEventReader(r io.Reader, most int64) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 32<<10), most: most}
}

// next returns the data of the next event that has some. What a broken connection
// leaves of one is none.
func (e *eventReader) next() ([]byte, error) {
	e.taken = 0
	var data []byte
	for had := false; ; {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if had {
				return data, nil
			}
			continue
		}
		name, value, _ := strings.Cut(string(line), ":")
		if name != "data" {
			continue
		}
		if had {
			data = append(data, '\n')
		}
		data, had = append(data, strings.TrimPrefix(value, " ")...), true
	}
}

// line reads a line without its end, "\n" or "\r\n".
func (e *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := e.in.ReadSlice('\n')
		if e.taken += len(part); int64(e.taken) > e.most {
			return nil, answerErrorf("an event is longer than %d bytes", e.most)
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		}
		if err != bufio.ErrBufferFull {
			return nil, err
		}
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}
