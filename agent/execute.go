package agent

import (
	"context"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// maxResult is the longest JSON of Execute, in bytes.
const maxResult = 16 << 20

// Execute is Feed, and says all that came of it as plain data, bounded and made
// safe to show: how the guest ended is no error. The error is for what it has not
// caused.
func (s *Session) Execute(ctx context.Context, code string, o FeedOptions) (js.Execution, error) {
	r, err := s.Feed(ctx, code, o)
	if r == nil {
		if wrong := new(js.Error); errors.As(err, &wrong) && wrong.Kind == js.SyntaxError { // it could not be made JavaScript
			return js.ExecutionOf(js.Value{}, err, maxResult)
		}
		return js.Execution{}, err
	}
	e, err := js.ExecutionOf(r.Value, err, maxResult)
	if err != nil {
		return e, err
	}
	e.Stdout = r.Output
	e.Truncated.Stdout = r.Truncated
	e.Usage = js.Usage{Calls: r.Usage.Calls, Guest: time.Duration(r.Usage.MS) * time.Millisecond, Console: int64(len(r.Output))}
	return e, nil
}
