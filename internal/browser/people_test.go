//go:build browser

package browser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focused is the id, label or text of what has the focus, also in a shadow root.
const focused = `(() => {
	let e = document.activeElement
	while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement
	return e === document.body ? "" : e.id || e.getAttribute("aria-label") || e.textContent.trim()
})()`

// tabTo presses Tab until something has the focus.
func (p *tab) tabTo(begins string) {
	p.t.Helper()
	var seen []string
	for range 60 {
		p.keys(kb.Tab)
		at := value[string](p, focused)
		if strings.HasPrefix(at, begins) {
			return
		}
		seen = append(seen, at)
	}
	p.t.Fatalf("Tab leads to %q and never to %q", seen, begins)
}

// A person without a mouse can write a program, add and rename a file, run, type and
// cancel, and gets out of the editor.
//
// proves part of X-22
func TestKeyboardOnlyOnChromium(t *testing.T) {
	for _, c := range []struct{ name, addr string }{{"bare", open(t, bare)}, {"OnBundle", open(t)}} {
		t.Run(c.name, func(t *testing.T) {
			p := visit(t, c.addr, "/").ready()
			p.keys(kb.Tab)
			if at := value[string](p, focused); at != "To the content" {
				t.Errorf("the first Tab leads to %q", at)
			}
			p.tabTo("language")
			p.keys("Bas")
			p.until(`document.getElementById("language").value === "bash"`)
			p.tabTo("Add a file")
			p.keys("\r")
			p.until(`document.getElementById("naming").open`)
			p.keys("data.txt\r")
			p.until(`!document.getElementById("naming").open`)
			p.sees(".file[aria-pressed=true]", "data.txt")
			p.keys("from a file") // adding a file leads into the editor
			p.tabToFileAndWrite("main.sh", "cat data.txt; read line; echo; echo got $line; sleep 50")
			p.keys(kb.Escape)
			p.tabTo("Input and arguments")
			p.keys("\r")
			p.tabTo("interactive")
			p.keys(" ")
			p.ctrl("\r")
			p.sees("#screen", "from a file")
			p.until(`document.activeElement.id === "line"`)
			p.keys("hello\r")
			p.sees("#screen", "got hello")
			p.tabTo("cancel")
			p.keys("\r")
			p.ended("It was canceled.")
			p.clean()
		})
	}
}

// tabToFileAndWrite replaces what a file has.
func (p *tab) tabToFileAndWrite(name, text string) {
	p.t.Helper()
	p.keys(kb.Escape + kb.Tab) // out of the editor
	if at := value[string](p, focused); strings.HasPrefix(at, "Source") {
		p.t.Fatal("the editor keeps the focus")
	}
	p.tabTo("▸ " + name)
	p.keys("\r")
	p.tabTo("Source")
	p.ctrl("a")
	p.keys(text)
}

func (p *tab) ctrl(key string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(key, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// On a narrow screen nothing is wider than it, and everything works.
//
// proves part of X-22
func TestNarrowOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	p.size(360, 740)
	fits := func(where string) {
		t.Helper()
		if w := value[int](p, `document.documentElement.scrollWidth`); w > 360 {
			t.Errorf("%s is %d wide", where, w)
		}
	}
	p.run()
	p.ended("It ran to its end.")
	p.until(`document.querySelector(".picture img")?.naturalWidth === 320`)
	p.click(".evidence summary")
	fits("a run")
	p.picture("narrow")
	p.open("/dashboard")
	p.sees("#wall", "seccomp")
	fits("the dashboard")
	p.open("/v1")
	p.sees("#reference", "/v1/runs/{id}")
	p.js(`document.querySelectorAll("details").forEach(d => d.open = true)`)
	fits("the interface")
	p.clean()
}

// Without its bundle the page has a plain field and numbers, and everything else.
//
// proves part of X-22
func TestWithoutTheBundleOnChromium(t *testing.T) {
	p := visit(t, open(t, bare), "/").ready()
	if n := value[int](p, `document.querySelectorAll("#editor textarea.plain").length`); n != 1 {
		t.Fatalf("%d plain fields", n)
	}
	p.program("python", "main.py", "import time\nfor i in range(5): time.sleep(.15)\nprint('plain')")
	p.run()
	p.ended("It ran to its end.")
	p.sees("#screen", "plain")
	p.sees("#curves", "of processor time in")
	if n := value[int](p, `document.querySelectorAll("canvas").length`); n != 0 {
		t.Errorf("%d canvases", n)
	}
	p.picture("bare")
	p.clean()
}

// With its bundle the page has an editor that colours what is written, and curves.
//
// proves part of X-22
func TestBundleOnChromiumOnBundle(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	p.until(`document.getElementById("editor").shadowRoot.querySelector(".cm-content span") !== null`)
	p.click("#editor")
	p.ctrl("a")
	p.keys("import time\nx = bytearray(20 << 20)\nfor i in range(8): time.sleep(.1)\nprint('drawn')")
	p.ctrl("\r")
	p.ended("It ran to its end.")
	p.sees("#screen", "drawn")
	p.until(`document.querySelector("#curves canvas")?.width > 100`)
	p.clean()
}

// contrast finds text that can hardly be read: every text is held against what it
// stands on.
const contrast = `(() => {
	const parse = c => { const n = c.match(/[\d.]+/g).map(Number); return { r: n[0], g: n[1], b: n[2], a: n[3] ?? 1 } }
	const lum = c => [c.r, c.g, c.b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0)
	const over = (a, b) => ({ r: a.r * a.a + b.r * (1 - a.a), g: a.g * a.a + b.g * (1 - a.a), b: a.b * a.a + b.b * (1 - a.a), a: 1 })
	const back = e => { const own = e ? parse(getComputedStyle(e).backgroundColor) : { r: 255, g: 255, b: 255, a: 1 }
		return own.a === 1 ? own : over(own, back(e.parentElement)) }
	const poor = new Set()
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	for (let n; (n = texts.nextNode());) {
		const e = n.parentElement
		if (!n.data.trim() || !e.checkVisibility({ visibilityProperty: true }) || e.closest(":disabled, .away, option, .skip")) continue
		const b = back(e), s = getComputedStyle(e), f = over({ ...parse(s.color), a: parse(s.color).a * Number(s.opacity) }, b)
		const [x, y] = [lum(f), lum(b)].sort((p, q) => q - p)
		const ratio = (x + .05) / (y + .05)
		if (ratio < 4.5) poor.add(e.tagName + "." + e.className + " " + n.data.trim().slice(0, 30) + " " + ratio.toFixed(2))
	}
	return [...poor]
})()`

// Everything that can be used has a name that can be read out, and everything that is
// written can be read, in the light and in the dark, whatever colours a program sets.
//
// proves part of X-22 X-27
func TestNamesAndContrastOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	var colors strings.Builder
	for n := range 16 {
		fmt.Fprintf(&colors, "print('\\033[38;5;%dmfore %d\\033[0m \\033[48;5;%dmback %d\\033[38;5;%dm same\\033[0m \\033[2;38;5;%dmfaint')\n", n, n, n, n, n, n)
	}
	p.program("python", "main.py", colors.String()+"import sys; print('error', file=sys.stderr)\nprint('\\033[7minverse')\n")
	p.run()
	p.ended("It ran to its end.")
	p.js(`document.querySelectorAll("details").forEach(d => d.open = true); document.getElementById("screen").style.height = "auto"`)
	for _, path := range []string{"", "/dashboard", "/v1", "/nothing"} {
		if path != "" {
			p.open(path)
			p.until(`document.querySelectorAll("main table tr, main .hint").length > 0`)
		}
		for _, scheme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
			if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, media); err != nil {
				t.Fatal(err)
			}
			p.picture(scheme + strings.ReplaceAll(path, "/", "-"))
			if poor := value[[]string](p, contrast); len(poor) > 0 {
				t.Errorf("%s, %s: %q", path, scheme, poor)
			}
		}
		if bad := p.nameless(); len(bad) > 0 {
			t.Errorf("%s: nameless: %q", path, bad)
		}
	}
	p.clean()
	p.js(`document.querySelector("h1").style.color = "#666"; document.querySelector("main").append(document.createElement("button"))`)
	if poor := value[[]string](p, contrast); len(poor) != 1 || len(p.nameless()) != 1 {
		t.Errorf("control: %q, %q", poor, p.nameless())
	}
}

// nameless are the roles of what can be used and has no name.
func (p *tab) nameless() []string {
	p.t.Helper()
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		p.t.Fatal(err)
	}
	used := []string{"button", "link", "textbox", "checkbox", "combobox", "spinbutton", "searchbox", "img", "image", "dialog", "DisclosureTriangle"}
	var bad []string
	for _, n := range tree.Nodes {
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		if !n.Ignored && slices.Contains(used, role) && name == "" {
			bad = append(bad, role)
		}
	}
	return bad
}
