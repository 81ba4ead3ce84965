package js_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// memoryRow is a row of the tables of docs/javascript.md: a program, and what it
// comes to.
type memoryRow struct{ code, want string }

var codeOf = regexp.MustCompile("`([^`]+)`")

// memoryRows reads the section Memory.
func memoryRows(t *testing.T) (rows []memoryRow) {
	t.Helper()
	text, err := os.ReadFile("../docs/javascript.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Memory\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) < 2 {
			continue
		}
		for _, code := range codeOf.FindAllStringSubmatch(cells[0], -1) {
			rows = append(rows, memoryRow{code[1], strings.TrimSuffix(cells[len(cells)-1], " |")})
		}
	}
	return rows
}

// memoryWorld is what the programs of the tables use.
const memoryWorld = `{
	const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true })
	define("u", new Uint8Array(1 << 20)); define("b", new ArrayBuffer(1 << 20)); define("text", "A".repeat(1 << 20))
	define("endless", () => ({ [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) }))
	define("resized", (b) => { b.resize(1 << 20); return b })
	define("moduleWithMemory", new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 0, 16, 7, 5, 1, 1, 109, 2, 0]))
	define("filled", (m) => { new Uint8Array(m.buffer).fill(1); return m })
	define("grown", (m, by) => { m.grow(by); return m }); 0
}`

func memoryRuntime(t *testing.T, jit js.JIT, limits js.Limits) *js.Runtime {
	t.Helper()
	rt := open(t, js.Options{JIT: jit, Limits: limits, Allow: []string{"WebAssembly", "Atomics"}})
	if err := rt.Bind(ctx, "bytes", func(n int) []byte { return make([]byte, n) }); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Eval(ctx, memoryWorld); err != nil {
		t.Fatal(err)
	}
	return rt
}

// bomb keeps what a program gives until it throws, and says what.
func bomb(code string, times int) string {
	return fmt.Sprintf(`(() => { const keep = []; let n = 0
	try { for (; n < %d; n++) keep.push(%s) } catch (e) { return [e instanceof Error && e.constructor === globalThis[e.name] ? e.name : String(e), e.message, e.stack, n] }
	return ["nothing"] })()`, times, code)
}

// Every built-in that allocates buffers is charged, so that a bomb of it is a
// RangeError that its guest catches, after which the same runtime has the whole
// budget again.
//
// proves part of G-06
func TestBufferBombsAsRoot(t *testing.T) {
	limits := js.Limits{MemoryBytes: 96 << 20, BufferBytes: 12 << 20, TimeoutMS: 60_000, HostCalls: 1 << 20}
	rt := memoryRuntime(t, "", limits)
	rows := memoryRows(t)
	if len(rows) < 40 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		switch row.want {
		case "absent":
			name := regexp.MustCompile(`[A-Za-z]{5,}`).FindString(strings.TrimPrefix(row.code, "new "))
			if got := text(t, rt, "typeof "+name); got != `"undefined"` {
				t.Errorf("%s: %s is %s", row.code, name, got)
			}
		case "RangeError":
			got := text(t, rt, bomb(row.code, 1_000_000))
			if !strings.HasPrefix(got, `["RangeError","no room for a buffer`) || strings.Contains(got, "glovebox") {
				t.Errorf("%s: %.300s", row.code, got)
			}
			if got := text(t, rt, "new Uint8Array(8 << 20).length"); got != "8388608" {
				t.Errorf("%s, afterwards: %s", row.code, got)
			}
		}
	}
}

// The control of TestBufferBombsAsRoot: without the charge the same programs get through, or the
// kernel ends the worker.
func TestBufferBombsUnchargedAsRoot(t *testing.T) { bombsUncharged(t, sample) }

// sample is one row in so many; make soak does all.
const sample = 5

func bombsUncharged(t *testing.T, each int) {
	limits := js.Limits{MemoryBytes: 96 << 20, BufferBytes: 64 << 30, TimeoutMS: 60_000, HostCalls: 1 << 20}
	rt := memoryRuntime(t, "", limits)
	for i, row := range memoryRows(t) {
		if row.want != "RangeError" || i%each != 0 {
			continue
		}
		v, err := rt.Eval(ctx, bomb(row.code, 24))
		switch {
		case js.KindOf(err) == js.MemoryLimit:
			rt = memoryRuntime(t, "", limits)
		case err != nil || v.String() != `["nothing"]`:
			t.Errorf("%s: %s, %v", row.code, v, err)
		}
	}
}

// What is not charged comes to exactly what the table says, and the kernel is
// what bounds it.
//
// proves part of G-06 G-15
func TestUnchargedAsRoot(t *testing.T) { uncharged(t, sample) }

func uncharged(t *testing.T, each int) {
	limits := js.Limits{MemoryBytes: 96 << 20, TimeoutMS: 5_000, HardMS: 60_000}
	rt, n := memoryRuntime(t, "", limits), 0
	for _, row := range memoryRows(t) {
		if row.want == "absent" || row.want == "RangeError" {
			continue
		}
		if n++; n%each != 0 {
			continue
		}
		_, err := rt.Eval(ctx, "{"+row.code+"}")
		var e *js.Error
		if !errors.As(err, &e) || strings.TrimSpace(string(e.Kind)+" "+e.Name) != row.want {
			t.Errorf("%s: %v, not %s", row.code, err, row.want)
		}
		if e != nil && e.Kind == js.MemoryLimit {
			rt = memoryRuntime(t, "", limits)
		} else if got := text(t, rt, "'alive'"); got != `"alive"` {
			t.Errorf("%s, afterwards: %s", row.code, got)
		}
	}
	if n < 30 {
		t.Errorf("%d rows", n)
	}
}
