package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/js"
)

// FetchKind says why a fetch was refused or failed. It is an error itself, so
// that errors.Is(err, agent.FetchDenied) asks for it.
type FetchKind string

// The kinds of a [FetchError].
const (
	FetchBadURL   FetchKind = "bad_url"     // the URL is not spelled in the one way that is taken
	FetchDenied   FetchKind = "denied"      // no rule has the origin, path, method or header
	FetchBadInput FetchKind = "bad_request" // headers or body cannot be sent so, or are too large
	FetchAddress  FetchKind = "address"     // the name leads to an address where nothing may go
	FetchRedirect FetchKind = "redirect"    // to elsewhere, or too many
	FetchTooLarge FetchKind = "too_large"   // the answer
	FetchEncoding FetchKind = "encoding"    // the answer is compressed though that was not asked for
	FetchTimeout  FetchKind = "timeout"     // of TimeoutMS
	FetchBudget   FetchKind = "budget"      // MaxRequests or MaxTotalBytes are used up
	FetchNetwork  FetchKind = "network"     // no connection, or no HTTP over it
	FetchCanceled FetchKind = "canceled"    // the call's context ended
)

// Error returns the kind's own word.
func (k FetchKind) Error() string { return string(k) }

// FetchError is every failure of [Fetcher.Fetch]. A guest sees kind and message,
// which have no address and nothing of the host; Err is for the host alone.
type FetchError struct {
	Kind    FetchKind
	Message string
	Err     error // what is behind it, or nil
}

// Error returns kind and message.
func (e *FetchError) Error() string { return fmt.Sprintf("fetch: %s: %s", e.Kind, e.Message) }

// Unwrap returns the kind, what is behind it, and the form that a guest may see.
func (e *FetchError) Unwrap() []error {
	all := []error{e.Kind, &js.GuestError{Name: "FetchError", Message: string(e.Kind) + ": " + e.Message}}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

func fetchFailed(k FetchKind, format string, args ...any) *FetchError {
	return &FetchError{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// failure makes a FetchError of what ended a call. timed is the call's context
// with its deadline, ctx the one without.
func (f *Fetcher) failure(ctx, timed context.Context, err error) error {
	if own, ok := errors.AsType[*FetchError](err); ok {
		return own
	}
	out := &FetchError{Kind: FetchNetwork, Message: "there was no connection, or no good answer over it", Err: err}
	switch {
	case ctx.Err() != nil:
		out.Kind, out.Message = FetchCanceled, "the call was given up"
	case timed.Err() != nil:
		out.Kind, out.Message = FetchTimeout, fmt.Sprintf("it took more than %d ms", f.o.TimeoutMS)
	default:
		if _, ok := errors.AsType[*egress.AddressError](err); ok {
			out.Kind, out.Message = FetchAddress, "the name leads to an address that must not be reached"
		}
	}
	return out
}
