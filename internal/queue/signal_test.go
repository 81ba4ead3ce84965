package queue

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Whoever sends a signal at the moment at which the run ends is answered at once.
// proves part of X-16
func TestSignalAtTheEnd(t *testing.T) {
	q := open(t, Options{})
	answers := map[string]int{}
	for i := range 200 {
		id := fmt.Sprintf("r%d", i)
		submit(t, q, "c", id)
		d := take(t, q)
		must(t, d.Begin(t.Context(), nil))
		var end sync.WaitGroup
		end.Go(func() { must(t, d.Finish(t.Context(), nil, nil)) })
		for over := false; !over; {
			begin := time.Now()
			err := q.Signal(t.Context(), id, []byte("x"))
			if d := time.Since(begin); d > step/4 {
				t.Fatalf("an answer after %v: %v", d, err)
			}
			answers[fmt.Sprint(err)]++
			over = errors.Is(err, ErrNotFound)
		}
		end.Wait()
	}
	if t.Log(answers); answers["<nil>"] == 0 || answers[ErrNotFound.Error()] != 200 {
		t.Error(answers)
	}
}
