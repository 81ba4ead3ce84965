package client

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

const (
	maxPiece = 96 << 10 // of standard input in one request; base64 makes 128 KiB of it
	// What is read of a WithStdin before the submission goes off with it.
	maxFirst  = 256 << 10
	firstTime = 100 * time.Millisecond
	fullPause = 100 * time.Millisecond
)

// stdin is the standard input of a run.
type stdin struct {
	r      *Running
	mu     sync.Mutex // one piece at a time, in order
	closed bool
}

// Write sends p.
func (s *stdin) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, os.ErrClosed
	}
	for n < len(p) {
		piece := p[n:min(len(p), n+maxPiece)]
		if err := s.send(api.StdinBody{Base64: base64.StdEncoding.EncodeToString(piece)}); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// Close ends the standard input.
func (s *stdin) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.send(api.StdinBody{Close: true})
}

// send sends one piece, for as long as the run lasts.
func (s *stdin) send(b api.StdinBody) error {
	select {
	case <-s.r.began:
	case <-s.r.done:
		return os.ErrProcessDone
	}
	k := &call{method: "POST", path: s.r.path() + "/stdin", header: s.r.owner(), once: !b.Close, patience: s.r.c.o.Patience}
	if err := k.jsonBody(b); err != nil {
		return err
	}
	for {
		err := s.r.control(k)
		if told := (*api.ServiceError)(nil); errors.As(err, &told) && told.Code == api.CodeBusy {
			if err := sleep(s.r.ctx, fullPause); err != nil {
				return err
			}
			continue // the program has not read what was sent
		}
		return err
	}
}

// inputError ends a run whose standard input could not be sent.
type inputError struct{ err error }

func (e *inputError) Error() string { return "standard input could not be sent: " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// feed reads the caller's standard input for a run.
type feed struct{ pieces chan piece }

type piece struct {
	data []byte
	err  error
}

// newFeed begins to read r.
func newFeed(r io.Reader) *feed {
	f := &feed{pieces: make(chan piece, 1)}
	go func() {
		defer close(f.pieces)
		for {
			b := make([]byte, 32<<10)
			n, err := r.Read(b)
			if n > 0 {
				f.pieces <- piece{b[:n], nil}
			}
			if err != nil {
				if err != io.EOF {
					f.pieces <- piece{nil, err}
				}
				return
			}
		}
	}()
	return f
}

// first is what can be read at once, and whether that is all.
func (f *feed) first(ctx context.Context) (data []byte, ended bool) {
	t := time.NewTimer(firstTime)
	defer t.Stop()
	for len(data) < maxFirst {
		select {
		case p, ok := <-f.pieces:
			if !ok || p.err != nil {
				return data, true
			}
			data = append(data, p.data...)
		case <-t.C:
			return data, false
		case <-ctx.Done():
			return data, false
		}
	}
	return data, false
}

// pump sends the rest.
func (f *feed) pump(to *stdin) {
	for {
		select {
		case p, ok := <-f.pieces:
			if !ok || p.err != nil {
				_ = to.Close()
				return
			}
			if _, err := to.Write(p.data); err != nil {
				if !errors.Is(err, os.ErrProcessDone) { // a program must not go on with a hole in its input
					to.r.cancel(&inputError{err})
				}
				return
			}
		case <-to.r.done:
			return
		}
	}
}
