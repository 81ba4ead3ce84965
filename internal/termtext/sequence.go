package termtext

// state is what is known of a sequence.
type state int

const (
	whole  state = iota // it is complete
	begun               // more bytes could complete it
	broken              // it is none, or too long
)

// sequence judges the escape sequence at the start of p, which begins with ESC,
// and returns its length when it is whole. A control character inside ends it:
// what a terminal does then differs from one to the next.
func sequence(p []byte) (int, state) {
	if len(p) < 2 {
		return 0, begun
	}
	switch c := p[1]; {
	case c == '[':
		return control(p)
	case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
		return text(p)
	case c >= 0x20 && c <= 0x2f:
		return run(p, 2, 0x20, 0x2f, 0x30)
	case c >= 0x30 && c <= 0x7e:
		return 2, whole
	}
	return 0, broken
}

// control judges ESC [ parameters intermediates final.
func control(p []byte) (int, state) {
	i := 2
	for i < len(p) && i < maxSequence && p[i] >= 0x30 && p[i] <= 0x3f {
		i++
	}
	return run(p, i, 0x20, 0x2f, 0x40)
}

// run judges bytes from lo to hi, from p[i] on, and a final one of at least last.
func run(p []byte, i int, lo, hi, last byte) (int, state) {
	for i < len(p) && i < maxSequence && p[i] >= lo && p[i] <= hi {
		i++
	}
	switch {
	case i >= maxSequence:
		return 0, broken
	case i == len(p):
		return 0, begun
	case p[i] >= last && p[i] <= 0x7e:
		return i + 1, whole
	}
	return 0, broken
}

// text judges a string (title, clipboard, hyperlink, device control): up to
// BEL or ESC \.
func text(p []byte) (int, state) {
	for i := 2; i < len(p) && i < maxSequence; i++ {
		switch c := p[i]; {
		case c == 0x07:
			return i + 1, whole
		case c == esc && i+1 == len(p):
			return 0, begun
		case c == esc && p[i+1] == '\\':
			return i + 2, whole
		case c < 0x20 || c == del:
			return 0, broken
		}
	}
	if len(p) >= maxSequence {
		return 0, broken
	}
	return 0, begun
}

// isColor reports whether a whole sequence is SGR: ESC [ digits and separators
// m. The same letter with a private marker is something else.
func isColor(p []byte) bool {
	if p[1] != '[' || p[len(p)-1] != 'm' {
		return false
	}
	for _, c := range p[2 : len(p)-1] {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}

// isReset reports whether a colour sequence is the one that ends all.
func isReset(p []byte) bool {
	s := string(p[2 : len(p)-1])
	return s == "" || s == "0"
}
