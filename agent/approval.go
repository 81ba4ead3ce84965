package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/js"
)

// ApprovalHash is what somebody agrees to who approves a call: this tool of this
// catalog with these very arguments, as this call of this session. Another of
// any of them has another hash. The error is a *js.ConvertError.
func (c *Catalog) ApprovalHash(session string, call uint64, tool string, args []js.Value) (string, error) {
	h := sha256.New()
	for _, part := range []string{"glovebox approval 1", c.hash, session, strconv.FormatUint(call, 10), tool} {
		writePart(h, []byte(part))
	}
	for _, a := range args {
		data, err := a.MarshalBinary()
		if err != nil {
			return "", err
		}
		writePart(h, data)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writePart writes a text with its length, so that texts cannot run together.
func writePart(h hash.Hash, part []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	h.Write(part)
}

// The bounds of what is shown of arguments.
const (
	maxShownText  = 300  // bytes of a string
	maxShownItems = 20   // elements of a container
	maxShownDepth = 6    // levels
	maxShownAll   = 8000 // bytes of everything
)

// ShowArguments writes arguments for a person who is to approve a call. What it
// cannot show as it is it marks: characters that are not seen or turn text round
// stand as \u{…}, letters that are not ASCII are named by their script, and each
// part that is left out says how long it is and what its hash begins with. A text
// of the guest's cannot make such a mark: its ⟨ and ⟩ stand as \u{…} too.
func ShowArguments(args []js.Value) string {
	s := &shower{}
	for i, a := range args {
		if i > 0 {
			s.b.WriteString(", ")
		}
		s.value(a.Any(), 0)
	}
	text := s.b.String()
	if len(text) <= maxShownAll {
		return text
	}
	return cutText(text, maxShownAll) + leftOut(text)
}

// leftOut marks what is not shown of a text.
func leftOut(whole string) string {
	sum := sha256.Sum256([]byte(whole))
	return fmt.Sprintf("⟨cut: %d bytes in all, SHA-256 %x…⟩", len(whole), sum[:8])
}

type shower struct{ b strings.Builder }

// value writes a value; it calls itself maxShownDepth deep.
func (s *shower) value(v any, depth int) {
	if s.b.Len() > 2*maxShownAll { // cut off anyway, and its length said to be more
		s.b.WriteString("⟨more⟩")
		return
	}
	switch t := v.(type) {
	case nil:
		s.b.WriteString("null")
	case bool, float64, js.UndefinedType, js.InvalidDateType:
		fmt.Fprint(&s.b, t)
	case *big.Int:
		s.bigInt(t)
	case string:
		s.text(t)
	case time.Time:
		s.b.WriteString("Date " + t.Format(time.RFC3339Nano))
	case []byte:
		s.bytes("bytes", t)
	case *js.Bytes:
		s.bytes(t.Kind.String(), t.Data)
	case *js.ErrorValue:
		s.b.WriteString("Error ")
		s.list("{", "}", 2, depth, func(i int) { s.text([]string{t.Name, t.Message}[i]) })
	case []any:
		s.list("[", "]", len(t), depth, func(i int) { s.value(t[i], depth+1) })
	case *js.Set:
		s.list("Set {", "}", len(t.Elements), depth, func(i int) { s.value(t.Elements[i], depth+1) })
	case *js.Map:
		s.list("Map {", "}", len(t.Entries), depth, func(i int) {
			s.value(t.Entries[i].Key, depth+1)
			s.b.WriteString(" => ")
			s.value(t.Entries[i].Value, depth+1)
		})
	case map[string]any:
		keys := slices.Sorted(maps.Keys(t))
		s.list("{", "}", len(keys), depth, func(i int) {
			s.text(keys[i])
			s.b.WriteString(": ")
			s.value(t[keys[i]], depth+1)
		})
	default:
		s.b.WriteString("⟨something else⟩")
	}
}

func (s *shower) bigInt(n *big.Int) {
	if n.BitLen() > 1000 {
		fmt.Fprintf(&s.b, "⟨bigint of %d bits⟩", n.BitLen())
		return
	}
	s.b.WriteString(n.String() + "n")
}

// list writes a container's first elements and says how many it has.
func (s *shower) list(open, end string, n, depth int, one func(i int)) {
	s.b.WriteString(open)
	if depth >= maxShownDepth && n > 0 {
		fmt.Fprintf(&s.b, "⟨%d inside⟩%s", n, end)
		return
	}
	for i := range min(n, maxShownItems) {
		if i > 0 {
			s.b.WriteString(", ")
		}
		one(i)
	}
	if n > maxShownItems {
		fmt.Fprintf(&s.b, ", ⟨%d more⟩", n-maxShownItems)
	}
	s.b.WriteString(end)
}

func (s *shower) bytes(kind string, data []byte) {
	sum := sha256.Sum256(data)
	fmt.Fprintf(&s.b, "⟨%s: %d bytes, SHA-256 %x…⟩", kind, len(data), sum[:8])
}

// text writes a string in quotes, with its marks behind it.
func (s *shower) text(t string) {
	short := t
	if len(t) > maxShownText {
		short = strings.TrimSuffix(cutText(t, maxShownText), "…")
	}
	s.b.WriteByte('"')
	scripts := map[string]bool{}
	for i, r := range short {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(short[i:], "\ufffd"):
			fmt.Fprintf(&s.b, `\x%02x`, short[i])
		case r == '"' || r == '\\':
			s.b.WriteString(`\` + string(r))
		case r == '⟨' || r == '⟩' || r < ' ' || termtext.Plain(string(r)) == "" || unicode.IsSpace(r) && r != ' ' || unicode.IsMark(r):
			fmt.Fprintf(&s.b, `\u{%x}`, r)
		default:
			if r >= 0x80 && unicode.IsLetter(r) {
				scripts[scriptOf(r)] = true
			}
			s.b.WriteRune(r)
		}
	}
	s.b.WriteByte('"')
	if len(scripts) > 0 {
		fmt.Fprintf(&s.b, "⟨letters: %s⟩", strings.Join(slices.Sorted(maps.Keys(scripts)), ", "))
	}
	if short != t {
		s.b.WriteString(leftOut(t))
	}
}

// scriptOf names the script of a letter beyond ASCII.
func scriptOf(r rune) string {
	if unicode.Is(unicode.Latin, r) {
		return "Latin beyond ASCII"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return "unknown"
}
