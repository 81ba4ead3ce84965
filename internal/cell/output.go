package cell

import (
	"encoding/base64"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
)

// chunkBytes is the most that one event carries.
const chunkBytes = 64 << 10

// output drains the guest's two streams up to their limits.
type output struct {
	event   func(api.Event)
	started time.Time

	mu    sync.Mutex // one event at a time
	drain sync.WaitGroup

	stdout, stderr *stream
	// exceeded gets the stream's name once a limit is passed.
	exceeded chan string

	readings  chan api.Event // at most one that waits for the caller
	delivered chan struct{}
}

// stream is one of them. What the guest writes past the limit is neither kept
// nor streamed.
type stream struct {
	name  string
	f     *os.File
	limit int64
	kept  []byte
	over  bool
	tail  []byte // the begun character that the next chunk continues
}

func newOutput(c *cell, l api.Limits, event func(api.Event)) *output {
	return &output{
		event:     event,
		stdout:    &stream{name: "stdout", f: c.stdout, limit: l.StdoutBytes},
		stderr:    &stream{name: "stderr", f: c.stderr, limit: l.StderrBytes},
		exceeded:  make(chan string, 2),
		readings:  make(chan api.Event, 1),
		delivered: make(chan struct{}),
	}
}

func (o *output) begin(t time.Time) {
	o.started = t
	o.drain.Add(2)
	told := make(chan struct{})
	go func() { // a slow caller must not keep the host from its deadlines
		o.emit(api.Event{Type: "started"})
		close(told)
	}()
	for _, s := range []*stream{o.stdout, o.stderr} {
		go func() {
			<-told
			o.read(s)
		}()
	}
	go func() {
		defer close(o.delivered)
		<-told
		for e := range o.readings {
			o.emit(e)
		}
	}()
}

// reading passes on what a clock of the run has read. It never waits: while the
// caller is busy a reading is left out.
func (o *output) reading(e api.Event) {
	select {
	case o.readings <- e:
	default:
	}
}

func (o *output) read(s *stream) {
	defer o.drain.Done()
	buf := make([]byte, 32<<10)
	for {
		n, err := s.f.Read(buf)
		o.take(s, buf[:n])
		if err != nil {
			break
		}
	}
	o.rest(s, buf)
	if len(s.tail) > 0 {
		o.chunk(s, s.tail)
	}
}

// maxRest is more than a pipe holds.
const maxRest = 2 << 20

// rest takes what is still in the pipe when its time is over, which is what a
// slow caller has not let us read.
func (o *output) rest(s *stream, buf []byte) {
	raw, err := s.f.SyscallConn()
	if err != nil || s.f.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for got := 0; got < maxRest && !s.over; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		got += n
		o.take(s, buf[:n])
	}
}

// take keeps and streams what fits the limit.
func (o *output) take(s *stream, p []byte) {
	if room := s.limit - int64(len(s.kept)); int64(len(p)) > room {
		p = p[:room]
		if !s.over {
			s.over = true
			o.exceeded <- s.name
		}
	}
	if len(p) == 0 {
		return
	}
	s.kept = append(s.kept, p...)
	if o.event == nil {
		return
	}
	p = append(s.tail, p...)
	cut := len(p) - unfinished(p)
	s.tail = append([]byte(nil), p[cut:]...)
	for p = p[:cut]; len(p) > 0; {
		n := min(len(p), chunkBytes)
		if n < len(p) {
			n -= unfinished(p[:n])
		}
		o.chunk(s, p[:n])
		p = p[n:]
	}
}

// unfinished is the number of bytes at the end of p that begin a character
// and could be completed by what follows.
func unfinished(p []byte) int {
	for i := 1; i <= min(3, len(p)); i++ {
		b := p[len(p)-i]
		if utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}

func (o *output) chunk(s *stream, p []byte) {
	e := api.Event{Type: "chunk", Stream: s.name}
	if utf8.Valid(p) {
		e.Data = string(p)
	} else {
		e.Base64 = base64.StdEncoding.EncodeToString(p)
	}
	o.emit(e)
}

func (o *output) emit(e api.Event) {
	if o.event == nil {
		return
	}
	if !o.started.IsZero() {
		e.TMS = ms(time.Since(o.started))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.event(e)
}

// finish waits for the end of both streams, at the latest until the deadline,
// and fills the result.
func (o *output) finish(r *api.Result, deadline time.Time) {
	_ = o.stdout.f.SetReadDeadline(deadline)
	_ = o.stderr.f.SetReadDeadline(deadline)
	o.drain.Wait()
	close(o.readings)
	<-o.delivered
	r.Stdout, r.StdoutBase64 = text(o.stdout.kept)
	r.Stderr, r.StderrBase64 = text(o.stderr.kept)
	r.Truncated = api.Truncated{Stdout: o.stdout.over, Stderr: o.stderr.over}
}

// text returns p as text and, when it is not, as base64 beside it.
func text(p []byte) (string, string) {
	if utf8.Valid(p) {
		return string(p), ""
	}
	n := 0
	for _, r := range string(p) {
		n += utf8.RuneLen(r)
	}
	var valid strings.Builder
	valid.Grow(n)
	for _, r := range string(p) {
		valid.WriteRune(r)
	}
	return valid.String(), base64.StdEncoding.EncodeToString(p)
}
