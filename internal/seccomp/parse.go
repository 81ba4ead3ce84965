package seccomp

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const enosys = unix.ENOSYS

// parser reads policy files. The grammar is described in the package comment.
type parser struct {
	read    func(string) ([]byte, error)
	rows    map[string]*row
	lets    map[string]uint64
	open    map[string]bool // files being read, so that an include cannot loop
	replace bool            // an overlay: rows replace rows, and must find one to replace
}

func newParser(read func(string) ([]byte, error)) *parser {
	return &parser{read: read, rows: map[string]*row{}, lets: map[string]uint64{}, open: map[string]bool{}}
}

func (p *parser) file(name string) error {
	if p.open[name] {
		return fmt.Errorf("seccomp: policy %s includes itself", name)
	}
	p.open[name] = true
	defer delete(p.open, name)
	raw, err := p.read("policy/" + name + ".txt")
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return p.parse(name, string(raw))
}

// parse reads one file's text. A backslash at the end joins a line to the next.
func (p *parser) parse(name, text string) error {
	joined := strings.ReplaceAll(text, "\\\n", " ")
	seen := map[string]bool{}
	for i, line := range strings.Split(joined, "\n") {
		if err := p.line(line, seen); err != nil {
			return fmt.Errorf("seccomp: policy %s, row %d: %w", name, i+1, err)
		}
	}
	return nil
}

func (p *parser) line(line string, seen map[string]bool) error {
	body, reason, _ := strings.Cut(line, "#")
	words := strings.Fields(body)
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "include", "over", "narrow":
		if len(words) != 2 {
			return fmt.Errorf("%s wants one name", words[0])
		}
		return p.base(words[0], words[1])
	case "let":
		if len(words) != 4 || words[2] != "=" {
			return fmt.Errorf("want: let NAME = VALUE")
		}
		v, err := p.value(words[3])
		p.lets[words[1]] = v
		return err
	}
	r, err := p.row(words)
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	if r.reason = strings.TrimSpace(reason); r.reason == "" {
		return fmt.Errorf("%s: no reason given", r.name)
	}
	if seen[r.name] || !p.replace && p.rows[r.name] != nil {
		return fmt.Errorf("%s: a second row", r.name)
	}
	if p.replace && p.rows[r.name] == nil {
		return fmt.Errorf("%s: replaces no row", r.name)
	}
	seen[r.name] = true
	p.rows[r.name] = r
	return nil
}

// base reads the file that this one builds on. After over its rows may be
// replaced; after narrow what it allows and this file has no row for is refused.
func (p *parser) base(how, name string) error {
	if how != "include" && len(p.rows) > 0 {
		return fmt.Errorf("%s comes before all rows", how)
	}
	if err := p.file(name); err != nil || how == "include" {
		return err
	}
	p.replace = true
	if how == "narrow" {
		for n, r := range p.rows {
			if len(r.branches) > 0 || r.last.Kind == Allow {
				p.rows[n] = &row{name: n, last: Answer{Kind: Refuse, Errno: unix.EPERM, denied: true}, reason: "not needed any more"}
			}
		}
	}
	return nil
}

func (p *parser) row(words []string) (*row, error) {
	r := &row{name: words[0]}
	rest := words[1:]
	for len(rest) > 0 && rest[0] == "if" {
		end := index(rest, ";")
		if end < 0 {
			return nil, fmt.Errorf("a branch ends with ;")
		}
		b, err := p.branch(rest[1:end])
		if err != nil {
			return nil, err
		}
		r.branches = append(r.branches, b)
		rest = rest[end+1:]
	}
	if len(r.branches) > 0 {
		if len(rest) == 0 || rest[0] != "else" {
			return nil, fmt.Errorf("branches end with else")
		}
		rest = rest[1:]
	}
	var err error
	r.last, err = answer(rest)
	return r, err
}

func (p *parser) branch(words []string) (branch, error) {
	colon := index(words, ":")
	if colon < 0 {
		return branch{}, fmt.Errorf("want conditions, a colon, an answer")
	}
	a, err := answer(words[colon+1:])
	if err != nil {
		return branch{}, err
	}
	b := branch{answer: a}
	for rest := words[:colon]; ; {
		and := index(rest, "and")
		one := rest
		if and >= 0 {
			one = rest[:and]
		}
		c, err := p.cond(one)
		if err != nil {
			return branch{}, err
		}
		b.conds = append(b.conds, c)
		if and < 0 {
			return b, nil
		}
		rest = rest[and+1:]
	}
}

func (p *parser) cond(words []string) (cond, error) {
	if len(words) < 2 {
		return cond{}, fmt.Errorf("want argN:WIDTH and a test")
	}
	c, err := argument(words[0])
	if err != nil {
		return cond{}, err
	}
	pointer := strings.HasSuffix(words[0], ":ptr")
	if pointer != (words[1] == "null" && len(words) == 2) {
		return cond{}, fmt.Errorf("a pointer is tested for null and for nothing else")
	}
	if pointer {
		c.op = opNull
		return c, nil
	}
	rest := words[1:]
	c.mask = widthMask(c.width)
	if rest[0] == "mask" && len(rest) > 2 {
		if c.mask, err = p.value(rest[1]); err != nil {
			return cond{}, err
		}
		c.mask &= widthMask(c.width)
		rest = rest[2:]
		if rest[0] != "is" {
			return cond{}, fmt.Errorf("mask wants is")
		}
	}
	return p.test(c, rest)
}

func (p *parser) test(c cond, words []string) (cond, error) {
	ops := map[string]op{"is": opIs, "only": opOnly, "any": opAny, "none": opNone}
	var ok bool
	if c.op, ok = ops[words[0]]; !ok {
		return cond{}, fmt.Errorf("unknown test %q", words[0])
	}
	for _, w := range words[1:] {
		v, err := p.value(w)
		if err != nil {
			return cond{}, err
		}
		if v&^widthMask(c.width) != 0 && w[0] != '~' {
			return cond{}, fmt.Errorf("%s is wider than the parameter", w)
		}
		c.values = append(c.values, v&widthMask(c.width))
	}
	if len(c.values) == 0 || c.op != opIs && len(c.values) != 1 {
		return cond{}, fmt.Errorf("%s: wrong number of values", words[0])
	}
	if c.op != opIs {
		c.mask, c.values = c.values[0], nil
	}
	for _, v := range c.values {
		if v&^c.mask != 0 {
			return cond{}, fmt.Errorf("%#x cannot pass the mask %#x", v, c.mask)
		}
	}
	return c, nil
}

func argument(word string) (cond, error) {
	widths := map[string]int{"u16": 16, "u32": 32, "u64": 64, "ptr": 64}
	name, width, _ := strings.Cut(word, ":")
	bits, ok := widths[width]
	if !ok || len(name) != 4 || name[:3] != "arg" || name[3] < '0' || name[3] > '5' {
		return cond{}, fmt.Errorf("%q is no argument", word)
	}
	return cond{arg: int(name[3] - '0'), width: bits}, nil
}

func answer(words []string) (Answer, error) {
	switch {
	case len(words) == 1 && words[0] == "allow":
		return Answer{Kind: Allow}, nil
	case len(words) == 1 && words[0] == "kill":
		return Answer{Kind: Kill}, nil
	case len(words) == 2 && (words[0] == "errno" || words[0] == "denied"):
		e, ok := errnos[words[1]]
		if !ok {
			return Answer{}, fmt.Errorf("unknown errno %q", words[1])
		}
		return Answer{Kind: Refuse, Errno: e, denied: words[0] == "denied"}, nil
	}
	return Answer{}, fmt.Errorf("unknown answer %q", strings.Join(words, " "))
}

// value is A|B|0x10 of names and numbers, turned round by a leading ~.
func (p *parser) value(word string) (uint64, error) {
	body, invert := strings.CutPrefix(word, "~")
	var v uint64
	for _, part := range strings.Split(body, "|") {
		n, ok := p.lets[part]
		if !ok {
			n, ok = constants[part]
		}
		if !ok {
			var err error
			if n, err = strconv.ParseUint(part, 0, 64); err != nil {
				return 0, fmt.Errorf("unknown value %q", part)
			}
		}
		v |= n
	}
	if invert {
		v = ^v
	}
	return v, nil
}

func index(words []string, want string) int {
	for i, w := range words {
		if w == want {
			return i
		}
	}
	return -1
}
