package js

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Status says in one word how a program ended.
type Status string

// The statuses. They mean what the verdicts of a run mean.
const (
	StatusOK      Status = "ok"
	StatusError   Status = "error"        // it threw, is no JavaScript, or broke another limit; Kind says which
	StatusTimeout Status = "timeout"      // of TimeoutMS, HardMS or CPUMS
	StatusMemory  Status = "memory_limit" // the kernel's
	StatusDenied  Status = "denied"       // a system call of the kill class
)

// Execution is what came of a program: bounded, and text in it has passed the
// output filter. It is also the object of `glovebox eval --json`.
type Execution struct {
	Status Status `json:"status"`
	// Result is the value of the last expression as JSON, null without one. What JSON
	// cannot say, such as a Map or a function, is no failure: Result is null then,
	// NoJSON says why, and Text shows the value, if it could cross, to people.
	Result json.RawMessage `json:"result"`
	NoJSON string          `json:"no_json,omitempty"`
	Text   string          `json:"text,omitempty"`
	// Kind is the kind of the error, "" without one; ErrorType the name of what the
	// guest threw, Error its message or ours, Stack the guest's own frames.
	Kind      Kind   `json:"kind,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	Error     string `json:"error,omitempty"`
	Stack     string `json:"stack,omitempty"`
	// Stdout is what console.log, info and debug wrote, Stderr what warn and error
	// did, a line for each call. Limits.ConsoleBytes bounds both together.
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Truncated Truncated `json:"truncated"`
	Usage     Usage     `json:"usage"`
}

// Truncated says of which stream there may have been more.
type Truncated struct {
	Stdout bool `json:"stdout"`
	Stderr bool `json:"stderr"`
}

// MarshalJSON writes times in ms.
func (u Usage) MarshalJSON() ([]byte, error) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return json.Marshal(struct {
		Calls     int64   `json:"host_calls"`
		Guest     float64 `json:"guest_ms"`
		Host      float64 `json:"host_ms"`
		HeapBytes int64   `json:"heap_bytes,omitempty"`
		Console   int64   `json:"console_bytes"`
	}{u.Calls, ms(u.Guest), ms(u.Host), u.HeapBytes, u.Console})
}

// hostKinds are failures that no guest has caused.
var hostKinds = []Kind{Canceled, Closed, Expired, Busy, Unavailable, EngineMissing, SetupFailed, PoolFull}

// Execute runs a program and says all that came of it: how it ended is data, not
// an error. The error is for what the guest has not caused: options, a context
// that ended, a runtime that is busy or closed. Options.Console gets the
// console's text as well.
func (r *Runtime) Execute(ctx context.Context, s Script) (Execution, error) {
	out := &streams{left: int(r.p.limits.ConsoleBytes)}
	v, usage, err := r.run(ctx, s, out.line)
	e, err := ExecutionOf(v, err, r.p.limits.ResultBytes)
	if err != nil {
		return e, err
	}
	e.Usage = usage
	e.Stdout, e.Stderr, e.Truncated = string(out.stdout), string(out.stderr), out.cut
	if usage.Console >= r.p.limits.ConsoleBytes { // the worker says nothing more then
		e.Truncated = Truncated{true, true}
	}
	return e, nil
}

// ExecutionOf says of an evaluation's value and error what [Runtime.Execute] says,
// but for the console and the usage. A result of more than most bytes of JSON is
// [ResultLimit].
func ExecutionOf(v Value, err error, most int64) (Execution, error) {
	e := Execution{Status: StatusOK, Result: json.RawMessage("null")}
	var failure *Error
	switch {
	case err == nil:
		e.value(v, most)
	case !errors.As(err, &failure) || slices.Contains(hostKinds, failure.Kind):
		return Execution{}, err
	case failure.Kind == Unsupported: // it ended well: what is left over cannot cross
		e.NoJSON = failure.Message
	default:
		e.Status, e.Kind = statusOf(failure.Kind), failure.Kind
		e.ErrorType, e.Error, e.Stack = failure.Name, failure.Message, failure.Stack
	}
	return e, nil
}

func statusOf(k Kind) Status {
	switch k {
	case Timeout, HardTimeout, CPULimit:
		return StatusTimeout
	case MemoryLimit:
		return StatusMemory
	case Denied:
		return StatusDenied
	}
	return StatusError
}

// value fills in the result.
func (e *Execution) value(v Value, most int64) {
	if v.IsUndefined() {
		return
	}
	text, err := v.MarshalJSON()
	switch {
	case err != nil:
		e.NoJSON, e.Text = err.Error(), v.String()
	case int64(len(text)) > most: // escapes make JSON longer than what crossed
		e.Status, e.Kind, e.Error = StatusError, ResultLimit, fmt.Sprintf("the result as JSON has more bytes than result_bytes, %d", most)
	default:
		e.Result = text
	}
}

// streams collects the console's lines.
type streams struct {
	left           int
	stdout, stderr []byte
	cut            Truncated
}

func (s *streams) line(l Level, text string) {
	to, cutTo := &s.stdout, &s.cut.Stdout
	if l == "warn" || l == "error" {
		to, cutTo = &s.stderr, &s.cut.Stderr
	}
	if s.left <= 0 {
		*cutTo = true
		return
	}
	if len(text)+1 > s.left {
		text = cut(text, s.left-1)
		*cutTo = true
	}
	*to = append(append(*to, text...), '\n')
	s.left -= len(text) + 1
}
