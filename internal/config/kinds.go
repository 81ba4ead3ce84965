package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
	"github.com/glovebox-dev/glovebox/internal/units"
)

// kind is what a setting's value is and where it goes. set takes what was written,
// one text but for lists, and its error is what the value must be.
type kind interface {
	set(written []string) error
	// json reads a value of the file as what set takes.
	json(raw []byte) ([]string, error)
	// String is the value as it would be written.
	String() string
	// form says what values there are, for the documentation.
	form() string
}

// errKind says that a value of the file is of another type.
func errKind(what string) error { return errors.New("must be " + what) }

// asString reads a JSON string.
func asString(raw []byte, what string) ([]string, error) {
	var s string
	if raw[0] != '"' || strictjson.Decode(raw, &s, strictjson.Options{}) != nil {
		return nil, errKind(what)
	}
	return []string{s}, nil
}

type text struct {
	to    *string
	what  string // what values there are
	check func(string) error
}

func (k text) set(w []string) error {
	if strings.ContainsAny(w[0], "\x00\n\r") {
		return errors.New("must be one line")
	}
	if k.check != nil && w[0] != "" {
		if err := k.check(w[0]); err != nil {
			return err
		}
	}
	*k.to = w[0]
	return nil
}

func (k text) json(raw []byte) ([]string, error) { return asString(raw, "a string: "+k.what) }
func (k text) String() string                    { return *k.to }
func (k text) form() string                      { return k.what }

type word struct {
	to    *string
	words []string
}

func (k word) set(w []string) error {
	if !slices.Contains(k.words, w[0]) {
		return errors.New("must be " + k.form())
	}
	*k.to = w[0]
	return nil
}

func (k word) json(raw []byte) ([]string, error) { return asString(raw, "a string: "+k.form()) }
func (k word) String() string                    { return *k.to }
func (k word) form() string                      { return strings.Join(k.words, " or ") }

type truth struct{ to *bool }

func (k truth) set(w []string) error {
	if w[0] != "true" && w[0] != "false" {
		return errKind(k.form())
	}
	*k.to = w[0] == "true"
	return nil
}

func (k truth) json(raw []byte) ([]string, error) {
	if raw[0] == '"' {
		return nil, errKind(k.form())
	}
	return []string{string(raw)}, nil
}
func (k truth) String() string { return fmt.Sprint(*k.to) }
func (k truth) form() string   { return "true or false" }

// number is a whole number, a size or a duration within bounds. Its unit's value of 1
// is stored as by: a duration counts milliseconds.
type number struct {
	unit   units.Unit
	lo, hi int64
	get    func() int64
	put    func(int64)
}

func count(to *int, lo, hi int64) number {
	return number{units.Count, lo, hi, func() int64 { return int64(*to) }, func(n int64) { *to = int(n) }}
}

func size(to *int64, lo, hi int64) number {
	return number{units.Size, lo, hi, func() int64 { return *to }, func(n int64) { *to = n }}
}

func duration(to *time.Duration, lo, hi time.Duration) number {
	return number{units.Duration, lo.Milliseconds(), hi.Milliseconds(),
		func() int64 { return to.Milliseconds() }, func(n int64) { *to = time.Duration(n) * time.Millisecond }}
}

const dayMS = 24 * 3_600_000

func (k number) set(w []string) error {
	n, err := k.parse(w[0])
	if errors.Is(err, units.ErrForm) {
		return errors.New("must be " + k.unit.Example() + ", " + k.form())
	}
	if err != nil || n < k.lo || n > k.hi {
		return errors.New("must be " + k.form())
	}
	k.put(n)
	return nil
}

// parse reads days too, in which keys and shares are counted.
func (k number) parse(s string) (int64, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok && k.unit == units.Duration {
		n, err := units.Count.Parse(days)
		if err != nil || n > k.hi/dayMS+1 {
			return n, errors.Join(err, rangeIf(err == nil))
		}
		return n * dayMS, nil
	}
	return k.unit.Parse(s)
}

func rangeIf(is bool) error {
	if is {
		return units.ErrRange
	}
	return nil
}

func (k number) json(raw []byte) ([]string, error) {
	if k.unit == units.Count || raw[0] != '"' && k.unit == units.Size {
		if raw[0] == '"' {
			return nil, errKind("a number, " + k.form())
		}
		return []string{string(raw)}, nil
	}
	return asString(raw, k.unit.Example()+" in a string, "+k.form())
}

func (k number) String() string { return k.write(k.get()) }

func (k number) write(n int64) string {
	if k.unit == units.Duration && n >= 2*dayMS && n%dayMS == 0 {
		return fmt.Sprintf("%dd", n/dayMS)
	}
	return k.unit.Format(n, "")
}

func (k number) form() string { return "from " + k.write(k.lo) + " to " + k.write(k.hi) }

// list is several texts, each checked.
type list struct {
	to    *[]string
	what  string // what each must be
	check func(string) error
}

const maxList = 100

func (k list) set(w []string) error {
	if len(w) > maxList {
		return fmt.Errorf("must be at most %d", maxList)
	}
	for _, s := range w {
		if err := k.check(s); err != nil {
			return fmt.Errorf("%q %w", s, err)
		}
	}
	*k.to = slices.Clone(w)
	return nil
}

func (k list) json(raw []byte) ([]string, error) { return asList(raw, k.what) }
func (k list) String() string                    { return strings.Join(*k.to, ",") }
func (k list) form() string                      { return "each " + k.what }

func asList(raw []byte, what string) ([]string, error) {
	var l []string
	if raw[0] != '[' || strictjson.Decode(raw, &l, strictjson.Options{}) != nil {
		return nil, errKind("a list of strings, each " + what)
	}
	return l, nil
}

// networks is a list of networks in CIDR form, or of addresses.
type networks struct{ to *[]netip.Prefix }

func (k networks) set(w []string) error {
	if len(w) > maxList {
		return fmt.Errorf("must be at most %d", maxList)
	}
	var all []netip.Prefix
	for _, s := range w {
		p, err := netip.ParsePrefix(s)
		if a, alone := netip.ParseAddr(s); alone == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil || p.Addr().Is4In6():
			return fmt.Errorf("%q must be a network such as 10.0.0.0/8, or an address", s)
		case p != p.Masked():
			return fmt.Errorf("%q has bits behind its length; did you mean %s?", s, p.Masked())
		case p.Bits() == 0:
			return fmt.Errorf("%q is everybody; name the proxies", s)
		}
		all = append(all, p)
	}
	*k.to = all
	return nil
}

func (k networks) json(raw []byte) ([]string, error) { return asList(raw, "a network") }
func (k networks) form() string                      { return "each a network such as 10.0.0.0/8, or an address" }
func (k networks) String() string {
	var out []string
	for _, p := range *k.to {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

// secret is read by Load from a file or the environment; set gets its text.
type secret struct {
	to    *Secret
	what  string
	check func(string) error
}

func (k secret) set(w []string) error {
	if err := k.check(w[0]); err != nil {
		return err
	}
	*k.to = Secret(w[0])
	return nil
}

func (k secret) json(raw []byte) ([]string, error) {
	return asString(raw, "a string: the path of a file")
}
func (k secret) String() string { return k.to.String() }
func (k secret) form() string   { return k.what }

// ceilings are limits, NAME=VALUE each; what is not named keeps its value.
type ceilings struct {
	to      *api.Limits
	highest api.Limits
}

// ceiling is one limit: its name on a command line and in a program.
type ceiling struct {
	name, field string
	unit        units.Unit
	of          func(*api.Limits) []*int64
}

var ceilingTable = []ceiling{
	{"wall", "wall_ms", units.Duration, func(l *api.Limits) []*int64 { return []*int64{&l.WallMS} }},
	{"cpu-time", "cpu_ms", units.Duration, func(l *api.Limits) []*int64 { return []*int64{&l.CPUMS} }},
	{"cpu", "cpu_percent", units.Percent, func(l *api.Limits) []*int64 { return []*int64{&l.CPUPercent} }},
	{"memory", "memory_bytes", units.Size, func(l *api.Limits) []*int64 { return []*int64{&l.MemoryBytes} }},
	{"pids", "pids", units.Count, func(l *api.Limits) []*int64 { return []*int64{&l.Pids} }},
	{"output", "stdout_bytes", units.Size, func(l *api.Limits) []*int64 { return []*int64{&l.StdoutBytes, &l.StderrBytes} }},
	{"disk", "disk_bytes", units.Size, func(l *api.Limits) []*int64 { return []*int64{&l.DiskBytes} }},
	{"disk-files", "disk_files", units.Count, func(l *api.Limits) []*int64 { return []*int64{&l.DiskFiles} }},
	{"file-size", "file_bytes", units.Size, func(l *api.Limits) []*int64 { return []*int64{&l.FileBytes} }},
	{"open-files", "open_files", units.Count, func(l *api.Limits) []*int64 { return []*int64{&l.OpenFiles} }},
}

// CeilingNames are the names of limits, as --max takes them.
func CeilingNames() []string {
	var names []string
	for _, c := range ceilingTable {
		names = append(names, c.name)
	}
	return names
}

func (k ceilings) set(w []string) error {
	lowest := api.MinLimits()
	for _, s := range w {
		name, value, ok := strings.Cut(s, "=")
		i := slices.IndexFunc(ceilingTable, func(c ceiling) bool { return c.name == name })
		if !ok || i < 0 {
			return fmt.Errorf("%q must be NAME=VALUE, and NAME one of %s", s, strings.Join(CeilingNames(), ", "))
		}
		c := ceilingTable[i]
		lo, hi := max(*c.of(&lowest)[0], 1), *c.of(&k.highest)[0]
		n, err := c.unit.Parse(value)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("%q must be %s, from %s to %s", s, c.unit.Example(), c.unit.Format(lo, ""), c.unit.Format(hi, ""))
		}
		for _, to := range c.of(k.to) {
			*to = n
		}
	}
	return nil
}

// json reads an object of limits by the names that programs use.
func (k ceilings) json(raw []byte) ([]string, error) {
	var l api.Limits
	if err := strictjson.Decode(raw, &l, strictjson.Options{Audience: api.AudienceOperator}); err != nil {
		return nil, err
	}
	if l.Compile != nil {
		return nil, errors.New("compile: has no ceilings of its own")
	}
	var out []string
	for _, c := range ceilingTable {
		if n := *c.of(&l)[0]; n != 0 {
			out = append(out, c.name+"="+c.unit.Format(n, ""))
		}
	}
	if l.StderrBytes != l.StdoutBytes {
		return nil, errors.New("stdout_bytes and stderr_bytes must be the same")
	}
	return out, nil
}

func (k ceilings) String() string {
	var out []string
	for _, c := range ceilingTable {
		out = append(out, c.name+"="+c.unit.Format(*c.of(k.to)[0], ""))
	}
	return strings.Join(out, ",")
}

func (k ceilings) form() string {
	return "each NAME=VALUE, and NAME one of " + strings.Join(CeilingNames(), ", ")
}
