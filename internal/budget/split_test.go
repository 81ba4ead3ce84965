package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/budget"
)

// What was split off is nothing that somebody waits for; given back, it is there again.
//
// proves part of H-45
func TestSplit(t *testing.T) {
	b := budget.New(budget.Amount{Memory: 100}, budget.Amount{Memory: 10})
	own, giveBack, err := b.Split(budget.Amount{Memory: 20})
	if err != nil || own.Total().Memory != 20 || b.Total().Memory != 80 {
		t.Fatal(own, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := b.Acquire(ctx, budget.Amount{Memory: 71}); !errors.Is(err, budget.ErrTooMuch) {
		t.Error("it would wait for ever:", err)
	}
	release, err := b.Acquire(ctx, budget.Amount{Memory: 70})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Split(budget.Amount{Memory: 1}); !errors.Is(err, budget.ErrShort) {
		t.Error("what others have was split off:", err)
	}
	if r, err := own.Try(budget.Amount{Memory: 20}); err != nil {
		t.Error(err)
	} else {
		r()
	}
	release()
	giveBack()
	giveBack()
	if _, err := b.Acquire(ctx, budget.Amount{Memory: 90}); err != nil {
		t.Error(err)
	}
}
