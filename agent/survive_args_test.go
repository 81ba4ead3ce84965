package agent

import (
	"math/big"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// monsters are arguments that nobody would make. Each is given to a tool that gives
// it back; "is" tells of what comes back, and must be what is written there.
var monsters = []struct{ arg, is, want string }{
	{"'x'.repeat(40 << 20)", "", "tool not called: RangeError"},
	{"'x'.repeat(8 << 20)", "v.length", "8388608"},
	{"'é'.repeat(4 << 20) + '漢'", "v.length + v.at(-1)", `"4194305漢"`},
	{"deep(100000)", "", "tool not called: RangeError"},
	{"deep(100)", "let n = 0; while (Array.isArray(v)) { v = v[0]; n++ } n", "100"},
	{"Array.from({length: 2000000}, () => 1)", "", "tool not called: RangeError"},
	{"(() => { const a = []; a.push(a); return a })()", "", "tool not called: TypeError"},
	{"(() => { const o = {}; o.o = {p: o}; return o })()", "", "tool not called: TypeError"},
	{"(() => { const m = new Map(); m.set(1, m); return m })()", "", "tool not called: TypeError"},
	{"(() => { const a = [1]; return [a, a, {a}] })()", "[v[0] === v[1], v[2].a[0]]", "[false,1]"},
	{"Symbol('s')", "", "tool not called: TypeError"},
	{"Symbol.iterator", "", "tool not called: TypeError"},
	{"{[Symbol('k')]: 1, a: 2}", "[Object.getOwnPropertySymbols(v).length, v.a]", "[0,2]"},
	{"() => 1", "", "tool not called: TypeError"},
	{"class K {}", "", "tool not called: TypeError"},
	{"[async () => {}]", "", "tool not called: TypeError"},
	{"{f() {}}", "", "tool not called: TypeError"},
	{"echo", "", "tool not called: TypeError"},
	{"Promise.resolve(1)", "", "tool not called: TypeError"},
	{"new WeakMap()", "", "tool not called: TypeError"},
	{"/x/g", "", "tool not called: TypeError"},
	{"globalThis", "", "tool not called: TypeError"},
	{"new Proxy({a: 1}, {get() { throw new Error('mine') }})", "v", `{"a":1}`},
	{"new Proxy({a: 1}, {ownKeys() { throw new Error('mine') }})", "v", `{"a":1}`},
	{"new Proxy([1], {getPrototypeOf() { throw 1 }})", "v", "[1]"},
	{"(() => { const p = Proxy.revocable({}, {}); p.revoke(); return p.proxy })()", "", "tool not called: TypeError"},
	{"{get a() { throw new RangeError('mine') }}", "", "tool not called: TypeError"},
	{"{get a() { return {get b() { throw 'text' }} }}", "", "tool not called: TypeError"},
	{"{set a(v) {}}", "", "tool not called: TypeError"},
	{"{toJSON() { return 1 }}", "", "tool not called: TypeError"},
	{`JSON.parse('{"__proto__": {"x": 1}, "constructor": 2, "a": 3}')`, "[Object.keys(v), v.x, Object.hasOwn(v, '__proto__'), ({}).x]", `[["__proto__","constructor","a"],null,true,null]`},
	{"Object.assign(Object.create({inherited: 1}), {own: 2})", "Object.keys(v)", `["own"]`},
	{"Object.create(null, {a: {value: 1, enumerable: true}, b: {value: 2}})", "Object.keys(v)", `["a"]`},
	{"10n ** 5000n", "v === 10n ** 5000n", "true"},
	{"-(2n ** 64n)", "v", "-18446744073709551616n"},
	{"1n << 200000n", "v === 1n << 200000n", "true"},
	{"new Date(8640000000000000)", "v.getTime()", "8640000000000000"},
	{"new Date(NaN)", "[v instanceof Date, Number.isNaN(v.getTime())]", "[true,true]"},
	{"new Date(-8640000000000000)", "v.getTime()", "-8640000000000000"},
	{`'\ud800'`, "v.charCodeAt(0)", "55296"},
	{`'a\udc00\ud800b'`, "v.length + '' + v.charCodeAt(1) + v.charCodeAt(2)", `"45632055296"`},
	{`{'\ud800': 1, '\udc00x': 2}`, "Object.keys(v).map(k => k.charCodeAt(0))", "[55296,56320]"},
	{"new Map([[NaN, -0], [{a: 1}, new Set([new Map()])], [new Date(0), undefined]])", "[v.size, Object.is(v.get(NaN), -0), [...v.values()][1] instanceof Set]", "[3,true,true]"},
	{"new Set([1, '1', 1n, [1], new Set([[]]), null, undefined, NaN])", "[v.size, v.has(1n), v.has(NaN), v.has(undefined)]", "[8,true,true,true]"},
	{"new Map([[Symbol(), 1]])", "", "tool not called: TypeError"},
	{"new Set([() => 1])", "", "tool not called: TypeError"},
	{"[1, , 3]", "[v.length, 1 in v]", "[3,false]"},
	{"Object.assign([1], {extra: 2})", "[v.length, v.extra]", "[1,null]"},
	{"new Uint8Array(4 << 20).fill(7)", "[v.length, v[4194303], v.constructor.name]", `[4194304,7,"Uint8Array"]`},
	{"new Float64Array([NaN, -0, 1e308])", "[v.constructor.name, Object.is(v[1], -0)]", `["Float64Array",true]`},
	{"new ArrayBuffer(8)", "v.byteLength", "8"},
	{"new TypeError('t', {cause: {a: 1}})", "[v instanceof TypeError, v.message]", `[true,"t"]`},
	{"Object.assign(new Error('e'), {name: 'toString'})", "[v instanceof Error, v.message]", `[true,"e"]`},
	{"new String('s')", "typeof v", `"string"`},
	{"-0", "Object.is(v, -0)", "true"},
	{"undefined", "v === undefined", "true"},
	{"arguments", "v", "{}"},
	{"Object.fromEntries(Array.from({length: 100000}, (_, i) => ['k' + i, i]))", "Object.keys(v).length", "100000"},
	{"{['k'.repeat(1 << 20)]: 1}", "Object.keys(v)[0].length", "1048576"},
	{`'\u0000\u2028\u202e\ufeff\uffff'`, `v === '\u0000\u2028\u202e\ufeff\uffff'`, "true"},
}

// TestSurviveArguments: monsters from a feed to a tool and back, exactly; the session
// goes on, and its replay comes to the same.
//
// proves S-15
func TestSurviveArguments(t *testing.T) {
	p := newPool(t, Options{Limits: Limits{FeedMS: 60_000, JournalBytes: 512 << 20, Bytes: 1 << 30, MemoryBytes: 2 << 30}})
	calls := 0
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "echo", Func: func(v js.Value) js.Value { calls++; return v }},
		Tool{Name: "typed", Func: func(v struct{ A *big.Int }) string { return v.A.String() }})})
	fed(s, "globalThis.deep = n => { let a = []; for (let i = 1; i < n; i++) a = [a]; return a }; globalThis.all = []; 0")
	for _, m := range monsters {
		before := calls
		got := fed(s, "return await (async function () { let v; try { v = await echo("+m.arg+") } catch (e) { all.push(String(e)); return 'tool not called: ' + (e?.name ?? e) } const r = (v => { "+asBody(m.is)+" })(v); all.push(r); return r })()")
		want := m.want
		if strings.HasPrefix(want, "tool not called") {
			want = `"` + want + `"`
		}
		if got != want || strings.Contains(want, "not called") != (calls == before) {
			t.Errorf("%s: %s, not %s", m.arg, got, want)
		}
		if again := fed(s, "20 + 1"); again != "21" {
			t.Fatalf("%s: afterwards %s", m.arg, again)
		}
	}
	l := reloaded(t, s, p)
	if a, b := fed(s, "all"), fed(l, "all"); a != b || len(a) < 1000 {
		t.Errorf("%s\n%s", a, b)
	}
}

func asBody(is string) string {
	if i := strings.LastIndex(is, "} n") + 1; i > 0 {
		return is[:i] + " return " + is[i:]
	}
	return "return " + is
}
