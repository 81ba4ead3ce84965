package server

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

const (
	// farewell is how long a client has to answer the end of a stream.
	farewell = 2 * time.Second
	// backlog is how many bytes a client may not have read when he is to answer.
	backlog = 64 << 10
)

// Why a socket ends before its run does.
var (
	errShutdown = errors.New("the service is about to end")
	errGone     = errors.New("the client has gone")
	errPolicy   = errors.New("frames that no client should send")
)

// handshake judges what RFC 6455, section 4.2.1, wants of a request.
func handshake(r *http.Request) error {
	versions, keys := r.Header.Values("Sec-Websocket-Version"), r.Header.Values("Sec-Websocket-Key")
	switch {
	case !r.ProtoAtLeast(1, 1) || !hasToken(r.Header, "Upgrade", "websocket"):
		return refusal(api.CodeUpgrade, "this is for WebSockets; /events has the same for others")
	case !hasToken(r.Header, "Connection", "upgrade"):
		return refusal(api.CodeBadRequest, "Connection: Upgrade is missing")
	case len(versions) != 1 || versions[0] != "13":
		return refusal(api.CodeUpgrade, "the version of WebSocket is 13")
	case len(keys) != 1:
		return refusal(api.CodeBadRequest, "one Sec-WebSocket-Key is needed")
	}
	if key, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(key) != 16 {
		return refusal(api.CodeBadRequest, "the Sec-WebSocket-Key must be 16 bytes in base64")
	}
	return nil
}

// hasToken tells whether a header's list has a token, which is in lower case.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for t := range strings.SplitSeq(line, ",") {
			if lower(strings.Trim(t, " \t")) == token {
				return true
			}
		}
	}
	return false
}

// socket is one WebSocket that watches a run, and whose client may come to control it.
type socket struct {
	s    *Server
	r    *request
	conn *websocket.Conn
	// life is of everything that is read and written: its end is the connection's. ctx
	// ends before, when there is no more to show: what is written then is the farewell.
	life, ctx context.Context
	stop      context.CancelCauseFunc // of ctx

	owner   bool
	wrong   int // tokens
	faults  int // frames that no client should send
	rate    bucket
	stalled atomic.Bool  // nothing is read, since nobody takes it
	writing atomic.Bool  // a part of a message
	sent    atomic.Int64 // bytes
}

// socket streams a run over a WebSocket. Its origin was judged before.
func (s *Server) socket(w http.ResponseWriter, r *request) error {
	if err := handshake(r.Request); err != nil {
		return err
	}
	after, _, err := s.after(r, "")
	if err != nil {
		return err
	}
	release, err := s.stream(r, telemetry.StreamWebSocket)
	if err != nil {
		return err
	}
	defer release()
	conn, err := websocket.Accept(w, r.Request, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil // he has gone
	}
	life, end := context.WithCancel(context.WithoutCancel(r.Context())) // a server has no part in it any more
	defer end()
	c := &socket{s: s, r: r, conn: conn, life: life, rate: newBucket()}
	c.ctx, c.stop = context.WithCancelCause(life)
	defer context.AfterFunc(s.ctx, func() { c.stop(errShutdown) })()
	conn.SetReadLimit(maxStranger)
	var sides sync.WaitGroup
	sides.Go(c.listen)
	sides.Go(c.beat)
	final, err := c.show(after)
	if err != nil {
		c.stop(err)
	}
	bye := time.AfterFunc(farewell, end)
	c.close(final)
	bye.Stop()
	c.stop(nil)
	end()
	sides.Wait()
	if c.owner {
		s.owners.left(s, r.run, final)
	}
	return nil
}

// show writes the frames of the run, and says whether the final one was among them.
func (c *socket) show(after uint64) (final bool, err error) {
	for f, err := range c.s.follow(c.ctx, c.r.run, after) {
		if err == nil && f.kind != "" {
			err = c.send(f)
		}
		if err != nil || f.final {
			return f.final && err == nil, err
		}
	}
	if c.ctx.Err() != nil {
		return false, context.Cause(c.ctx)
	}
	return true, nil // it was over before
}

// send writes a message to a client who takes each part of it in time.
func (c *socket) send(f frame) error {
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	late := time.AfterFunc(sendTimeout, cancel)
	defer late.Stop()
	var w io.WriteCloser
	err := c.s.parts(c.r, f, func(p []byte, last bool) (err error) {
		late.Reset(sendTimeout)
		c.writing.Store(true)
		defer c.writing.Store(false)
		switch {
		case w == nil && last:
			err = c.conn.Write(ctx, websocket.MessageText, p)
		case w == nil:
			if w, err = c.conn.Writer(ctx, websocket.MessageText); err == nil {
				_, err = w.Write(p)
			}
		default:
			if _, err = w.Write(p); err == nil && last {
				err = w.Close()
			}
		}
		if err != nil {
			return errors.Join(errGone, err)
		}
		c.sent.Add(int64(len(p)))
		return nil
	})
	if err != nil && w != nil { // within a message there is nothing else to say
		return errors.Join(errGone, err)
	}
	return err
}

// complain tells the client of an error.
func (c *socket) complain(err error) *api.ServiceError {
	e := c.s.explain(c.r.Request, err)
	_ = c.send(makeFrame(api.Frame{Event: api.Event{Type: "error"}, Code: e.Code, Message: e.Message}))
	return e
}

// close ends the connection, with the reason if the client is there to read it.
func (c *socket) close(final bool) {
	cause := context.Cause(c.ctx)
	switch {
	case final:
		_ = c.conn.Close(websocket.StatusNormalClosure, "")
	case errors.Is(cause, errGone):
		_ = c.conn.CloseNow()
	case errors.Is(cause, errShutdown), errors.Is(cause, queue.ErrClosed):
		_ = c.conn.Close(websocket.StatusGoingAway, errShutdown.Error())
	case errors.Is(cause, errPolicy):
		_ = c.conn.Close(websocket.StatusPolicyViolation, errPolicy.Error())
	default:
		status := websocket.StatusInternalError
		if c.complain(cause).Code != api.CodeInternal {
			status = websocket.StatusTryAgainLater
		}
		_ = c.conn.Close(status, "")
	}
}

// beat looks whether the client is there. Of one to whom much is being sent that he may
// not have read yet, send finds that out.
func (c *socket) beat() {
	tick := time.NewTicker(c.s.o.heartbeat)
	defer tick.Stop()
	var before, answered int64 // what was sent at the last tick, and before the last ping that was answered
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		sent := c.sent.Load()
		busy := c.writing.Load() || sent-before > backlog
		if before = sent; busy {
			continue
		}
		ctx, cancel := context.WithTimeout(c.life, c.s.o.heartbeat)
		err := c.conn.Ping(ctx)
		cancel()
		switch {
		case err == nil:
			answered = sent
		case !c.stalled.Load() && !c.writing.Load() && c.sent.Load()-answered <= backlog:
			c.gone()
			return
		}
	}
}

// gone ends everything at once.
func (c *socket) gone() {
	c.stop(errGone)
	_ = c.conn.CloseNow()
}
