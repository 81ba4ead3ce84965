package js

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

type (
	handler struct {
		Name    string
		Handler func()
	}
	ring   struct{ Next *ring }
	badKey struct{ s string }
	broken struct{ text string }
)

func (k badKey) MarshalText() ([]byte, error) {
	if k.s == "" {
		return nil, errBad
	}
	return []byte("same"), nil
}

func (b broken) MarshalJSON() ([]byte, error) {
	if b.text == "error" {
		return nil, errBad
	}
	return []byte(b.text), nil
}

func TestEncodeRefuses(t *testing.T) {
	cycle := map[string]any{}
	cycle["me"] = []any{cycle}
	loop := &ring{}
	loop.Next = loop
	var p P
	p = &p
	list := []any{nil}
	list[0] = list
	same := &Map{}
	same.Entries = []Entry{{"k", same}}
	for _, c := range []struct {
		name  string
		in    any
		limit string
		want  string
	}{
		{"function", []any{handler{"a", nil}}, "", "args[0].Handler: func() cannot cross"},
		{"channel", []any{1, make(chan int)}, "", "args[1]: chan int cannot cross"},
		{"complex", map[string]any{"a b": []complex64{1}}, "", `args["a b"][0]: complex64 cannot cross`},
		{"map keys", map[float64]int{1: 1}, "", "args: a map with keys of type float64 cannot cross"},
		{"key's method", map[badKey]int{{}: 1}, "", "js.badKey: bad text"},
		{"keys that are one", map[badKey]int{{"a"}: 1, {"b"}: 2}, "", "args.same: two properties of one name"},
		{"keys that become one", map[string]any{"\xff": 1, "\xfe": 2}, "", `args["�"]: two properties of one name`},
		{"keys of JSON", json.RawMessage(`{"a":1,"a":2}`), "", "json.RawMessage.MarshalJSON: two properties of one name"},
		{"no JSON", broken{"[1,}"}, "", "args[1]: js.broken.MarshalJSON: no JSON at byte 3"},
		{"JSON that ends", broken{`{"a"`}, "", "the JSON ends early"},
		{"JSON and more", broken{"1 2"}, "", "no JSON at byte 2"},
		{"number of JSON", broken{"01"}, "", `"01" is no number`},
		{"large number of JSON", broken{"1e999"}, "", "number 1e999 is too large"},
		{"escape of JSON", broken{`"\x"`}, "", "no JSON at byte"},
		{"half an escape", broken{`"\u+123"`}, "", "no JSON at byte"},
		{"control in JSON", broken{"\"\n\""}, "", "no JSON at byte 1"},
		{"MarshalJSON fails", broken{"error"}, "", "js.broken: bad text"},
		{"json.Number", json.Number("x"), "", `"x" is no number`},
		{"time", time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC), "", "the year 300000 is none of a Date"},
		{"bytes", Bytes{Int16Array, []byte{1}}, "", "1 byte is no Int16Array"},
		{"kind of bytes", Bytes{99, nil}, "", "0 bytes is no unknown"},
		{"BigInt", new(big.Int).Lsh(big.NewInt(1), 1<<20), "bigint", "more than 262144: bigint"},
		{"cyclic map", cycle, "depth", "more than 128: depth; is there a cycle?"},
		{"cyclic slice", list, "depth", "args[0][0][0][0][0][0]…[0][0][0][0][0][0]: more than 128: depth"},
		{"cyclic struct", loop, "depth", "depth"},
		{"cyclic Map", same, "depth", "args.entries[0].value.entries[0].value"},
		{"pointer to itself", p, "", "more than 128 pointers"},
		{"deep JSON", broken{strings.Repeat("[", 16<<20)}, "depth", "depth"},
		{"many strings", manyTimes(strings.Repeat("x", 1<<20), 100), "value", "value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := encodeTree("args", c.in, wire.Budget{})
			e, ok := errors.AsType[*ConvertError](err)
			if !ok || e.Limit != c.limit {
				t.Fatalf("%v, want a ConvertError with limit %q", err, c.limit)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func manyTimes(v any, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// A small Go value with many references to one part costs no more than its
// budget: the nodes are counted before they are made.
//
// proves part of G-02 G-22
func TestEncodeCountsNodes(t *testing.T) {
	bomb := any(nil)
	for range 100 {
		bomb = []any{bomb, bomb}
	}
	_, err := encodeTree("args", bomb, wire.Budget{})
	if e, ok := errors.AsType[*ConvertError](err); !ok || e.Limit != "nodes" {
		t.Errorf("%v, want the limit of nodes", err)
	}
	for _, c := range []struct {
		in    any
		nodes int
	}{
		{[]any{nil, Undefined, 1, "x"}, 5},
		{[]int{1, 2}, 3},
		{map[string]any{"a": nil}, 2},
		{map[string]*int{"a": nil}, 2},
		{struct{ A, B any }{}, 3},
		{Map{[]Entry{{1, 2}}}, 3},
		{&Set{[]any{1, nil}}, 3},
		{json.RawMessage(`[1,{"a":null}]`), 4},
		{crossed(t, []any{wire.Hole{}, object("a", nil)}), 4},
		{error(errBad), 1},
		{[]byte{1, 2, 3}, 1},
	} {
		if _, err := encodeTree("v", c.in, wire.Budget{Nodes: c.nodes}); err != nil {
			t.Errorf("%#v in %d nodes: %v", c.in, c.nodes, err)
		}
		if _, err := encodeTree("v", c.in, wire.Budget{Nodes: c.nodes - 1}); c.nodes > 1 && err == nil {
			t.Errorf("%#v fits %d nodes", c.in, c.nodes-1)
		}
		if _, err := encodeValue("v", c.in, wire.Budget{Nodes: c.nodes}); err != nil {
			t.Errorf("the wire counts %#v otherwise: %v", c.in, err)
		}
	}
	for _, in := range []any{[]int{1, 2}, map[string]int{"a": 1, "b": 2}, struct{ A, B int }{}, &Set{[]any{1, 2}},
		json.RawMessage("[1,2]"), json.RawMessage(`{"a":1,"b":2}`)} {
		if _, err := encodeTree("v", in, wire.Budget{Elements: 1}); err == nil || !strings.Contains(err.Error(), "elements") {
			t.Errorf("%v with 1 element: %v", in, err)
		}
	}
}

// What is over a budget is refused before room is made for it.
func TestEncodeRefusesEarly(t *testing.T) {
	const many = 200_000
	long := make([]any, many)
	wide := map[string]any{}
	for i := range many {
		wide[fmt.Sprint(i)] = nil
	}
	for _, in := range []any{long, make([]int, many), make([]struct{}, 1<<40), wide, map[string]map[string]any{"a": wide},
		&Map{make([]Entry, many)}, &Set{long}, [1 << 20]struct{}{}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := encodeTree("v", in, wire.Budget{Nodes: 1000})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%T of %d crosses in 1,000 nodes", in, many)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
			t.Errorf("%T: %d bytes were made before it was refused", in, n)
		}
	}
}

// nest puts a value into n arrays.
func nest(v any, n int) any {
	for range n {
		v = []any{v}
	}
	return v
}

func TestDeepest(t *testing.T) {
	tree := nest("x", 128)
	v := crossed(t, tree)
	back, err := ValueOf(v.Any())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.wire(), tree) { // cmp takes 2^depth steps
		t.Error("128 levels come back otherwise")
	}
	if _, err := encodeTree("v", nest("x", 128), wire.Budget{}); err != nil {
		t.Error(err)
	}
	if _, err := encodeTree("v", nest("x", 129), wire.Budget{}); err == nil {
		t.Error("129 levels cross")
	}
	if _, err := ValueOf(v); err != nil {
		t.Error(err)
	}
	if _, err := ValueOf([]any{v}); err == nil || !strings.Contains(err.Error(), "depth") {
		t.Errorf("a deep Value in an array: %v", err)
	}
	text, err := v.MarshalJSON()
	if err != nil || string(text) != strings.Repeat("[", 128)+`"x"`+strings.Repeat("]", 128) {
		t.Errorf("%s, %v", text, err)
	}
	if want := "[[[[[…]]]]]"; v.String() != want {
		t.Errorf("%s, want %s", v, want)
	}
	type tower []tower
	var into tower
	err = v.Decode(&into)
	if err == nil || strings.Count(err.Error(), "[0]") != 12 || !strings.Contains(err.Error(), `string "x" does not fit js.tower`) {
		t.Errorf("%v", err)
	}
	// A tree that no wire made.
	if err := valueOf(nest("x", 1000), "v").Decode(&into); err == nil || !strings.Contains(err.Error(), "more than 128: depth") {
		t.Errorf("%v", err)
	}
}

// proves part of G-22
func TestMillionNodes(t *testing.T) {
	list := make([]any, 999_999)
	for i := range list {
		list[i] = wire.Undefined{}
	}
	began := time.Now()
	v := crossed(t, list)
	all := v.Any().([]any)
	var pointers []*int
	if err := v.Decode(&pointers); err != nil || len(pointers) != len(list) || len(all) != len(list) {
		t.Errorf("%d, %d, %v", len(all), len(pointers), err)
	}
	if _, err := ValueOf(all); err != nil {
		t.Error(err)
	}
	if _, err := ValueOf(append(all, nil)); err == nil {
		t.Error("1,000,001 nodes cross")
	}
	if s := v.String(); len(s) > maxPrint || !strings.HasSuffix(s, "undefined, …]") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	if text, err := v.MarshalJSON(); err != nil || len(text) != 5*len(list)+1 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	t.Log("a million nodes, all ways:", time.Since(began))
}

// The largest growth of Any: many objects with one property each.
func TestAnyMemory(t *testing.T) {
	list := make([]any, 50_000)
	for i := range list {
		list[i] = object("a", wire.Undefined{})
	}
	encoded, err := wire.Encode(list, wire.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := decodeValue("v", encoded, wire.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := v.Any()
	runtime.ReadMemStats(&after)
	times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(encoded))
	t.Logf("%d bytes crossed, Any made %.1f times as many", len(encoded), times)
	if times > 16 {
		t.Errorf("Any takes %.1f times what crossed", times)
	}
	runtime.KeepAlive(x)
}

// What people see is bounded, whatever the value is.
func TestStringIsBounded(t *testing.T) {
	long := strings.Repeat("長", 1<<20)
	wide := &wire.Map{}
	for i := range 1000 {
		wide.Keys = append(wide.Keys, fmt.Sprint(long[:600], i))
		wide.Values = append(wide.Values, nest(long, 3))
	}
	for name, tree := range map[string]any{
		"string": long, "strings": []any{long, long}, "key": object(long, 1.0), "Map": wide,
		"BigInt": new(big.Int).Lsh(big.NewInt(1), 1<<20-1), "bytes": bytesOf(wire.Uint8Array, make([]byte, 1<<20)...),
		"Error": &wire.Error{Name: long, Message: long}, "controls": strings.Repeat("\x1b", 1<<20),
	} {
		v := valueOf(tree, "v")
		s := v.String()
		if len(s) > maxPrint || !utf8.ValidString(s) {
			t.Errorf("%s: %d bytes, %q", name, len(s), s[:100])
		}
		var n int
		err := v.Decode(&n)
		if err == nil || len(err.Error()) > maxErrorText {
			t.Errorf("%s: error of %d bytes", name, len(err.Error()))
		}
	}
	e := ErrorValue{Name: long, Message: long}
	if s := e.Error(); len(s) > maxErrorText || !utf8.ValidString(s) {
		t.Errorf("error of %d bytes", len(s))
	}
}
