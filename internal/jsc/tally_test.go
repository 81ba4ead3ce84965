package jsc

import (
	"math"
	"testing"
)

func init() { children["tally"] = onContext(tallied) }

// A Tally adds up what lives and keeps nothing alive, nor does it let go of
// what any handle of the same memory still holds, given the keepers of the
// worker's script.
//
// proves part of G-06
func TestTally(t *testing.T) {
	var found []string
	ask(t, &found, "tally", "")
	for _, f := range found {
		t.Error(f)
	}
}

// holders are ways to hold the memory of an object that is tracked, and what is
// left of a hundred of them while they are held.
var holders = map[string]float64{
	"track({}, 5000)": 100, "track(new Uint8Array(5000), 5000)": 100, "track(new ArrayBuffer(5000), 5000)": 100,
	"keep(track(new Uint8Array(5000), 5000))":                                           100,
	"keep(track(new Uint8Array(50), 5000))":                                             100,
	"new DataView(keep(track(new Uint8Array(5000), 5000)))":                             100,
	"sub(track(new Uint8Array(50), 5000)).subarray(1)":                                  100,
	"new Uint8Array(track(new ArrayBuffer(5000), 5000)).subarray(2)":                    100,
	"new Uint8Array(passed(track(new ArrayBuffer(5000), 5000)))":                        100,
	"track(new Uint8Array(5000), 5000).buffer":                                          0, // the control: without its keeper it is lost
	"void track(new Uint8Array(5000), 5000)":                                            0,
	"(a => [track(a, 2000), track(a, 3000)])(new Uint8Array(9))":                        100,
	"((a, b) => (keepers.set(b, a), keepers.set(a, b)))(track({}, 5000), {}) && 1 || 0": 0,
}

func tallied(c *Context, p *problems) {
	t, err := c.NewTally()
	if err != nil {
		p.addf("%v", err)
		return
	}
	p.bind(c, "add", t.Add)
	p.bind(c, "sweep", t.Sweep)
	_, _ = c.Call(p.eval(c, "(s) => { globalThis.shared = s }"), nil, t.Shared())
	p.eval(c, `const keepers = new WeakMap(), over = []
	function track(o, n) { shared[0] = n; shared[32] = 1; add(o); return o }
	function keep(v) { const b = v.buffer; keepers.set(b, v); return b }
	function sub(v) { const s = v.subarray(1); keepers.set(s.buffer, v); return s }
	function passed(b) { const a = b.transfer(); keepers.set(a, b); return a }
	function total() { (function deep(n) { if (n) { let a = [n], b = [a]; deep(n - 1) } })(300); shared[32] = 1; sweep(); return shared[33] / 5000 }
	function hold(f) { const all = []; (function () { for (let i = 0; i < 100; i++) all.push(f()) })(); const held = total(); all.length = 0; total(); return String([held, total()]) }`)
	for code, want := range holders {
		got, _ := p.eval(c, "hold(() => "+code+")").Text()
		if want == 100 {
			p.want(code, got, "100,0")
		} else {
			p.want(code, got, "0,0")
		}
	}
	// Small ones are right on average: half of 64,000 are kept.
	p.eval(c, `var half = []; { let all = [], n = 0
		for (let i = 0; i < 64000; i++) { const o = {}; if (i & 1) half.push(o); all.push(o); shared[n++] = 500
			if (n === 32) { shared[32] = n; add(...all); all = []; n = 0 } } }`)
	v, err := p.eval(c, "total()").Number()
	if err != nil || math.Abs(v-3200) > 320 {
		p.addf("32,000 small objects of 500 bytes count as %v of 5,000 bytes, %v", v, err)
	}
	if n := len(t.refs); n > 2100 {
		p.addf("%d entries", n)
	}
	p.eval(c, "half.length = 0")
	p.eval(c, "total()")
	p.want("afterwards", p.text(c, "total()"), "0")
	p.want("a call of other arguments", p.text(c, "(() => { shared[32] = 2; try { add({}) } catch (e) { return e.message } })()"), "jsc: a tally of other arguments")
}

// text evaluates what gives a string.
func (p *problems) text(c *Context, source string) string {
	s, _ := p.eval(c, "String("+source+")").Text()
	return s
}
