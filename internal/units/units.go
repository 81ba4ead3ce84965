// Package units reads and writes the values of limits and settings: sizes such as
// 64MiB, durations such as 500ms, per cents and whole numbers.
package units

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unit is how a value is written.
type Unit int

// The units: a whole number, a per cent with or without its sign, bytes with or
// without a unit, and whole milliseconds with one.
const (
	Count Unit = iota
	Percent
	Size
	Duration
)

// ErrForm and ErrRange say what is wrong with a written value: it is none of its
// unit, or it is below zero or does not fit.
var (
	ErrForm  = errors.New("form")
	ErrRange = errors.New("range")
)

// sizeUnits are the endings of a size, longest first. One letter alone is the
// binary unit, as in most tools that limit memory.
var sizeUnits = []struct {
	name   string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"k", 1 << 10}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

// Parse reads a value in the contract's unit: bytes, milliseconds, per cent or a
// number; zero has no need of a unit. The error is ErrForm for what is no such
// value and ErrRange for one that is below zero or does not fit.
func (u Unit) Parse(s string) (int64, error) {
	switch u {
	case Size:
		return parseSize(s)
	case Duration:
		return parseDuration(s)
	case Percent:
		s = strings.TrimSuffix(s, "%")
	}
	return parseCount(s)
}

func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, ErrRange
	case err != nil:
		return 0, ErrForm
	case n < 0:
		return 0, ErrRange
	}
	return n, nil
}

func parseSize(s string) (int64, error) {
	factor := int64(1)
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			s, factor = strings.TrimSuffix(number, " "), u.factor
			break
		}
	}
	n, err := parseCount(s)
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64/factor {
		return 0, ErrRange
	}
	return n * factor, nil
}

func parseDuration(s string) (int64, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		// A number that is one, with a unit that is one, was too large.
		number := strings.TrimRight(s, "hms")
		_, numErr := strconv.ParseInt(number, 10, 64)
		if slices.Contains([]string{"h", "m", "s", "ms"}, s[len(number):]) && (numErr == nil || errors.Is(numErr, strconv.ErrRange)) {
			return 0, ErrRange
		}
		return 0, ErrForm
	}
	switch {
	case d < 0:
		return 0, ErrRange
	case d%time.Millisecond != 0:
		return 0, ErrForm
	}
	return d.Milliseconds(), nil
}

// Example is what a value of the unit looks like.
func (u Unit) Example() string {
	switch u {
	case Size:
		return "a size such as 64MiB"
	case Duration:
		return "a duration of whole milliseconds such as 500ms or 5s"
	case Percent:
		return "a per cent such as 50"
	}
	return "a whole number"
}

// Format writes a value in the largest unit that is exact, with gap before it.
func (u Unit) Format(n int64, gap string) string {
	switch u {
	case Size:
		for _, s := range []struct {
			name   string
			factor int64
		}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if n >= s.factor && n%s.factor == 0 {
				return fmt.Sprint(n/s.factor, gap, s.name)
			}
		}
		return fmt.Sprint(n, gap, "B")
	case Duration:
		switch {
		case n >= 3_600_000 && n%3_600_000 == 0:
			return fmt.Sprint(n/3_600_000, gap, "h")
		case n >= 60_000 && n%60_000 == 0:
			return fmt.Sprint(n/60_000, gap, "m")
		case n >= 1000 && n%1000 == 0:
			return fmt.Sprint(n/1000, gap, "s")
		}
		return fmt.Sprint(n, gap, "ms")
	}
	return strconv.FormatInt(n, 10)
}
