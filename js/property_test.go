package js

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// everything has a field of each type that comes back as it was.
type everything struct {
	Bool    bool
	Int     int64
	Uint    uint64
	Small   int8
	Float   float64
	Single  float32
	Text    string
	Named   named `json:"n,omitempty"`
	Quoted  int64 `json:",string"`
	Bytes   []byte
	Array   [3]uint8
	Time    time.Time
	Big     *big.Int
	Any     any
	List    []everything
	Map     map[string]*int
	Numbers map[uint8]float32 `json:",omitempty"`
	Kept    *Bytes
	Entries *Map
	Level2  `json:",omitzero"`
	*Deep
}

// maker makes random values, fewer the deeper it is.
type maker struct{ *rand.Rand }

func (m maker) text() string {
	pieces := []string{"", "a", "é", "日本", "👩", "\x00", "\"\\", "\u2028", "\xed\xa0\x80", "__proto__", "long text that is more", "\ufeff"}
	s := ""
	for range m.IntN(4) {
		s += pieces[m.IntN(len(pieces))]
	}
	return wtf8(s)
}

func (m maker) float() float64 {
	switch m.IntN(4) {
	case 0:
		return float64(m.IntN(1000) - 500)
	case 1:
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), maxExact, 1 << 53, math.MaxFloat64}[m.IntN(7)]
	}
	return math.Float64frombits(m.Uint64())
}

func (m maker) big() *big.Int {
	n := new(big.Int).SetUint64(m.Uint64())
	n.Lsh(n, m.UintN(200))
	if m.IntN(2) == 0 {
		n.Neg(n)
	}
	return n
}

func (m maker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	return b
}

// any makes one of the values that Value.Any can return.
func (m maker) any(depth int) any {
	n := 11
	if depth > 0 {
		n = 15
	}
	switch m.IntN(n) {
	case 0:
		return nil
	case 1:
		return Undefined
	case 2:
		return m.IntN(2) == 0
	case 3, 4:
		return m.float()
	case 5:
		return m.big()
	case 6:
		return m.text()
	case 7:
		return time.UnixMilli(m.Int64N(2*8.64e15) - 8.64e15).UTC()
	case 8:
		return InvalidDate
	case 9:
		return m.bytes(m.IntN(9))
	case 10:
		return []any{&Bytes{DataView, m.bytes(3)}, &ErrorValue{m.text(), m.text(), m.text()}}[m.IntN(2)]
	case 11:
		return m.list(depth)
	case 12:
		return &Set{m.list(depth)}
	case 13:
		entries := make([]Entry, m.IntN(4))
		for i := range entries {
			entries[i] = Entry{m.any(depth - 1), m.any(depth - 1)}
		}
		return &Map{entries}
	}
	object := map[string]any{}
	for range m.IntN(12) {
		object[m.text()] = m.any(depth - 1)
	}
	return object
}

func (m maker) list(depth int) []any {
	list := make([]any, m.IntN(5))
	for i := range list {
		list[i] = m.any(depth - 1)
	}
	return list
}

func (m maker) everything(depth int) everything {
	e := everything{
		Bool: m.IntN(2) == 0, Int: int64(m.Uint64()), Uint: m.Uint64(), Small: int8(m.Uint32()), Float: m.float(),
		Single: math.Float32frombits(m.Uint32() &^ (1 << 23)), Text: m.text(), Named: named(m.text()), Quoted: int64(m.Uint64()),
		Time: time.UnixMilli(m.Int64N(1 << 50)).UTC(), Any: m.any(depth), Level2: Level2{X: m.text()},
	}
	copy(e.Array[:], m.bytes(3))
	if m.IntN(2) == 0 {
		e.Bytes, e.Big, e.Kept, e.Deep = m.bytes(5), m.big(), &Bytes{Uint16Array, m.bytes(4)}, &Deep{m.IntN(9)}
		e.Map, e.Numbers = map[string]*int{m.text(): nil, "k": ptr(m.IntN(99))}, map[uint8]float32{byte(m.Uint32()): 1.5}
		e.Entries = &Map{[]Entry{{m.any(0), m.any(0)}}}
	}
	for range depth {
		e.List = append(e.List, m.everything(depth-1))
	}
	return e
}

// What crosses into JavaScript and back is what it was.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		m := maker{rand.New(rand.NewPCG(seed, 5))}
		in := m.everything(2)
		v, err := ValueOf(in)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var out everything
		if err := v.DecodeStrict(&out); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		same(t, fmt.Sprintf("seed %d: a struct", seed), out, in)

		x := m.any(4)
		if v, err = ValueOf(x); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		same(t, fmt.Sprintf("seed %d: anything", seed), v.Any(), x)
		if t.Failed() {
			return
		}
		examine(t, v)
	}
}

// examine holds what is true of every value.
func examine(t testing.TB, v Value) {
	t.Helper()
	if s := v.String(); len(s) > maxPrint || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u202e' || r == '\ufeff'
	}) {
		t.Errorf("String() is %q", s)
	}
	if text, err := v.MarshalJSON(); err == nil {
		var x any
		if err := json.Unmarshal(text, &x); err != nil {
			t.Errorf("JSON %q: %v", text, err)
		}
		// Read as JSON it is one value only.
		e := &encoder{maxNodes: maxNodes, maxDepth: maxDepth, maxElements: maxElements}
		tree, f := e.readJSON(text)
		if f != nil {
			t.Fatalf("JSON %q: %s", text, f.reason)
		}
		if again, f := appendJSON(nil, tree); f == nil && !bytes.Equal(again, text) {
			t.Errorf("JSON %s, then %s", text, again)
		}
	}
	// A Value crosses as it is.
	before, err := wire.Encode(v.wire(), wire.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := encodeValue("v", v, wire.Budget{})
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("a Value crosses otherwise: %v", err)
	}
	if _, err := ValueOf(v.Any()); err != nil {
		t.Errorf("what Any returns does not cross: %v", err)
	}
	for _, dst := range targets() {
		kept := reflect.ValueOf(dst).Elem().Interface()
		if err := v.Decode(dst); err != nil {
			if len(err.Error()) > maxErrorText || !utf8.ValidString(err.Error()) {
				t.Errorf("error %q", err)
			}
			if !reflect.DeepEqual(reflect.ValueOf(dst).Elem().Interface(), kept) {
				t.Errorf("an error, and %T was set", dst)
			}
		} else if _, err := encodeTree("v", dst, wire.Budget{}); err != nil && reflect.TypeOf(dst) != reflect.TypeFor[*map[any]any]() {
			t.Errorf("%T was set, and does not cross back: %v", dst, err)
		}
	}
}

// targets are pointers to decode to.
func targets() []any {
	return []any{new(any), new(everything), new([]everything), new(map[string]any), new(map[int][]string), new(map[any]any), new([4]byte),
		new([]byte), new(quoted), new(json.RawMessage), new(*big.Int), new(float32), new(uint64), new(string), new(bool), new(time.Time),
		new(Value), new(Map), new(Set), new(ErrorValue), new(Looping), new(outerPlain), new(P), new(error), new([]*Value), new(texted)}
}

// FuzzDecode gives bytes of a hostile peer to everything that a host does with
// a value.
func FuzzDecode(f *testing.F) {
	for _, c := range toGo {
		encoded, err := wire.Encode(c.tree, wire.Budget{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(encoded))
	}
	for seed := range uint64(20) {
		m := maker{rand.New(rand.NewPCG(seed, 6))}
		for _, in := range []any{m.everything(1), m.any(5), map[string]any{"__proto__": m.any(2), "constructor": nil}} {
			encoded, err := encodeValue("v", in, wire.Budget{})
			if err != nil {
				f.Fatal(err)
			}
			f.Add([]byte(encoded))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decodeValue("v", data, wire.Budget{Nodes: 10_000})
		if err != nil {
			return
		}
		examine(t, v)
	})
}

// FuzzReadJSON holds the reader of JSON against encoding/json's.
func FuzzReadJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,true,false,null,"\ud83d\ude00\ud800\u00e9\/"]}`, `[]`, ` {} `, `"`, `[1,]`, `{"a":1,}`, `01`, `-`, `1.`, `.5`, "nul",
		`1e5`, `"\u12"`, `[[[[`, "\"\xff\"", `{"a":1 "b":2}`, `{"a":{}}x`, "\ufeff1", `1E-2`, `"\x41"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := &encoder{maxNodes: maxNodes, maxDepth: maxDepth, maxElements: maxElements}
		tree, fault := e.readJSON([]byte(s))
		if valid := json.Valid([]byte(s)); valid != (fault == nil) {
			if fault == nil || fault.limit == "" && !strings.Contains(fault.reason, "two properties") && !strings.Contains(fault.reason, "too large") {
				t.Fatalf("%q: valid %v, %+v", s, valid, fault)
			}
		}
		if fault != nil {
			return
		}
		if _, err := wire.Encode(tree, wire.Budget{}); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	})
}
