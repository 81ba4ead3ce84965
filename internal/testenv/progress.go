package testenv

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// Progress returns a function to call for each of many steps of a long test: it tells
// after every tenth of them how far the test is. Short tests say nothing.
func Progress(t testing.TB, steps int) func() {
	var done atomic.Int64
	begin := time.Now()
	every := int64(max(steps/10, 1000))
	return func() {
		if n := done.Add(1); n%every == 0 {
			fmt.Printf("    %s: %d of %d after %.0f s\n", t.Name(), n, steps, time.Since(begin).Seconds())
		}
	}
}
