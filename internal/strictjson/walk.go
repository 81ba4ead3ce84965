package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// walk goes over one text beside the kind that it must be of. It calls itself
// once for each object or list that lies in another, never more than depth times.
type walk struct {
	data     []byte
	pos      int
	audience string
	newer    bool

	depth, bytes, values int // the bounds
	level, count         int // how deep it is, and how many values it has seen
}

func refuse(format string, args ...any) *failure {
	return &failure{reason: fmt.Sprintf(format, args...)}
}

// document reads the whole text.
func (w *walk) document(k *kind) *failure {
	if len(w.data) > w.bytes {
		return refuse("must have at most %d bytes, and has %d", w.bytes, len(w.data))
	}
	if f := w.value(k); f != nil {
		return f
	}
	if w.next(); w.pos < len(w.data) {
		return refuse("has something behind its JSON value, at byte %d", w.pos)
	}
	return nil
}

// value reads one value of a kind.
func (w *walk) value(k *kind) *failure {
	if w.count++; w.count > w.values {
		return refuse("is one value too many: the whole may have %d", w.values)
	}
	null := k.null
	for k.class == pointer {
		k = k.elem
	}
	c := w.next()
	what := naming(c)
	switch {
	case what == "":
		return w.syntax()
	case c == 'n' && !null:
		return refuse("must be %s, not null", wants[k.class])
	case k.class == foreign, k.class == textual && (c == '"' || c == 'n'):
		return w.foreign(k)
	case c == 'n':
		return w.word("null")
	case c == '{' && k.is(dict, record):
		return w.object(k)
	case c == '[' && k.is(list):
		return w.list(k)
	case c == '"' && k.is(text, octets):
		raw, f := w.text()
		if f == nil && k.class == octets && !base64Form(raw) {
			f = refuse("must be %s: standard, padded, in one line", wants[octets])
		}
		return f
	case what == "a number" && k.is(integer, unsigned, float, number):
		return w.number(k)
	case c == 't' && k.is(boolean):
		return w.word("true")
	case c == 'f' && k.is(boolean):
		return w.word("false")
	}
	return refuse("must be %s, not %s", wants[k.class], what)
}

// naming names the value that begins with a byte, "" when none does.
func naming(c byte) string {
	switch {
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case c == 't', c == 'f':
		return "true or false"
	case c == 'n':
		return "null"
	case c == '-', '0' <= c && c <= '9':
		return "a number"
	}
	return ""
}

// is reports whether a kind is of one of some classes; what may be anything is
// of all of them.
func (k *kind) is(classes ...class) bool {
	if k.class == free || k.class == verbatim {
		return true
	}
	for _, c := range classes {
		if k.class == c {
			return true
		}
	}
	return false
}

// foreign reads a value of a type that decodes itself, and lets it try.
func (w *walk) foreign(k *kind) *failure {
	w.count-- // it is counted as what it is made of
	start := w.pos
	if f := w.value(allVerbatim); f != nil {
		return f
	}
	err := json.Unmarshal(w.data[start:w.pos], reflect.New(k.typ).Interface())
	if err == nil {
		return nil
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return refuse("has a %s where there must be something else", printable(wrong.Value)) // not the name of the Go type
	}
	return refuse("is not accepted: %s", printable(err.Error()))
}

// enter steps over the bracket that opens a list or an object.
func (w *walk) enter() *failure {
	if w.level++; w.level > w.depth {
		return refuse("is nested deeper than %d levels", w.depth)
	}
	w.pos++
	return nil
}

// more steps over a comma, or over the bracket that closes, after which there is
// no more.
func (w *walk) more(closing byte) (bool, *failure) {
	switch c := w.next(); c {
	case ',', closing:
		if w.pos++; c == ',' {
			return true, nil
		}
		w.level--
		return false, nil
	}
	return false, w.syntax()
}

// empty steps over the bracket that closes at once, if it does.
func (w *walk) empty(closing byte) bool {
	if w.next() != closing {
		return false
	}
	w.pos++
	w.level--
	return true
}

func (w *walk) list(k *kind) *failure {
	if f := w.enter(); f != nil {
		return f
	}
	n := 0
	for more := !w.empty(']'); more; n++ {
		f := w.value(k.elem)
		if f != nil {
			return f.in(indexPart(n))
		}
		if more, f = w.more(']'); f != nil {
			return f
		}
	}
	if k.size >= 0 && n != k.size {
		return refuse("must have %d elements, and has %d", k.size, n)
	}
	return nil
}

// members are the keys that an object has had so far.
type members struct {
	fields []bool              // of a record, by field.index
	keys   map[string]struct{} // of any other
}

func (w *walk) object(k *kind) *failure {
	if f := w.enter(); f != nil {
		return f
	}
	had := members{fields: make([]bool, len(k.fields))}
	for more := !w.empty('}'); more; {
		key, elem, f := w.key(k, &had)
		if f != nil {
			return f
		}
		if w.next() != ':' {
			return w.syntax().in(keyPart(key))
		}
		w.pos++
		if f := w.value(elem); f != nil {
			return f.in(keyPart(key))
		}
		if more, f = w.more('}'); f != nil {
			return f
		}
	}
	return nil
}

// key reads a key and returns the kind of its value.
func (w *walk) key(k *kind, had *members) (key string, elem *kind, f *failure) {
	if w.next() != '"' {
		return "", nil, w.syntax()
	}
	raw, f := w.text()
	if f != nil {
		return "", nil, f
	}
	if len(raw) > maxKey {
		return "", nil, refuse("has a key of more than %d bytes", maxKey)
	}
	key = unquote(raw)
	if k.class == record {
		elem, f = w.named(k, key, had)
	} else {
		elem, f = k.elem, had.once(key)
	}
	if f != nil {
		f.in(keyPart(key))
	}
	return key, elem, f
}

// once notes a key, and refuses it the second time.
func (m *members) once(key string) *failure {
	if _, twice := m.keys[key]; twice {
		return refuse("is given twice")
	}
	if m.keys == nil {
		m.keys = map[string]struct{}{}
	}
	m.keys[key] = struct{}{}
	return nil
}

// folds reports whether encoding/json would take a key for a field of another name.
func folds(k *kind, key string) bool {
	return slices.ContainsFunc(k.fields, func(f *field) bool { return strings.EqualFold(f.name, key) })
}

// named finds the field of a record by its exact name.
func (w *walk) named(k *kind, key string, had *members) (*kind, *failure) {
	switch f := k.names[key]; {
	case f == nil && w.newer && !folds(k, key):
		return anything, had.once(key)
	case f == nil:
		return nil, refuse("is not known; %s", w.known(k, key))
	case !f.isFor(w.audience):
		return nil, refuse("is not for the %s to set", w.audience)
	case had.fields[f.index]:
		return nil, refuse("is given twice")
	default:
		had.fields[f.index] = true
		return f.kind, nil
	}
}

// known says which names there are, to one who took another.
func (w *walk) known(k *kind, key string) string {
	var names []string
	for _, f := range k.fields {
		if !f.isFor(w.audience) {
			continue
		}
		if strings.EqualFold(f.name, key) {
			return "the name is exactly " + strconv.Quote(f.name)
		}
		names = append(names, f.name)
	}
	if len(names) == 0 {
		return "nothing can be set here"
	}
	return "known are " + strings.Join(names, ", ")
}
