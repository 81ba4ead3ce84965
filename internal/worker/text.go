//go:build linux

package worker

import (
	"fmt"
	"math"
	"os"
	"unicode/utf8"
)

// cut shortens a text to at most n bytes, between two characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func bits(f float64) uint64 { return math.Float64bits(f) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// exit ends the worker in the midst of the engine's frames.
func exit(err error) {
	fmt.Fprintln(os.Stderr, "glovebox-js:", err)
	os.Exit(1)
}
