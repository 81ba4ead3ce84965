package wire_test

import (
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// each makes an array of n values.
func each(n int, f func(i int) any) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}

// same makes an array of one value n times.
func same(n int, v any) []any { return each(n, func(int) any { return v }) }

// wide holds an object of n keys of the shortest kind.
func wide(n int) *wire.Object {
	o := &wire.Object{Keys: make([]string, n), Values: make([]any, n)}
	for i := range n {
		o.Keys[i] = strconv.FormatInt(int64(i), 36)
	}
	return o
}

// worst are values that are accepted and take as much memory for each byte of
// their encoding as a kind of value can.
func worst() map[string][]byte {
	const n = 4_000
	deep := any(nil)
	for range 126 {
		deep = []any{deep}
	}
	one := map[string]any{
		"undefined": wire.Undefined{}, "null": nil, "true": true, "number": 1234.5, "small number": 7.0, "date": wire.Date(1), "empty string": "", "short string": "ab", "é": "é", "latin 20": strings.Repeat("é", 20),
		"wide": "日", "wide 20": strings.Repeat("日", 20), "lone": "\xed\xa0\x80", "300": strings.Repeat("a", 300), "300 é": strings.Repeat("é", 300), "300 日": strings.Repeat("日", 300),
		"257": strings.Repeat("a", 257), "129": strings.Repeat("a", 129), "255é": strings.Repeat("a", 255) + "é", "aé": "aé", "array": []any{}, "array of one": []any{nil}, "array of one number": []any{0.1},
		"map": &wire.Map{}, "map of one": &wire.Map{Keys: []any{nil}, Values: []any{nil}}, "set": &wire.Set{}, "set of one": &wire.Set{Values: []any{nil}}, "error": &wire.Error{}, "error with text": &wire.Error{Name: "é", Message: "é", Stack: "é"},
		"bytes": &wire.Bytes{}, "one byte": &wire.Bytes{Data: []byte{1}}, "33 bytes": &wire.Bytes{Data: make([]byte, 33)}, "hole": wire.Hole{}, "deep": deep,
	}
	for _, digits := range []int{1, 2, 15, 16, 17, 33, 200} {
		one["bigint "+strconv.Itoa(digits)] = new(big.Int).Lsh(big.NewInt(1), uint(4*digits-1))
	}
	for _, keys := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 20, 100} {
		one[fmt.Sprintf("object of %d", keys)] = wide(keys)
	}
	all := map[string][]byte{}
	for name, v := range one {
		count := n
		if b := len(encodePlain(v)); b > 100 {
			count = max(1, n*100/b/2)
		}
		all[name] = value(same(count, v))
		all[name+", plain"] = encodePlain(same(count, v))
		all[name+", alternating"] = value(each(count, func(i int) any { return []any{"a", v, strings.Repeat("a", 250), "é"}[i%4] }))
	}
	for _, keys := range []int{1000, 10_000, 100_000, 1 << 16, 1<<16 - 1, 87_382} {
		all[fmt.Sprintf("one object of %d", keys)] = value(wide(keys))
	}
	for _, objects := range []int{1, 3, 5, 1<<14 - 1, 1<<14 + 1} { // where the list of shapes has just grown
		all[fmt.Sprintf("%d empty objects", objects)] = encodePlain(same(objects, object()))
		all[fmt.Sprintf("%d small objects", objects)] = encodePlain(same(objects, wide(1)))
	}
	all["long bigints"] = value(same(8, new(big.Int).Lsh(big.NewInt(1), 1<<20-1)))
	all["long text"], all["long é"], all["long 日"] = value(strings.Repeat("a", 1<<20)), value(strings.Repeat("é", 1<<20)), value(strings.Repeat("日", 1<<20))
	all["long bytes"] = value(&wire.Bytes{Data: make([]byte, 1<<20)})
	all["a million nulls"] = value(same(999_999, nil))
	return all
}

// Decoding takes at most 8 bytes of Go's memory for each byte of the encoding,
// whatever it is: what the runtime says it has allocated in all, so that what
// was thrown away again counts too.
//
// proves B-12
func TestAmplification(t *testing.T) {
	highest, of := 0.0, ""
	for name, b := range worst() {
		_, allocated := measured(func() {
			v, err := wire.Decode(b, wire.Budget{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			runtime.KeepAlive(v)
		})
		if ratio := float64(allocated) / float64(len(b)); ratio > highest {
			highest, of = ratio, name
		}
		if allocated > wire.Amplification*len(b)+1<<10 {
			t.Errorf("%s: %d bytes took %d", name, len(b), allocated)
		}
	}
	t.Logf("at most %.2f: %s", highest, of)
}

// A budget of memory is held by the decoder's own account, which is near what
// the runtime says: never less than half of it.
//
// proves part of B-12
func TestMemoryBudget(t *testing.T) {
	for name, b := range worst() {
		if strings.Contains(name, "small number") || len(b) < 4<<10 {
			continue // the runtime keeps numbers below 256 ready
		}
		_, allocated := measured(func() { _, _ = wire.Decode(b, wire.Budget{}) })
		_, err := wire.Decode(b, wire.Budget{Memory: allocated / 2})
		var limit *wire.LimitError
		if !errors.As(err, &limit) || limit.What != "memory" {
			t.Errorf("%s: %d allocated, half of it is enough: %v", name, allocated, err)
		}
	}
}

// Each budget stops what is one more than it allows and nothing less, when
// decoding and when encoding. Holes, null and undefined are nodes like others.
//
// proves G-22
// proves part of T-12 G-02 G-12
func TestBudgets(t *testing.T) {
	three := []any{nil, wire.Undefined{}, wire.Hole{}} // four nodes
	for _, c := range []struct {
		what string
		v    any
		fits wire.Budget
		not  wire.Budget
	}{
		{"nodes", three, wire.Budget{Nodes: 4}, wire.Budget{Nodes: 3}},
		{"nodes", []any{three, three}, wire.Budget{Nodes: 9}, wire.Budget{Nodes: 8}},
		{"nodes", same(100, wire.Hole{}), wire.Budget{Nodes: 101}, wire.Budget{Nodes: 100}},
		{"nodes", same(100, wire.Undefined{}), wire.Budget{Nodes: 101}, wire.Budget{Nodes: 100}},
		{"nodes", same(100, nil), wire.Budget{Nodes: 101}, wire.Budget{Nodes: 100}},
		{"nodes", &wire.Map{Keys: three[:2], Values: three[:2]}, wire.Budget{Nodes: 5}, wire.Budget{Nodes: 4}},
		{"nodes", wide(10), wire.Budget{Nodes: 11}, wire.Budget{Nodes: 10}},
		{"depth", nested(3), wire.Budget{Depth: 3}, wire.Budget{Depth: 2}},
		{"depth", &wire.Set{Values: []any{&wire.Map{Keys: []any{object("a", []any{})}, Values: []any{nil}}}}, wire.Budget{Depth: 4}, wire.Budget{Depth: 3}},
		{"elements", same(10, nil), wire.Budget{Elements: 10}, wire.Budget{Elements: 9}},
		{"elements", &wire.Set{Values: same(10, nil)}, wire.Budget{Elements: 10}, wire.Budget{Elements: 9}},
		{"elements", &wire.Map{Keys: same(10, nil), Values: same(10, nil)}, wire.Budget{Elements: 10}, wire.Budget{Elements: 9}},
		{"elements", wide(10), wire.Budget{Elements: 10}, wire.Budget{Elements: 9}},
	} {
		b := value(c.v)
		for i, budget := range []wire.Budget{c.fits, c.not} {
			_, err := wire.Decode(b, budget)
			_, err2 := wire.Encode(c.v, budget)
			for _, err := range []error{err, err2} {
				var limit *wire.LimitError
				if i == 0 && err != nil || i == 1 && (!errors.As(err, &limit) || limit.What != c.what) {
					t.Errorf("%s, %.60s with %+v: %v", c.what, show(c.v), budget, err)
				}
			}
		}
	}
}

// The budgets that stand when none is given, and none can make greater.
//
// proves part of G-02 G-12
func TestDefaultBudgets(t *testing.T) {
	cycle := make([]any, 1)
	cycle[0] = cycle
	for what, c := range map[string]struct {
		v any
		b wire.Budget
	}{
		"nodes":    {[]any{same(500_000, nil), same(500_000, nil)}, wire.Budget{}},
		"depth":    {nested(129), wire.Budget{Depth: 1 << 20}},
		"elements": {same(1<<20+1, nil), wire.Budget{Nodes: 10 << 20}},
		"bigint":   {new(big.Int).Lsh(big.NewInt(1), 1<<20), wire.Budget{}},
		"value":    {strings.Repeat("x", wire.MaxValue), wire.Budget{}},
	} {
		var limit *wire.LimitError
		if _, err := wire.Encode(c.v, c.b); !errors.As(err, &limit) || limit.What != what {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := wire.Encode(cycle, wire.Budget{}); !errors.Is(err, wire.ErrLimit) {
		t.Errorf("a cycle: %v", err)
	}
	if _, err := wire.Decode(encodePlain(nested(129)), wire.Budget{Depth: 1 << 20}); !errors.Is(err, wire.ErrLimit) {
		t.Errorf("depth made greater: %v", err)
	}
	for _, v := range []any{same(999_999, nil), nested(128), new(big.Int).Lsh(big.NewInt(1), 1<<20-1)} {
		if _, err := wire.Encode(v, wire.Budget{}); err != nil {
			t.Errorf("a control: %v", err)
		}
	}
}

// Keys that all fall into one place are refused before they cost the square of
// their number; with the hash that is used, as many keys of any kind are not.
//
// proves part of T-12
func TestCollisions(t *testing.T) {
	keys := wide(100_000).Keys
	var limit *wire.LimitError
	took, _ := measured(func() {
		if _, err := wire.Distinct(keys, func(string) uint64 { return 7 }); !errors.As(err, &limit) || limit.What != "collisions" {
			t.Errorf("all in one place: %v", err)
		}
	})
	if took > slow()*bombTime {
		t.Errorf("refused after %v", took)
	}
	if ok, err := wire.Distinct(keys, nil); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	keys[len(keys)-1] = keys[0]
	if ok, err := wire.Distinct(keys, nil); ok || err != nil {
		t.Errorf("one twice: %v, %v", ok, err)
	}
}

// What is no value of the closed set is refused by Encode.
func TestEncodeRefuses(t *testing.T) {
	hole := any(wire.Hole{})
	for i, v := range []any{
		1, int64(1), uint8(1), float32(1), []string{"a"}, map[string]any{}, struct{}{}, func() {}, make(chan int), errors.New("x"), []byte("x"), hole, wire.Set{}, *big.NewInt(1),
		(*wire.Object)(nil), (*wire.Map)(nil), (*wire.Set)(nil), (*wire.Error)(nil), (*wire.Bytes)(nil), (*big.Int)(nil), wire.Date(0.5), wire.Date(inf), wire.Date(minusZero), wire.Date(9e15),
		&wire.Object{Keys: []string{"a"}}, &wire.Map{Keys: []any{1.0}}, &wire.Bytes{Kind: 14}, &wire.Bytes{Kind: wire.Int16Array, Data: []byte{1}}, object("a", nil, "a", nil), &wire.Set{Values: []any{hole}},
		&wire.Map{Keys: []any{hole}, Values: []any{nil}}, object("a", hole), &wire.Error{Stack: "\xff"},
	} {
		inside := []any{[]any{v}}
		if v == hole {
			inside = nil
		}
		for _, v := range append(inside, v) {
			if b, err := wire.AppendValue([]byte("before"), v, wire.Budget{}); !errors.Is(err, wire.ErrValue) || string(b) != "before" {
				t.Errorf("%d, %T: %v", i, v, err)
			}
		}
	}
}

// What an engine hands over becomes the value that Encode would make.
func TestAppendUTF16(t *testing.T) {
	for _, c := range tagCases {
		for _, v := range c.good {
			want := encodePlain(v)
			p, err := wire.Value(want).Parts()
			if err != nil {
				t.Fatal(err)
			}
			heap := p.Heap
			if !p.Wide {
				heap = nil
				for _, c := range p.Heap {
					heap = append(heap, c, 0)
				}
			}
			if got, err := wire.AppendUTF16(nil, p.Words, heap, p.Bytes); err != nil || string(got) != string(want) {
				t.Errorf("%.60s: %x, %v", show(v), got, err)
			}
		}
	}
	for i, c := range [][2][]byte{{nil, nil}, {make([]byte, 7), nil}, {make([]byte, 8), make([]byte, 1)}} {
		if _, err := wire.AppendUTF16(nil, c[0], c[1], nil); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	for data, want := range map[int]error{wire.MaxValue - 24: nil, wire.MaxValue - 23: wire.ErrLimit} {
		if _, err := wire.AppendUTF16(nil, make([]byte, 8), nil, make([]byte, data)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", data, err)
		}
	}
}
