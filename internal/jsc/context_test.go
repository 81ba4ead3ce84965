package jsc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ebitengine/purego"
)

func init() {
	children["values"] = onContext(values)
	children["calls"] = onContext(calls)
	children["limit"] = onContext(limit)
	children["switches"] = onContext(switches)
	children["proxies"] = onContext(proxies)
	children["thread"] = onContext(thread)
	children["goexit"] = onContext(goexit)
	children["deep"] = onContext(deep)
}

// problems collects what a child found wrong.
type problems []string

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// want compares what was got with what was wanted.
func (p *problems) want(what string, got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.addf("%s: got %v, want %v", what, got, want)
	}
}

// bind makes a function of ours a global of the guest.
func (p *problems) bind(c *Context, name string, h Handler) {
	f, err := c.NewFunction(h)
	if err != nil {
		p.addf("%v", err)
		return
	}
	if _, err := c.Call(p.eval(c, "(f) => { globalThis."+name+" = f }"), nil, f); err != nil {
		p.addf("%v", err)
	}
}

func onContext(f func(c *Context, p *problems)) func(string) (any, error) {
	return func(string) (any, error) {
		c, err := start(Options{}, "JSC_slowPathAllocsBetweenGCs=50")
		if err != nil {
			return nil, err
		}
		p := problems{}
		f(c, &p)
		return p, nil
	}
}

// eval evaluates what must not throw.
func (p *problems) eval(c *Context, source string) *Value {
	v, err := c.Evaluate(source, "test.js", 1)
	if err != nil {
		p.addf("%s: %v", source, say(c, err))
		return c.Undefined()
	}
	return v
}

func checkChild(t *testing.T, name string) {
	t.Helper()
	var p problems
	ask(t, &p, name, "")
	for _, s := range p {
		t.Error(s)
	}
}

// TestValues: every kind of value both ways, strings by their code units and
// bytes by one copy.
func TestValues(t *testing.T) { checkChild(t, "values") }

func values(c *Context, p *problems) {
	for source, want := range map[string]Type{
		"undefined": Undefined, "null": Null, "true": Boolean, "1.5": Number, "'s'": String,
		"({})": Object, "[]": Object, "(()=>1)": Object, "Symbol()": Symbol, "10n": BigInt,
	} {
		p.want("type of "+source, p.eval(c, source).Type(), want)
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1.5, math.MaxFloat64, math.Inf(-1), math.NaN(), 1 << 53} {
		got, err := c.Number(f).Number()
		if same := math.Float64bits(got) == math.Float64bits(f) || got != got && f != f; !same || err != nil {
			p.addf("number %v became %v, %v", f, got, err)
		}
	}
	isTrue, err := p.eval(c, "1 < 2").Bool()
	p.want("bool", fmt.Sprint(isTrue, err), "true <nil>")
	for _, units := range [][]uint16{nil, {'a'}, {0}, {0xe9, 0xff}, {0xd800}, {0xdc00, 0xd800}, {0xd83d, 0xde00}, slices.Repeat([]uint16{0x3b1}, 100_000)} {
		v := c.String(units)
		got, err := v.Units()
		if err != nil || !slices.Equal(got, units) {
			p.addf("units %v became %v, %v", units[:min(len(units), 3)], got[:min(len(got), 3)], err)
		}
		b, err := v.UTF16()
		again, err2 := c.UTF16(b).Units()
		if err := errors.Join(err, err2); err != nil || len(b) != 2*len(units) || !slices.Equal(again, units) {
			p.addf("units %v as bytes, %v", units[:min(len(units), 3)], err)
		}
	}
	for latin, want := range map[string]string{"": "", "plain": "plain", "nul\x00": "nul\x00", "\xe9\xff": "éÿ"} {
		got, err := c.Latin1([]byte(latin)).Text()
		p.want("latin", got+fmt.Sprint(err), want+"<nil>")
	}
	text, err := p.eval(c, "'a\\ud83d\\ude00'.repeat(2)").Text()
	p.want("text", fmt.Sprint(text, err), "a😀a😀<nil>")
	bytesBothWays(c, p)
	for what, err := range map[string]error{
		"number": second(p.eval(c, "({valueOf() { throw 1 }})").Number()), "text": second(p.eval(c, "({toString() { throw 1 }})").Text()),
		"bool": second(p.eval(c, "1").Bool()), "bytes": second(p.eval(c, "[1]").Bytes()),
	} {
		if !errors.Is(err, ErrType) {
			p.addf("%s of another type: %v", what, err)
		}
	}
}

// bytesBothWays is the part of values about typed arrays and buffers.
func bytesBothWays(c *Context, p *problems) {
	for kind, w := range width {
		in := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 1000)
		v, err := c.Array(kind, in)
		if err != nil {
			p.addf("kind %d: %v", kind, err)
			continue
		}
		p.want("kind", v.Kind(), kind)
		out, err := v.Bytes()
		if err != nil || !bytes.Equal(in, out) {
			p.addf("kind %d of %d bytes: %d bytes back, %v", kind, w, len(out), err)
		}
		if _, err := c.Array(kind, in[:w-1]); w > 1 && err == nil {
			p.addf("kind %d takes a part of an element", kind)
		}
	}
	part, err := p.eval(c, "new Uint16Array(new Uint8Array([9,8,7,6,5,4,3,2]).buffer, 2, 2)").Bytes()
	p.want("an array within its buffer", fmt.Sprint(part, err), "[7 6 5 4] <nil>")
	whole, err := p.eval(c, "new Uint8Array([9,8,7]).buffer").Bytes()
	p.want("a buffer", fmt.Sprint(whole, err), "[9 8 7] <nil>")
	empty, err := p.eval(c, "new Uint8Array(0)").Bytes()
	p.want("an empty array", fmt.Sprint(empty, err), "[] <nil>")
	gone, err := p.eval(c, "var b = new Uint8Array([1,2,3]); b.buffer.transfer && b.buffer.transfer(); b").Bytes()
	p.want("a detached array", fmt.Sprint(gone, err), "[] <nil>")
}

func second[T any](_ T, err error) error { return err }

// TestCalls: arguments, results, errors, panics and thrown values go through
// host functions in both directions, and a call's arguments end with it.
func TestCalls(t *testing.T) { checkChild(t, "calls") }

func calls(c *Context, p *problems) {
	var kept *Value
	functions := map[string]Handler{
		"add": func(k *Call) (*Value, error) {
			sum := 0.0
			for i := range k.Len() {
				n, err := k.Arg(i).Number()
				if err != nil {
					return nil, err
				}
				sum += n
			}
			return c.Number(sum), nil
		},
		"fail":    func(*Call) (*Value, error) { return nil, errors.New("refused: é") },
		"crash":   func(*Call) (*Value, error) { panic("the text of a panic is nobody's business") },
		"through": func(k *Call) (*Value, error) { return c.Call(k.Arg(0), nil, k.Arg(1)) },
		"same":    func(k *Call) (*Value, error) { kept = k.Arg(0); return kept, nil },
		"late":    func(*Call) (*Value, error) { return kept, nil },
		"none":    func(k *Call) (*Value, error) { return k.Arg(100), nil },
		"nothing": func(*Call) (*Value, error) { return nil, nil },
	}
	for name, h := range functions {
		p.bind(c, name, h)
	}
	for _, one := range [][2]string{
		{"add(1, 2, 3.5)", "6.5"}, {"add()", "0"}, {"add(...Array(300).fill(2))", "600"},
		{"try { fail() } catch (e) { e.name + ': ' + e.message }", "Error: refused: é"},
		{"try { crash() } catch (e) { e.name + ': ' + e.message }", "Error: host function panicked"},
		{"try { through(x => { throw x }, 'thrown') } catch (e) { e }", "thrown"},
		{"through(x => through(y => add(y, 1), x + 1), 1)", "3"},
		{"var o = {}; same(o) === o", "true"},
		{"try { late() } catch (e) { e.message }", "host function panicked"},
		{"typeof none() + typeof nothing()", "undefinedundefined"},
		{"Object.getOwnPropertyNames(add).length + typeof add", "0function"},
		{"[3, 1, 2].sort((a, b) => add(a, -b)).join()", "1,2,3"},
		{"try { new add() } catch (e) { e instanceof TypeError }", "true"},
		{"try { null.x } catch (e) { e.stack.includes('test.js') }", "true"},
		{"Promise.resolve().then(() => { globalThis.done = add(1, 1) }), ''", ""},
	} {
		source, want := one[0], one[1]
		text, err := p.eval(c, "String(("+"() => { "+returning(source)+" })())").Text()
		p.want(source, fmt.Sprint(text, err), want+"<nil>")
	}
	done, err := p.eval(c, "done").Number()
	p.want("jobs have run", fmt.Sprint(done, err), "2 <nil>")
	_, err = c.Evaluate("throw {answer: 42}", "t.js", 1)
	var thrown *Exception
	if !errors.As(err, &thrown) || thrown.Value.Type() != Object {
		p.addf("thrown: %v", err)
	}
	p.want("panics", c.Panics() >= 2, true)
	if _, err := c.Evaluate("1 +", "bad.js", 7); !errors.As(err, &thrown) {
		p.addf("bad syntax: %v", err)
	}
}

// returning makes the body of a function that returns the last expression.
func returning(source string) string {
	if i := bytes.LastIndexByte([]byte(source), ';'); i >= 0 {
		return source[:i+1] + "return " + source[i+1:]
	}
	if len(source) > 3 && source[:3] == "try" {
		return "return eval(" + fmt.Sprintf("%q", source) + ")"
	}
	return "return " + source
}

// TestLimit: the time limit asks, ends an endless loop, and leaves a context
// that works; without its question it ends by itself.
func TestLimit(t *testing.T) { checkChild(t, "limit") }

func limit(c *Context, p *problems) {
	asked := 0
	c.SetTimeLimit(20*time.Millisecond, func() bool { asked++; return asked == 3 })
	for _, loop := range []string{"for (;;);", "try { for (;;); } catch (e) {} finally { for (;;); }"} {
		asked = 0
		begun := time.Now()
		_, err := c.Evaluate(loop, "loop.js", 1)
		if !errors.Is(err, ErrTerminated) || asked < 3 {
			p.addf("%s: %v, asked %d times", loop, err, asked)
		}
		if time.Since(begun) > 20*time.Second {
			p.addf("%s: took %v", loop, time.Since(begun))
		}
		got, err := p.eval(c, "1 + 1").Number()
		p.want("afterwards", fmt.Sprint(got, err), "2 <nil>")
	}
	c.SetTimeLimit(20*time.Millisecond, nil)
	if _, err := c.Evaluate("for (;;);", "loop.js", 1); !errors.Is(err, ErrTerminated) {
		p.addf("without a question: %v", err)
	}
	c.SetTimeLimit(20*time.Millisecond, func() bool { panic("asked") })
	if _, err := c.Evaluate("for (;;);", "loop.js", 1); !errors.Is(err, ErrTerminated) && err == nil {
		p.addf("a question that panics: %v", err)
	}
	c.SetTimeLimit(0, nil)
	if _, err := c.Evaluate("var end = Date.now() + 100; while (Date.now() < end);", "loop.js", 1); err != nil {
		p.addf("no limit: %v", err)
	}
}

// TestSwitches: eval can be switched off, and rejections that nobody handles
// are reported.
func TestSwitches(t *testing.T) { checkChild(t, "switches") }

func switches(c *Context, p *problems) {
	const try = "(() => { try { return String(eval('1+1')) + new Function('return 3')() } catch (e) { return e.name + e.message } })()"
	for _, want := range []string{"23", "EvalErrorno eval", "23"} {
		c.SetEval(want == "23", "no eval")
		text, err := p.eval(c, try).Text()
		p.want("eval", fmt.Sprint(text, err), want+"<nil>")
	}
	report := p.eval(c, "var seen = []; (promise, reason) => { seen.push(reason) }")
	if err := c.OnUnhandledRejection(report); err != nil {
		p.addf("%v", err)
	}
	p.eval(c, "Promise.reject('nobody'); Promise.reject('somebody').catch(() => {})")
	text, err := p.eval(c, "seen.join()").Text()
	p.want("rejections", fmt.Sprint(text, err), "nobody<nil>")
	text, err = p.eval(c, "typeof WebAssembly + typeof SharedArrayBuffer + typeof ShadowRealm + typeof $vm + new Date(0).getTimezoneOffset() + new Intl.DateTimeFormat().resolvedOptions().timeZone").Text()
	p.want("absent", fmt.Sprint(text, err), "undefinedundefinedundefinedundefined0UTC<nil>")
}

// TestProxies: a proxy's target is told without running a trap. The control is
// the C API's enumeration, which runs two.
//
// proves part of H-51
func TestProxies(t *testing.T) { checkChild(t, "proxies") }

func proxies(c *Context, p *problems) {
	p.eval(c, `var traps = 0, handler = new Proxy({}, { get(_, name) { traps++; } }), target = {x: 1};
		var one = new Proxy(target, handler), two = new Proxy(one, handler), gone = Proxy.revocable({}, {}); gone.revoke();
		var child = Object.create(one, {y: {value: 2, enumerable: true}});`)
	same := p.eval(c, "(a, b) => a === b")
	for _, want := range []string{"one", "target"} {
		at := p.eval(c, "two")
		if want == "target" {
			at = p.eval(c, "one")
		}
		inner, is := c.ProxyTarget(at)
		if !is {
			p.addf("no target, want %s", want)
			return
		}
		equal, err := c.Call(same, nil, inner, p.eval(c, want))
		if err != nil {
			p.addf("%v", err)
			return
		}
		b, err := equal.Bool()
		p.want(want, fmt.Sprint(b, err), "true <nil>")
	}
	if _, is := c.ProxyTarget(p.eval(c, "gone.proxy")); !is {
		p.addf("a revoked proxy is none")
	}
	for _, none := range []string{"target", "child", "1", "({})"} {
		if _, is := c.ProxyTarget(p.eval(c, none)); is {
			p.addf("%s is a proxy", none)
		}
	}
	n, err := p.eval(c, "traps").Number()
	p.want("traps", fmt.Sprint(n, err), "0 <nil>")
	names, err := purego.Dlsym(c.handle, "JSObjectCopyPropertyNames")
	if err != nil {
		p.addf("%v", err)
		return
	}
	call(names, c.ref, p.eval(c, "child").word())
	n, err = p.eval(c, "traps").Number()
	p.want("the control's traps", fmt.Sprint(n > 0, err), "true <nil>")
}

// TestThread: another thread's call panics before it reaches the engine.
func TestThread(t *testing.T) { checkChild(t, "thread") }

func thread(c *Context, p *problems) {
	done := make(chan any)
	v := c.Number(1)
	for what, f := range map[string]func(){
		"evaluate": func() { _, _ = c.Evaluate("1", "a.js", 1) }, "call": func() { _, _ = c.Call(v, nil) }, "collect": c.Collect,
		"time limit": func() { c.SetTimeLimit(0, nil) },
	} {
		go func() {
			runtime.LockOSThread()
			defer func() { done <- recover() }()
			f()
		}()
		if <-done == nil {
			p.addf("%s from another thread went through", what)
		}
	}
	v.Release()
	v.Release() // nothing happens
	defer func() {
		if recover() == nil {
			p.addf("a released value can be used")
		}
	}()
	v.Type()
}

// TestGoexit: a callback that ends its goroutine ends the process, and not with
// a signal: nothing has unwound the engine's frames.
func TestGoexit(t *testing.T) {
	e := run(t, "goexit", "")
	if e.err == nil || e.err.Error() != "exit status 3" || e.log != "jsc: a callback ended its goroutine\n" {
		t.Errorf("ended with %v, %q, %q", e.err, e.log, e.out)
	}
}

func goexit(c *Context, p *problems) {
	p.bind(c, "leave", func(*Call) (*Value, error) { runtime.Goexit(); return nil, nil })
	_, err := c.Evaluate("leave()", "leave.js", 1)
	p.addf("came back: %v", err)
}

// TestDeep: a recursion without end is a RangeError, also when each step goes
// through the host, and the context works afterwards.
func TestDeep(t *testing.T) { checkChild(t, "deep") }

func deep(c *Context, p *problems) {
	p.bind(c, "host", func(k *Call) (*Value, error) { return c.Call(k.Arg(0), nil, k.Arg(1)) })
	for _, source := range []string{
		"var n = 0; function f() { n++; f() }; try { f() } catch (e) { e.name }",
		"var n = 0; function g() { n++; host(g) }; try { g() } catch (e) { e.name }",
		"var n = 0; function h() { n++; [1].map(() => host(h, {})) }; try { h() } catch (e) { e.name }",
		"try { JSON.parse('['.repeat(200000)) } catch (e) { 'RangeError' }",
		"try { new RegExp('('.repeat(200000)) } catch (e) { 'RangeError' }",
		"try { eval('('.repeat(200000)) } catch (e) { 'RangeError' }",
	} {
		text, err := p.eval(c, source).Text()
		p.want(source, fmt.Sprint(text, err), "RangeError<nil>")
		n, err := p.eval(c, "n").Number()
		if err != nil || n < 100 {
			p.addf("%s: depth %v, %v", source, n, err)
		}
	}
	got, err := p.eval(c, "host(x => x + 1, 1)").Number()
	p.want("afterwards", fmt.Sprint(got, err), "2 <nil>")
}
