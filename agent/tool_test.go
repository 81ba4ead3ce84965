package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// values are arguments as a guest would send them.
func values(t testing.TB, args ...any) (out []js.Value) {
	t.Helper()
	for _, a := range args {
		v, err := js.ValueOf(a)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// call admits and runs.
func call(t testing.TB, s *ToolSet, name string, args ...any) (any, error) {
	t.Helper()
	c, err := s.Admit(name, values(t, args...))
	if err != nil {
		return nil, err
	}
	v, err := c.Run(t.Context())
	if err != nil {
		return nil, err
	}
	return v.Any(), nil
}

type counter struct{ n int }

func (c *counter) Add(n int) int { c.n += n; return c.n }
func (c counter) Get() int       { return c.n }

func double[T int | float64](v T) T { return v + v }

type embedded struct {
	Deep int `json:"deep"`
}

type record struct {
	embedded
	Name string            `json:"name"`
	At   time.Time         `json:"at,omitzero"`
	Tags []string          `json:"tags,omitempty"`
	More map[string]record `json:"more,omitempty"`
	Ptr  *int              `json:"ptr,omitempty"`
	Data []byte            `json:"data,omitempty"`
	skip int
}

type ctxKey struct{}

var emptyMap map[string]int

// TestCallables: every kind of function is a tool.
//
// proves part of S-17
func TestCallables(t *testing.T) {
	c := &counter{}
	base := 10
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, x := range map[string]struct {
		fn   any
		args []any
		want any
	}{
		"nothing":      {func() {}, nil, js.Undefined},
		"closure":      {func(n int) int { base += n; return base }, []any{5}, 15.0},
		"method":       {c.Add, []any{7}, 7.0},
		"method value": {counter.Get, []any{map[string]any{}}, 0.0},
		"generic":      {double[float64], []any{1.5}, 3.0},
		"context":      {func(ctx context.Context) bool { _, ok := ctx.Deadline(); return ok }, nil, true},
		"context, arg": {func(ctx context.Context, s string) (string, error) { return s + fmt.Sprint(ctx.Value(ctxKey{})), nil }, []any{"a"}, "a<nil>"},
		"error alone":  {func(string) error { return nil }, []any{"x"}, js.Undefined},
		"variadic":     {func(sep string, s ...string) string { return strings.Join(s, sep) }, []any{"-", "a", "b"}, "a-b"},
		"variadic, 0":  {func(s ...string) int { return len(s) }, nil, 0.0},
		"any":          {func(v any) any { return v }, []any{[]any{1, nil, "x"}}, []any{1.0, nil, "x"}},
		"value":        {func(v js.Value) js.Value { return v }, []any{"x"}, "x"},
		"time":         {func(v time.Time) time.Time { return v.Add(time.Second) }, []any{at}, at.Add(time.Second)},
		"bytes":        {func(b []byte) []byte { return append(b, 3) }, []any{[]byte{1}}, []byte{1, 3}},
		"bigint":       {func(n *big.Int) *big.Int { return n.Mul(n, n) }, []any{big.NewInt(1 << 40)}, new(big.Int).Lsh(big.NewInt(1), 80)},
		"map":          {func(m map[string]int) int { return m["a"] }, []any{map[string]any{"a": 4}}, 4.0},
		"int keys":     {func(m map[int]bool) bool { return m[7] }, []any{map[string]any{"7": true}}, true},
		"slices":       {func(v [][]int) int { return v[1][0] }, []any{[][]int{{1}, {2}}}, 2.0},
		"array":        {func(v [2]int) [1]int { return [1]int{v[1]} }, []any{[]int{1, 2}}, []any{2.0}},
		"struct": {func(r record) record { r.Deep++; return r }, []any{map[string]any{"deep": 1, "name": "n", "at": at, "tags": []any{"x"}, "data": []byte{9}}},
			map[string]any{"deep": 2.0, "name": "n", "at": at, "tags": []any{"x"}, "data": []byte{9}}},
		"pointer":       {func(r *record) bool { return r == nil }, []any{nil}, true},
		"pointer, none": {func(_ int, r *record) bool { return r == nil }, []any{1}, true},
		"func type":     {js.Func(nil), nil, nil},
		"int64":         {func(n int64) int64 { return n }, []any{int64(1) << 60}, big.NewInt(1 << 60)},
	} {
		if name == "func type" {
			continue // see TestToolRefused: nil is none
		}
		cat, err := NewCatalog([]Tool{{Name: "t", Func: x.fn}}, CatalogOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		exactly(t, cat)
		got, err := call(t, cat.NewToolSet(), "t", x.args...)
		if diff := cmp.Diff(x.want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

// TestToolRefused: what is no tool is refused by the name of the field; its
// neighbour is not. The names of guests themselves are held against the engine in
// TestGuestGlobals.
// Long because of its table.
//
// proves S-10
func TestToolRefused(t *testing.T) {
	fn := func() {}
	object := json.RawMessage(`{"type":"object"}`)
	for what, c := range map[string]struct {
		bad, good []Tool
		field     string
	}{
		"no function":     {[]Tool{{Name: "t", Func: 1}}, []Tool{{Name: "t", Func: fn}}, "tools[0].Func"},
		"nil":             {[]Tool{{Name: "t", Func: (func())(nil)}}, []Tool{{Name: "t", Func: fn}}, "tools[0].Func"},
		"two results":     {[]Tool{{Name: "t", Func: func() (int, int) { return 0, 0 }}}, []Tool{{Name: "t", Func: func() (int, error) { return 0, nil }}}, "tools[0].Func"},
		"channel in":      {[]Tool{{Name: "t", Func: func(chan int) {}}}, []Tool{{Name: "t", Func: func([]int) {}}}, "tools[0].Func"},
		"channel out":     {[]Tool{{Name: "t", Func: func() chan int { return nil }}}, []Tool{{Name: "t", Func: func() []int { return nil }}}, "tools[0].Func"},
		"function within": {[]Tool{{Name: "t", Func: func(struct{ F func() }) {}}}, []Tool{{Name: "t", Func: func(struct{ F int }) {}}}, "tools[0].Func"},
		"parameter name":  {[]Tool{{Name: "t", Func: func(int) {}, Params: []string{"class"}}}, []Tool{{Name: "t", Func: func(int) {}, Params: []string{"klass"}}}, "tools[0].Params"},
		"parameter twice": {[]Tool{{Name: "t", Func: func(int, int) {}, Params: []string{"a", "a"}}}, []Tool{{Name: "t", Func: func(int, int) {}, Params: []string{"a", "b"}}}, "tools[0].Params"},
		"many parameters": {[]Tool{{Name: "t", Func: fn, Params: []string{"a"}}}, []Tool{{Name: "t", Func: fn}}, "tools[0].Params"},
		"schema, wrong":   {[]Tool{{Name: "t", Func: fn, InputSchema: object}}, []Tool{{Name: "t", Func: nothing, InputSchema: object}}, "tools[0].Func"},
		"no object":       {[]Tool{{Name: "t", Func: nothing, InputSchema: json.RawMessage(`{"type":"string"}`)}}, []Tool{{Name: "t", Func: nothing, InputSchema: object}}, "tools[0].InputSchema"},
		"output, alone":   {[]Tool{{Name: "t", Func: fn, OutputSchema: object}}, []Tool{{Name: "t", Func: fn}}, "tools[0].OutputSchema"},
		"output, bad":     {[]Tool{{Name: "t", Func: nothing, InputSchema: object, OutputSchema: json.RawMessage(`{"$ref":"http://x/"}`)}}, []Tool{{Name: "t", Func: nothing, InputSchema: object, OutputSchema: object}}, "tools[0].OutputSchema"},
		"time":            {[]Tool{{Name: "t", Func: fn, TimeoutMS: -1}}, []Tool{{Name: "t", Func: fn, TimeoutMS: 1}}, "tools[0].TimeoutMS"},
		"calls":           {[]Tool{{Name: "t", Func: fn, MaxCalls: 1_000_001}}, []Tool{{Name: "t", Func: fn, MaxCalls: 1_000_000}}, "tools[0].MaxCalls"},
		"long":            {[]Tool{{Name: "t", Func: fn, Description: strings.Repeat("a", maxDescription+1)}}, []Tool{{Name: "t", Func: fn, Description: strings.Repeat("a", maxDescription)}}, "tools[0].Description"},
		"guest's name":    {[]Tool{{Name: "Promise", Func: fn}}, []Tool{{Name: "promise", Func: fn}}, "tools[0].Name"},
		"guest's space":   {[]Tool{{Name: "console.say", Func: fn}}, []Tool{{Name: "say.console", Func: fn}}, "tools[0].Name"},
		"every object's":  {[]Tool{{Name: "a.valueOf", Func: fn}}, []Tool{{Name: "a.valueOff", Func: fn}}, "tools[0].Name"},
		"prefix":          {[]Tool{{Name: "a.GloveBox_x", Func: fn}}, []Tool{{Name: "a.glove_x", Func: fn}}, "tools[0].Name"},
		"twice":           {[]Tool{{Name: "t", Func: fn}, {Name: "t", Func: fn}}, []Tool{{Name: "t", Func: fn}, {Name: "u", Func: fn}}, "tools"},
		"by case":         {[]Tool{{Name: "getUser", Func: fn}, {Name: "getuser", Func: fn}}, []Tool{{Name: "getUser", Func: fn}, {Name: "getUsers", Func: fn}}, "tools"},
		"by underscore":   {[]Tool{{Name: "a.get_user", Func: fn}, {Name: "a.getUser", Func: fn}}, []Tool{{Name: "a.getUser", Func: fn}, {Name: "b.getUser", Func: fn}}, "tools"},
		"by look":         {[]Tool{{Name: "pay", Func: fn}, {Name: "list1", Func: fn}, {Name: "listl", Func: fn}}, []Tool{{Name: "list1", Func: fn}, {Name: "list3", Func: fn}}, "tools"},
		"tool and space":  {[]Tool{{Name: "files", Func: fn}, {Name: "files.read", Func: fn}}, []Tool{{Name: "file", Func: fn}, {Name: "files.read", Func: fn}}, "tools"},
		"spaces":          {[]Tool{{Name: "Files.a", Func: fn}, {Name: "files.b", Func: fn}}, []Tool{{Name: "files.a", Func: fn}, {Name: "files.b", Func: fn}}, "tools"},
	} {
		_, err := NewCatalog(c.bad, CatalogOptions{})
		if bad, ok := errors.AsType[*api.FieldError](err); !ok || bad.Field != c.field {
			t.Errorf("%s: %v, want the field %s", what, err, c.field)
		}
		if _, err := NewCatalog(c.good, CatalogOptions{}); err != nil {
			t.Errorf("%s, the control: %v", what, err)
		}
	}
}

// TestReservedNames: names that a guest has or could fall into are refused.
//
// proves part of S-10
func TestReservedNames(t *testing.T) {
	for _, name := range []string{
		"", ".", "a.", ".a", "a..b", "a.b.c.d.e", "1a", "a-b", "a b", "a;b", "a\n", "ａ", "é", "аpple", "$", "_a", "a$", "__proto__", "a.__proto__", "__x", "a.__x", "glovebox", "GloveboxX", "a.glovebox_x",
		"constructor", "a.constructor", "then", "a.then", "a.toString", "toJSON", "valueOf", "hasOwnProperty", "class", "a.delete", "await", "eval", "arguments", "undefined", "NaN", "globalThis",
		"Object", "Object.x", "Promise", "Intl.x", "console", "console.log", "setTimeout", "WebAssembly", "catalog", "catalog.search", strings.Repeat("a", 65), "tsType.enum",
	} {
		if checkName(name) == "" {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"a", "A1", "read_file", "a.b.c.d", "tools.Object", "tools.fetch", "x.console", strings.Repeat("a", 64), "catalogue.x",
		"fetch", "http.get", "process.exit", "require", "Deno", "window", "structuredClone", "files.prototype", "type", "list.of"} {
		if why := checkName(name); why != "" {
			t.Errorf("the control %q: %s", name, why)
		}
	}
	for _, name := range []string{"a\x1b]52;c;x\a", "a\u202eb", strings.Repeat("é\n", 10_000)} {
		_, err := NewCatalog([]Tool{{Name: name, Func: func() {}}}, CatalogOptions{})
		_, unknown := catalogOf(t).NewToolSet().Admit(name, nil)
		for _, err := range []error{err, unknown} {
			if text := fmt.Sprint(err); len(text) > 400 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%.20q in an error of %d bytes: %q", name, len(text), text)
			}
		}
	}
	for server, want := range map[string]string{"get-weather": "get_weather", "files/read": "files_read", "9lives": "t_9lives", "a.b": "a.b", "é": "t_", "": "", "a\u202eb": "a_b", "_x": "t_x"} {
		if got := GuestName(server); got != want {
			t.Errorf("GuestName(%q) = %q, want %q", server, got, want)
		}
	}
}

// TestArgumentsRefused: arguments that do not fit are refused by their place, the
// tool does not run, and nothing is charged. Those that fit arrive as they are.
//
// proves part of H-54
func TestArgumentsRefused(t *testing.T) {
	var got []record
	c := catalogOf(t, Tool{Name: "put", Func: func(r record, _ ...int) { got = append(got, r) }}, Tool{Name: "none", Func: func() {}})
	s := c.NewToolSet()
	ok := map[string]any{"name": "n"}
	for what, args := range map[string][]any{
		"missing":       {},
		"undefined":     {js.Undefined},
		"null":          {nil},
		"other kind":    {"x"},
		"unknown":       {map[string]any{"name": "n", "nam": 1}},
		"other case":    {map[string]any{"name": "n", "Name": "evil"}},
		"long s":        {map[string]any{"name": "n", "tagſ": []any{}}},
		"Kelvin":        {map[string]any{"name": "n", "s\u212aip": 1}},
		"NUL behind":    {map[string]any{"name\x00": "n"}},
		"prototype":     {map[string]any{"__proto__": map[string]any{}}},
		"unexported":    {map[string]any{"skip": 1}},
		"wrong within":  {map[string]any{"more": map[string]any{"a": map[string]any{"deep": 1.5}}}},
		"not whole":     {map[string]any{"deep": 0.5}},
		"date as text":  {map[string]any{"at": "2026-01-01"}},
		"rest of kinds": {ok, 1, "x"},
	} {
		_, err := call(t, s, "put", args...)
		if !errors.Is(err, ToolArguments) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := call(t, s, "none", 1); !errors.Is(err, ToolArguments) {
		t.Errorf("surplus: %v", err)
	}
	if len(got) != 0 || len(s.State().Calls) != 0 {
		t.Errorf("ran %d times, charged %v", len(got), s.State().Calls)
	}
	if _, err := call(t, s, "put", ok, 1, 2); err != nil || len(got) != 1 || got[0].Name != "n" {
		t.Errorf("the control: %v, %+v", err, got)
	}
	// The control of exact names: encoding/json takes the second.
	var folded record
	if err := json.Unmarshal([]byte(`{"name":"n","NAME":"evil"}`), &folded); err != nil || folded.Name != "evil" {
		t.Errorf("the control: %v, %+v", err, folded)
	}
	_ = record{}.skip
}

// TestToolEnds: a tool that fails in whatever way is an error of its kind, and
// the guest is told nothing of the host.
//
// proves part of S-05
func TestToolEnds(t *testing.T) {
	left := make(chan struct{})
	defer close(left)
	own := errors.New("secret path /etc")
	c := catalogOf(t,
		Tool{Name: "panics", Func: func() { panic("secret") }},
		Tool{Name: "nilmap", Func: func() { emptyMap["a"] = 1 }},
		Tool{Name: "exits", Func: func() { runtime.Goexit() }},
		Tool{Name: "blocks", Func: func() { <-left }, TimeoutMS: 50},
		Tool{Name: "heeds", Func: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, TimeoutMS: 50},
		Tool{Name: "fails", Func: func() (int, error) { return 0, own }},
		Tool{Name: "tells", Func: func() error { return &js.GuestError{Name: "NoSuchUser", Message: "no such user"} }},
		Tool{Name: "odd", Func: func() any { return make(chan int) }},
		Tool{Name: "cycle", Func: func() any { m := map[string]any{}; m["m"] = m; return m }},
		Tool{Name: "fine", Func: func() int { return 1 }},
	)
	s := c.NewToolSet()
	for name, kind := range map[string]error{
		"panics": ToolPanicked, "nilmap": ToolPanicked, "exits": ToolPanicked, "blocks": ToolTimeout, "heeds": ToolTimeout, "fails": own, "odd": ToolResult, "cycle": ToolResult,
	} {
		_, err := call(t, s, name)
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", name, err, kind)
		}
		if seen, ok := errors.AsType[*js.GuestError](err); ok && (strings.Contains(seen.Message, "secret") || strings.Contains(seen.Message, "assignment")) {
			t.Errorf("%s: the guest sees %q", name, seen.Message)
		}
		if s.State().Calls[name] != 1 {
			t.Errorf("%s is not charged", name)
		}
	}
	_, err := call(t, s, "tells")
	if seen, ok := errors.AsType[*js.GuestError](err); !ok || seen.Name != "NoSuchUser" {
		t.Errorf("tells: %v", err)
	}
	if v, err := call(t, s, "fine"); v != 1.0 || err != nil {
		t.Errorf("the control: %v, %v", v, err)
	}
	admitted, err := s.Admit("heeds", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := admitted.Run(ctx); !errors.Is(err, ToolCanceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if _, err := admitted.Run(t.Context()); !errors.Is(err, ToolUnknown) {
		t.Errorf("run twice: %v", err)
	}
}

// Shapes say what Decode takes and ValueOf gives, for every kind of type.
func TestShapes(t *testing.T) {
	var s js.Shapes
	for _, c := range []struct {
		typ     reflect.Type
		in, out js.ShapeKind
	}{
		{reflect.TypeFor[int8](), js.ShapeNumber, js.ShapeNumber}, {reflect.TypeFor[string](), js.ShapeString, js.ShapeString},
		{reflect.TypeFor[[]int](), js.ShapeArray, js.ShapeNullable}, {reflect.TypeFor[[3]byte](), js.ShapeBytes, js.ShapeArray},
		{reflect.TypeFor[*int](), js.ShapeNullable, js.ShapeNullable}, {reflect.TypeFor[error](), js.ShapeError, js.ShapeError},
		{reflect.TypeFor[json.RawMessage](), js.ShapeAny, js.ShapeAny}, {reflect.TypeFor[big.Float](), js.ShapeString, js.ShapeString},
		{reflect.TypeFor[js.Map](), js.ShapeMap, js.ShapeMap}, {reflect.TypeFor[time.Duration](), js.ShapeNumber, js.ShapeNumber},
	} {
		in, err := s.Argument(c.typ)
		if err != nil || in.Kind != c.in {
			t.Errorf("%s in: %+v, %v", c.typ, in, err)
		}
		out, err := s.Result(c.typ)
		if err != nil || out.Kind != c.out {
			t.Errorf("%s out: %+v, %v", c.typ, out, err)
		}
	}
}
