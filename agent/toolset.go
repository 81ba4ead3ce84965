package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// ToolErrorKind says why a call of a tool was refused or failed. It is an error
// itself, so that errors.Is(err, agent.ToolBudget) asks for it.
type ToolErrorKind string

// The kinds of a [ToolError].
const (
	ToolUnknown      ToolErrorKind = "unknown_tool"
	ToolUndiscovered ToolErrorKind = "undiscovered_tool" // it is lazy, and its description was not asked for
	ToolBudget       ToolErrorKind = "tool_budget"       // MaxCalls are used up
	ToolArguments    ToolErrorKind = "tool_arguments"    // they do not fit
	ToolUnapproved   ToolErrorKind = "tool_unapproved"   // somebody has to approve it, and nobody is there
	ToolTimeout      ToolErrorKind = "tool_timeout"      // of TimeoutMS
	ToolCanceled     ToolErrorKind = "tool_canceled"     // the context ended
	ToolPanicked     ToolErrorKind = "tool_panicked"     // or ended its goroutine
	ToolResult       ToolErrorKind = "tool_result"       // what it returned cannot cross
)

// Error returns the kind's own word.
func (k ToolErrorKind) Error() string { return string(k) }

// ToolError is a refusal or failure of a call that is not the tool's own error.
// A guest sees kind and message, but nothing of a panic or a result.
type ToolError struct {
	Kind    ToolErrorKind
	Tool    string
	Message string
	Err     error // what is behind it: the reason, the panic's value as an error
}

// Error names the tool and says why.
func (e *ToolError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Tool, e.Kind, e.Message) }

// Unwrap returns the kind, what is behind it, and the form that a guest may see.
func (e *ToolError) Unwrap() []error {
	all := []error{e.Kind, &js.GuestError{Name: "ToolError", Message: string(e.Kind) + ": " + e.Message}}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

func toolFailed(kind ToolErrorKind, tool, format string, args ...any) *ToolError {
	return &ToolError{Kind: kind, Tool: tool, Message: fmt.Sprintf(format, args...)}
}

// ToolSet is a catalog within one session: what was called how often, and what
// was discovered. It is safe for concurrent use.
type ToolSet struct {
	catalog *Catalog

	mu    sync.Mutex
	calls map[string]int64
	found map[string]bool
}

// ToolState is what a ToolSet knows, in a form that can be kept.
type ToolState struct {
	Catalog    string           `json:"catalog"`    // its hash
	Calls      map[string]int64 `json:"calls"`      // those charged, by name
	Discovered []string         `json:"discovered"` // in order of their names
}

// NewToolSet begins a session with a catalog.
func (c *Catalog) NewToolSet() *ToolSet {
	return &ToolSet{catalog: c, calls: map[string]int64{}, found: map[string]bool{}}
}

// RestoreToolSet goes on from a state, which must be of this very catalog. The
// error is an *api.FieldError.
func (c *Catalog) RestoreToolSet(s ToolState) (*ToolSet, error) {
	if s.Catalog != c.hash {
		return nil, fieldError("catalog", shown(s.Catalog), "is another one: its tools need a new approval")
	}
	t := c.NewToolSet()
	for name, n := range s.Calls {
		if c.index[name] == nil || n < 0 {
			return nil, &api.FieldError{Field: "calls", Value: shown(name), Reason: "is no tool of the catalog, or a negative number"}
		}
		t.calls[name] = n
	}
	for _, name := range s.Discovered {
		if c.index[name] == nil || t.found[name] {
			return nil, &api.FieldError{Field: "discovered", Value: shown(name), Reason: "is no tool of the catalog, or there twice"}
		}
		t.found[name] = true
	}
	return t, nil
}

// State returns what is to be kept.
func (t *ToolSet) State() ToolState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return ToolState{t.catalog.hash, maps.Clone(t.calls), slices.Sorted(maps.Keys(t.found))}
}

// Search finds tools by words of their names and descriptions, at most 20.
func (t *ToolSet) Search(query string) []Found { return t.catalog.search(query) }

// Describe declares a tool. From then on it can be called, if it is lazy. The
// error is a *ToolError.
func (t *ToolSet) Describe(name string) (Description, error) {
	b := t.catalog.index[name]
	if b == nil {
		return Description{}, toolFailed(ToolUnknown, describeName, "there is no such tool")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.Lazy {
		t.found[name] = true
	}
	return Description{name, b.shown}, nil
}

// ToolCall is a call that was admitted and charged, and is still to run.
type ToolCall struct {
	Tool    string
	timeout time.Duration
	run     prepared
	ran     atomic.Bool
}

// Admit judges a call. A tool that is not known or not discovered, arguments
// that do not fit and a budget that is used up refuse it and cost nothing; what
// is admitted is charged, whatever comes of it. The error is a *ToolError.
func (t *ToolSet) Admit(name string, args []js.Value) (*ToolCall, error) {
	if call, err := t.admitDiscovery(name, args); call != nil || err != nil {
		return call, err
	}
	b := t.catalog.index[name]
	if b == nil {
		return nil, toolFailed(ToolUnknown, shown(name), "there is no such tool")
	}
	if err := t.allowed(b, 0); err != nil {
		return nil, err
	}
	run, err := b.invoke.prepare(args)
	if err != nil {
		return nil, &ToolError{Kind: ToolArguments, Tool: name, Message: err.Error(), Err: err}
	}
	if err := t.allowed(b, 1); err != nil { // others may have been faster
		return nil, err
	}
	return &ToolCall{Tool: name, timeout: time.Duration(b.TimeoutMS) * time.Millisecond, run: run}, nil
}

// allowed looks whether a tool may be called, and charges it.
func (t *ToolSet) allowed(b *boundTool, charge int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case b.Lazy && !t.found[b.Name]:
		return toolFailed(ToolUndiscovered, b.Name, "ask for its description first")
	case t.calls[b.Name] >= b.MaxCalls:
		return toolFailed(ToolBudget, b.Name, "all %d calls are used up", b.MaxCalls)
	}
	if charge > 0 {
		t.calls[b.Name] += charge
	}
	return nil
}

// discoveryTimeout is ample for what runs in memory.
const discoveryTimeout = 10 * time.Second

func (t *ToolSet) admitDiscovery(name string, args []js.Value) (*ToolCall, error) {
	if !t.catalog.lazy || name != searchName && name != describeName {
		return nil, nil
	}
	var text string
	if len(args) != 1 {
		return nil, toolFailed(ToolArguments, name, "%d arguments for one parameter", len(args))
	}
	if err := args[0].Decode(&text); err != nil {
		return nil, &ToolError{Kind: ToolArguments, Tool: name, Message: err.Error(), Err: err}
	}
	run := func(context.Context) (any, error) { return t.Search(text), nil }
	if name == describeName {
		run = func(context.Context) (any, error) { return t.Describe(text) }
	}
	return &ToolCall{Tool: name, timeout: discoveryTimeout, run: run}, nil
}

// Run runs the tool, once. The result has crossed: it is what the guest gets and
// a journal keeps. An error is the tool's own or a *ToolError. A tool that does
// not heed its context when time is up is left running, and its result dropped.
// A second Run is refused.
func (c *ToolCall) Run(ctx context.Context) (js.Value, error) {
	type outcome struct {
		value js.Value
		err   error
	}
	done := make(chan outcome, 1)
	c.begin(ctx, func(value js.Value, err error) { done <- outcome{value, err} })
	out := <-done
	return out.value, out.err
}

// begin is Run that does not wait: it calls done once, with what Run returns. The
// tool has a goroutine of its own, so that it can be left behind, and end it.
func (c *ToolCall) begin(ctx context.Context, done func(js.Value, error)) {
	if c.ran.Swap(true) {
		done(js.Value{}, toolFailed(ToolUnknown, c.Tool, "this call ran already"))
		return
	}
	timed, cancel := context.WithTimeout(ctx, c.timeout)
	var told atomic.Bool
	tell := func(value js.Value, err error) {
		if !told.Swap(true) {
			done(value, err)
		}
	}
	late := func() error {
		if ctx.Err() != nil {
			return &ToolError{Kind: ToolCanceled, Tool: c.Tool, Message: "the call was given up", Err: context.Cause(ctx)}
		}
		return toolFailed(ToolTimeout, c.Tool, "it took more than %d ms", c.timeout.Milliseconds())
	}
	stop := context.AfterFunc(timed, func() { tell(js.Value{}, late()) })
	go func() {
		var value js.Value
		err := error(&ToolError{Kind: ToolPanicked, Tool: c.Tool, Message: "the tool failed", Err: errors.New("it ended its goroutine")})
		defer func() {
			if p := recover(); p != nil {
				value, err = js.Value{}, &ToolError{Kind: ToolPanicked, Tool: c.Tool, Message: "the tool failed", Err: fmt.Errorf("panic: %v", p)}
			}
			if err != nil && timed.Err() != nil {
				err = late()
			}
			stop()
			cancel()
			tell(value, err)
		}()
		value, err = c.result(c.run(timed))
	}()
}

func (c *ToolCall) result(value any, err error) (js.Value, error) {
	if err != nil {
		return js.Value{}, err
	}
	v, err := js.ValueOf(value)
	if err != nil {
		return js.Value{}, &ToolError{Kind: ToolResult, Tool: c.Tool, Message: "its result cannot cross", Err: err}
	}
	return v, nil
}
