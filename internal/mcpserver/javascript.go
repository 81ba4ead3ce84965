package mcpserver

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/js"
)

// sessionIdle is how long a code session is kept in which nothing runs.
const sessionIdle = 30 * time.Minute

// SessionLimits are the limits of code sessions where Options.Agent.Limits has zero:
// lower than those of package agent, since their journals lie in memory.
func SessionLimits() agent.Limits {
	return agent.Limits{PrintBytes: 256 << 10, JournalBytes: 8 << 20, Bytes: 64 << 20, MaxPauseMS: 120_000, FeedWaitMS: 60_000}
}

// over is l with its zero fields taken from def. All fields are whole numbers.
func over(l, def agent.Limits) agent.Limits {
	to, from := reflect.ValueOf(&l).Elem(), reflect.ValueOf(def)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return l
}

func (s *Server) openPool() (*agent.Pool, error) {
	o := s.o.Agent
	o.Store = s.store
	o.Limits.PerOwner = int64(s.o.Sessions)
	return agent.Open(s.ctx, o)
}

// jsArgs are the arguments of javascript.
type jsArgs struct {
	Code    string         `json:"code"`
	Session string         `json:"session,omitempty"`
	Syntax  string         `json:"syntax,omitempty"`
	Inputs  map[string]any `json:"inputs,omitempty"`
	End     bool           `json:"end,omitempty"`
}

func (a *jsArgs) check() error {
	switch {
	case a.Code == "" && !(a.End && a.Session != ""):
		return &glovebox.FieldError{Field: "code", Reason: "is missing"}
	case a.Syntax != "" && a.Syntax != "js" && a.Syntax != string(js.TypeScript) && a.Syntax != string(js.TSX) && a.Syntax != string(js.JSX):
		return &glovebox.FieldError{Field: "syntax", Value: fmt.Sprintf("%q", a.Syntax), Reason: "must be js, ts, tsx or jsx"}
	}
	return nil
}

const jsDescription = `Runs JavaScript or TypeScript in a sealed worker: no network, no files, no modules of Node. The value is that of the last
expression, or what "return" gives; "await" works at the top. Without "session" a session is begun, and the result has its id; with that id the next
call finds what was declared before. A call that runs out of time or memory leaves the session as it was before it. A session ends with "end", after half
an hour without a call, or when newer ones need its place. The result has status and usage and, in "untrusted", value (as JSON), console and error.`

func (s *Server) javaScript() tool {
	no := false
	description := jsDescription
	if s.o.Tools != nil {
		description += "\nFunctions that can be called:\n" + s.o.Tools.Prompt()
	}
	return tool{
		tool: &mcp.Tool{Name: "javascript", Title: "Run JavaScript in a session", Description: description,
			InputSchema: object([]string{"code"}, map[string]any{
				"code":    text("the source; may be empty when \"end\" only ends a session"),
				"session": text("the id of a session, from an earlier result"),
				"syntax":  one("what the source is written in; js by default", "js", string(js.TypeScript), string(js.TSX), string(js.JSX)),
				"inputs":  map[string]any{"type": "object", "description": "global variables that are set before the source runs"},
				"end":     flag("end the session afterwards"),
			}),
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}},
		call: func(ctx context.Context, c *client, req *mcp.CallToolRequest, raw json.RawMessage) (*mcp.CallToolResult, error) {
			var a jsArgs
			if err := arguments(raw, &a); err != nil {
				return nil, err
			}
			if err := a.check(); err != nil {
				return nil, err
			}
			release, err := c.slot()
			if err != nil {
				return nil, err
			}
			defer release()
			return c.feed(ctx, req, &a)
		},
	}
}

// jsOutcome is the result of javascript.
type jsOutcome struct {
	Session   string      `json:"session,omitempty"` // "" when it has ended, or never began
	Status    js.Status   `json:"status"`
	Kind      js.Kind     `json:"kind,omitempty"`
	Void      bool        `json:"void,omitempty"` // the session is as it was before the call
	Usage     agent.Usage `json:"usage"`          // of the session so far
	Untrusted jsUntrusted `json:"untrusted"`
}

// jsUntrusted is what the guest made. Value is JSON in a string, in which characters
// that are not seen are escapes.
type jsUntrusted struct {
	Notice         string `json:"notice"`
	Value          string `json:"value,omitempty"`
	ValueOmitted   int    `json:"value_omitted_bytes,omitempty"`
	Text           string `json:"text,omitempty"` // of a value that JSON cannot say
	NoJSON         string `json:"no_json,omitempty"`
	ErrorType      string `json:"error_type,omitempty"`
	Error          string `json:"error,omitempty"`
	Stack          string `json:"stack,omitempty"`
	Console        string `json:"console"`
	ConsoleOmitted int    `json:"console_omitted_bytes,omitempty"`
}

// feed runs a source in a session, its own or a new one.
func (c *client) feed(ctx context.Context, req *mcp.CallToolRequest, a *jsArgs) (res *mcp.CallToolResult, err error) {
	pool, err := c.s.pool.get(ctx)
	if err != nil {
		return nil, err
	}
	id, gone, err := c.sessions.take(a.Session)
	c.forget(pool, gone)
	if err != nil {
		return nil, err
	}
	keep := a.Session != "" // a session that never began is none
	defer func() {
		if c.sessions.give(id, keep && !a.End) {
			c.forget(pool, []string{id})
		}
	}()
	s, err := pool.Acquire(ctx, c.key(id), agent.AcquireOptions{Tools: c.s.o.Tools, MustExist: a.Session != "", NoWait: true})
	switch {
	case errors.Is(err, store.ErrNotFound):
		keep = false
		return nil, errNoSession
	case errors.Is(err, store.ErrBusy):
		return nil, errSessionBusy
	case err != nil:
		return nil, err
	}
	defer func() {
		if err := s.Release(); err != nil {
			c.s.log.Warn("a session could not be put back", "error", err)
		}
	}()
	if a.Code == "" {
		return structured(&jsOutcome{Status: js.StatusOK, Usage: s.Usage(), Untrusted: jsUntrusted{Notice: notice}}), nil
	}
	var printed console
	o := agent.FeedOptions{Inputs: a.Inputs}
	if a.Syntax != "js" {
		o.Syntax = js.Syntax(a.Syntax)
	}
	p := newProgress(ctx, req)
	if p != nil {
		defer p.stop()
	}
	o.Print = func(_ js.Level, text string) { printed.line(text, p) }
	e, err := s.Execute(ctx, a.Code, o)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	out := jsAnswer(&e, &printed)
	out.Usage = s.Usage()
	keep = keep || out.Usage.Feeds > 0 // a source that could not be made JavaScript begins none
	if keep && !a.End {
		out.Session = id
	}
	return structured(out), nil
}

// jsAnswer is an execution for a model.
func jsAnswer(e *js.Execution, printed *console) *jsOutcome {
	out := &jsOutcome{Status: e.Status, Kind: e.Kind, Untrusted: jsUntrusted{Notice: notice}}
	switch e.Kind {
	case "", js.Thrown, js.SyntaxError, js.NeverSettles, js.Unsupported, js.ResultLimit:
	default:
		out.Void = true
	}
	u := &out.Untrusted
	if e.Kind == "" && e.NoJSON == "" {
		u.Value, u.ValueOmitted = clip(visible(string(e.Result)), maxStream)
	}
	u.Text, _ = guest(e.Text, maxStream)
	u.NoJSON, _ = guest(e.NoJSON, 1000)
	u.ErrorType, _ = guest(e.ErrorType, 200)
	u.Error, _ = guest(e.Error, 4000)
	u.Stack, _ = guest(e.Stack, 8000)
	u.Console, u.ConsoleOmitted = guest(printed.text.String(), maxStream)
	return out
}

// visible is JSON with every character that is not seen as an escape, which changes no
// value.
func visible(text string) string {
	if termtext.Plain(text) == text {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case termtext.Plain(string(r)) != "":
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// console gathers what a guest prints, which the session's limits bound.
type console struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *console) line(text string, p *progress) {
	c.mu.Lock()
	c.text.WriteString(text + "\n")
	c.mu.Unlock()
	if p != nil {
		p.write(text + "\n")
	}
}

// key names a session in the store: the principal is a part of the name, so that an id
// of somebody else's is one that there is none of.
func (c *client) key(id string) store.Key { return store.Key{Owner: c.principal.name, ID: id} }

// forget deletes sessions that have ended.
func (c *client) forget(pool *agent.Pool, ids []string) {
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.s.ctx), 5*time.Second)
		if err := pool.Delete(ctx, c.key(id)); err != nil && !errors.Is(err, store.ErrNotFound) {
			c.s.log.Warn("a session could not be deleted", "error", err)
		}
		cancel()
	}
}

var (
	errNoSession   = errors.New("there is no such session: it has ended, or never was; leave \"session\" out to begin one")
	errSessionBusy = errors.New("the session runs something already")
)

// codeSessions are the sessions of one principal, the one that was used least recently
// in front.
type codeSessions struct {
	most int
	now  func() time.Time

	mu    sync.Mutex
	order *list.List
	byID  map[string]*list.Element
}

type codeSession struct {
	id   string
	used time.Time
	busy bool
}

func (s *codeSessions) init(most int) {
	s.most, s.now, s.order, s.byID = most, time.Now, list.New(), map[string]*list.Element{}
}

// take takes a session for one call, "" a new one, with an id that nobody guesses. The
// sessions that are gone for want of room or of use are to be deleted.
func (s *codeSessions) take(id string) (taken string, gone []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop := func(e *list.Element) {
		old := s.order.Remove(e).(*codeSession)
		delete(s.byID, old.id)
		gone = append(gone, old.id)
	}
	for e := s.order.Front(); e != nil; {
		next := e.Next()
		if c := e.Value.(*codeSession); !c.busy && s.now().Sub(c.used) > sessionIdle {
			drop(e)
		}
		e = next
	}
	if id != "" {
		e := s.byID[id]
		switch {
		case e == nil:
			return "", gone, errNoSession
		case e.Value.(*codeSession).busy:
			return "", gone, errSessionBusy
		}
		e.Value.(*codeSession).busy = true
		return id, gone, nil
	}
	for e := s.order.Front(); e != nil && s.order.Len() >= s.most; e = s.order.Front() {
		for e != nil && e.Value.(*codeSession).busy {
			e = e.Next()
		}
		if e == nil {
			return "", gone, &busyError{s.most}
		}
		drop(e)
	}
	c := &codeSession{id: rand.Text(), busy: true}
	s.byID[c.id] = s.order.PushBack(c)
	return c.id, gone, nil
}

// give gives a session back. It reports whether it is to be deleted.
func (s *codeSessions) give(id string, keep bool) (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return false
	}
	if !keep {
		s.order.Remove(e)
		delete(s.byID, id)
		return true
	}
	c := e.Value.(*codeSession)
	c.busy, c.used = false, s.now()
	s.order.MoveToBack(e)
	return false
}
