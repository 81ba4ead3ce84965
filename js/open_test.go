package js_test

import (
	"errors"
	"github.com/glovebox-dev/glovebox/js"
	"testing"
	"time"
)

func TestOpenTry(t *testing.T) {
	for _, code := range []string{
		"new Array(2 ** 32 - 1).fill(0)", "let o = []; o[2 ** 32 - 2] = 1; o.sort()", "let o = []; o[2 ** 32 - 2] = 1; o.join()", `"x".repeat(2 ** 30).repeat(4)`, `"x".repeat(2 ** 29).padStart(2 ** 30).at(0)`, `for (let s = "x"; ; ) s += s`, `const k = []; for (let s = "x"; ; s += s.length) k.push(s.padEnd(1 << 20, s + k.length))`, "2n ** (2n ** 20n)", "let n = 3n; for (;;) n *= n", "const k = []; for (;;) k.push(3n ** 100000n)",
		"Array.from({ length: 2 ** 28 })", "[...'.'.repeat(5e8)]", "[...Array(2 ** 27).keys()]", "const k = []; for (;;) k.push(JSON.stringify(k))", "JSON.parse('[' + '1,'.repeat(2 ** 27) + '1]')", "/(?:)/g[Symbol.replace]('x'.repeat(2 ** 25), 'y'.repeat(64))", "'x'.repeat(2 ** 25).split('')", "'x'.repeat(2 ** 24).match(/./g)",
		"const m = new Map; for (let i = 0; ; i++) m.set(i, i)", "const m = new Set; for (let i = 0; ; i++) m.add(i)", "const o = {}; for (let i = 0; ; i++) o['k' + i] = i", "const k = []; for (;;) k.push({})", "const k = []; for (;;) k.push(() => k)", "const k = [1]; for (;;) k.push(...k)", "let k = [1]; for (;;) k = k.concat(k)", "[].concat.apply([], Array(1e4).fill(Array(1e5).fill(1)))", "[].toSpliced.call(new Uint8Array(1 << 23)).map(x => [x])",
		"let e = []; for (;;) e.push(new Error('x'.repeat(1e4)))", "const f = () => f.bind(); const k = []; for (;;) k.push(Symbol('x' + k.length))", "structured = []; for (let i = 0;; i++) structured.push(new RegExp('a{' + i % 1000 + '}b' + i))", "const k = []; for (;;) k.push(new Promise(() => {}))", "const p = []; for (;;) p.push(Promise.resolve().then(() => 1))", "function* g() { yield* g() } [...g()]", "const k = []; for (;;) k.push(new Intl.NumberFormat('en', {minimumFractionDigits: k.length % 10}))", "const k = []; for (let i = 0; ; i++) k.push(new Function('return ' + i))", "const k = []; for (let i = 0; ; i++) k.push(('a' + i).normalize('NFD').toUpperCase())",
	} {
		rt := open(t, js.Options{Limits: js.Limits{MemoryBytes: 96 << 20, TimeoutMS: 10_000, HardMS: 20_000}})
		t0 := time.Now()
		v, err := rt.Eval(ctx, "{"+code+"; 0 }")
		var e *js.Error
		errors.As(err, &e)
		if e != nil {
			t.Logf("%-100s %s %s %s %v", code, e.Kind, e.Name, e.Message, time.Since(t0))
		} else {
			t.Logf("%-80s %v %v", code, v, time.Since(t0))
		}
		rt.Close()
	}
}
