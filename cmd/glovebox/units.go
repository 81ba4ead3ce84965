package main

import "github.com/glovebox-dev/glovebox/internal/units"

// unit is how the value of a limit is written.
type unit units.Unit

const (
	count    = unit(units.Count)
	percent  = unit(units.Percent)
	size     = unit(units.Size)
	duration = unit(units.Duration)
)

// errForm and errRange say what is wrong with a written value.
var (
	errForm  = units.ErrForm
	errRange = units.ErrRange
)

func (u unit) parse(s string) (int64, error) { return units.Unit(u).Parse(s) }

func (u unit) example() string { return units.Unit(u).Example() }

func (u unit) format(n int64, gap string) string { return units.Unit(u).Format(n, gap) }

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
