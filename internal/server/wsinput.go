package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// Bounds of what a client sends over a WebSocket.
const (
	maxStranger = 4 << 10 // bytes of a message before the owner's token was shown
	maxOwner    = 256 << 10
	maxWrong    = 3 // owner's tokens that are none
	maxFaults   = 10
	// Messages in a second, and how many of them may come at once; those that are more wait.
	frameRate, frameBurst = 100, 200
	// How often it is tried whether a program takes its standard input.
	inputSoon, inputLate = 20 * time.Millisecond, 250 * time.Millisecond
)

// listen reads what the client sends until he goes.
func (c *socket) listen() {
	for {
		kind, data, err := c.conn.Read(c.life)
		if errors.Is(err, websocket.ErrMessageTooBig) {
			c.stop(errPolicy)
			return
		}
		if err != nil {
			c.gone()
			return
		}
		if wait := c.rate.take(time.Now()); wait > 0 {
			c.pause(wait)
		}
		if c.ctx.Err() != nil {
			continue
		}
		if kind != websocket.MessageText {
			err = refusal(api.CodeBadRequest, "a message is JSON, as text")
		} else {
			err = c.take(data)
		}
		if err == nil || c.ctx.Err() != nil {
			continue
		}
		switch c.complain(err).Code {
		case api.CodeForbidden:
			c.wrong++
		case api.CodeUnauthorized, api.CodeBadField, api.CodeBadRequest, api.CodeTooLarge:
			c.faults++
		}
		if c.wrong >= maxWrong || c.faults >= maxFaults {
			c.stop(errPolicy)
		}
	}
}

// pause reads nothing for a time, or until the stream ends.
func (c *socket) pause(d time.Duration) {
	c.stalled.Store(true)
	defer c.stalled.Store(false)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// take does what a message says.
func (c *socket) take(data []byte) error {
	var m api.ClientFrame
	if err := strictjson.Decode(data, &m, strictjson.Options{Audience: api.AudienceClient, MaxBytes: maxOwner}); err != nil {
		return err
	}
	rest := m // what a message of its type does not have
	switch rest.Type = ""; m.Type {
	case "auth":
		rest.Token = ""
	case executor.SignalStdin:
		rest.Data, rest.Base64 = "", ""
	case executor.SignalSignal:
		rest.Name = ""
	case executor.SignalClose:
	default:
		return &api.FieldError{Field: "type", Reason: "must be auth, stdin, stdin_close or signal"}
	}
	if rest != (api.ClientFrame{}) {
		return &api.FieldError{Field: "type", Reason: "has not all of these fields"}
	}
	if m.Type == "auth" {
		return c.auth(m.Token)
	}
	if !c.owner {
		return refusal(api.CodeUnauthorized, "the owner's token is needed, in a message of the type auth")
	}
	if m.Type == executor.SignalSignal {
		return c.s.kill(c.ctx, c.r.run, m.Name)
	}
	return c.input(m)
}

// auth makes the client the owner, if that is his token.
func (c *socket) auth(token string) error {
	if !c.s.o.Secret.Owns(token, credential.Owner, c.r.run) {
		return refusal(api.CodeForbidden, "that is not the owner's token of this run")
	}
	if !c.owner {
		c.owner = true
		c.conn.SetReadLimit(maxOwner)
		c.s.owners.came(c.r.run)
	}
	return nil
}

// input brings standard input to the program, in order: what it cannot take yet, since
// it has not begun or not read what came before, waits, and what is behind it waits in
// the connection.
func (c *socket) input(m api.ClientFrame) error {
	for pause := inputSoon; ; pause = min(2*pause, inputLate) {
		var err error
		if m.Type == executor.SignalClose {
			err = c.s.tell(c.ctx, c.r.run, m)
		} else if m.Data != "" || m.Base64 != "" {
			err = c.s.write(c.ctx, c.r.run, m.Data, m.Base64)
		}
		told := (*api.ServiceError)(nil)
		if !errors.As(err, &told) || told.RetryAfterMS == 0 {
			return err
		}
		if c.pause(pause); c.ctx.Err() != nil {
			return nil
		}
	}
}

// bucket bounds how many messages come in a time.
type bucket struct {
	left float64
	at   time.Time
}

func newBucket() bucket { return bucket{left: frameBurst, at: time.Now()} }

// take takes one, and says how long to wait before it is used.
func (b *bucket) take(now time.Time) time.Duration {
	b.left = min(b.left+now.Sub(b.at).Seconds()*frameRate, frameBurst) - 1
	b.at = now
	if b.left >= 0 {
		return 0
	}
	return time.Duration(-b.left / frameRate * float64(time.Second))
}

// owners are the sockets whose clients control runs. When the last one of a run has
// gone, and none has come for a time, nobody will type any more: its standard input ends.
type owners struct {
	mu sync.Mutex
	of map[string]*ownersOf
}

type ownersOf struct {
	sockets int
	end     *time.Timer // nil while there is one
}

func (o *owners) came(run string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]*ownersOf{}
	}
	of := o.of[run]
	if of == nil {
		of = &ownersOf{}
		o.of[run] = of
	}
	if of.sockets++; of.end != nil {
		of.end.Stop()
		of.end = nil
	}
}

// left says that a socket has gone, and whether the run is over.
func (o *owners) left(s *Server, run string, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.of[run]
	if of.sockets--; of.sockets > 0 {
		return
	}
	if over || s.ctx.Err() != nil {
		delete(o.of, run)
		return
	}
	var end *time.Timer
	end = time.AfterFunc(s.o.StdinGrace, func() {
		o.mu.Lock()
		late := of.end != end // somebody has come
		if !late {
			delete(o.of, run)
		}
		o.mu.Unlock()
		if late || s.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, sendTimeout)
		defer cancel()
		_ = s.tell(ctx, run, api.ClientFrame{Type: executor.SignalClose}) // a run that is over has none
	})
	of.end = end
}

// close forgets everything.
func (o *owners) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for run, of := range o.of {
		if of.end != nil && of.end.Stop() {
			delete(o.of, run)
		}
	}
}
