package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unit is how the value of a limit is written.
type unit int

const (
	count unit = iota
	percent
	size
	duration
)

// errForm and errRange say what is wrong with a written value.
var (
	errForm  = errors.New("form")
	errRange = errors.New("range")
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

// parse reads a value in the contract's unit: bytes, milliseconds, per cent or a
// number; zero has no need of a unit. The error is errForm for what is no such
// value and errRange for one that is below zero or does not fit.
func (u unit) parse(s string) (int64, error) {
	switch u {
	case size:
		return parseSize(s)
	case duration:
		return parseDuration(s)
	case percent:
		s = strings.TrimSuffix(s, "%")
	}
	return parseCount(s)
}

func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errRange
	case err != nil:
		return 0, errForm
	case n < 0:
		return 0, errRange
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
		return 0, errRange
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
			return 0, errRange
		}
		return 0, errForm
	}
	switch {
	case d < 0:
		return 0, errRange
	case d%time.Millisecond != 0:
		return 0, errForm
	}
	return d.Milliseconds(), nil
}

// limit reads the value of a limit: from lo to hi, or 0, which is its default.
// flag and written are what stands on the command line.
func (u unit) limit(flag, written, value string, lo, hi int64) (int64, error) {
	most := u.format(hi, "")
	if u == size && hi > 1<<30 { // the memory of a machine is no round number
		most = u.format(hi-hi%(1<<20), "")
	}
	n, err := u.parse(value)
	switch {
	case err == errForm:
		return 0, usagef("%s %q: must be %s, from %s to %s, or 0 for the default", flag, written, u.example(), u.format(lo, ""), most)
	case err != nil || n != 0 && (n < lo || n > hi):
		return 0, usagef("%s %s: must be from %s to %s, or 0 for the default", flag, written, u.format(lo, ""), most)
	}
	return n, nil
}

// example is what a value of the unit looks like.
func (u unit) example() string {
	switch u {
	case size:
		return "a size such as 64MiB"
	case duration:
		return "a duration of whole milliseconds such as 500ms or 5s"
	case percent:
		return "a per cent such as 50"
	}
	return "a whole number"
}

// format writes a value in the largest unit that is exact, with gap before it.
func (u unit) format(n int64, gap string) string {
	switch u {
	case size:
		for _, s := range []struct {
			name   string
			factor int64
		}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if n >= s.factor && n%s.factor == 0 {
				return fmt.Sprint(n/s.factor, gap, s.name)
			}
		}
		return fmt.Sprint(n, gap, "B")
	case duration:
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
