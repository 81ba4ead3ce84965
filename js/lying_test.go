package js

import (
	"context"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// A worker that answers what it was not asked is found out, and panics nobody.
//
// proves part of T-11
func TestAnswersOutOfTurn(t *testing.T) {
	for name, c := range map[string]struct {
		r *Runtime
		m wire.Message
	}{
		"bound in an evaluation":   {&Runtime{eval: 1}, &wire.Bound{Token: 7}},
		"bound of another token":   {&Runtime{eval: 1, binding: 8}, &wire.Bound{Token: 7}},
		"bound of token 0":         {&Runtime{eval: 1}, &wire.Bound{}},
		"done while binding":       {&Runtime{eval: 1, binding: 8}, &wire.Done{ID: 1}},
		"done of another":          {&Runtime{eval: 1}, &wire.Done{ID: 2}},
		"a second ready":           {&Runtime{eval: 1}, &wire.Ready{}},
		"a module that nobody has": {&Runtime{eval: 1}, &wire.Import{CallID: 1}},
	} {
		done, why := c.r.serve(context.Background(), c.m)
		if done || why == nil || why.Kind != Protocol {
			t.Errorf("%s: %v, %v", name, done, why)
		}
	}
	r := Runtime{eval: 1} // control
	if done, why := r.serve(context.Background(), &wire.Done{ID: 1}); !done || why != nil {
		t.Errorf("an honest answer: %v, %v", done, why)
	}
}
