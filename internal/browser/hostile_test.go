//go:build browser

package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

// canary is a server that nobody should ask. It counts connections, before anything is
// said on them.
type canary struct {
	net.Listener
	url  string
	rung atomic.Int64
}

func (c *canary) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.rung.Add(1)
	}
	return conn, err
}

func watchCanary(t *testing.T) *canary {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &canary{Listener: l, url: "http://" + l.Addr().String()}
	s := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = s.Serve(c) }()
	t.Cleanup(func() { _ = s.Close() })
	return c
}

// artifacts are what a hostile program leaves, by name.
func artifacts(t *testing.T, canary string) map[string][]byte {
	t.Helper()
	var p bytes.Buffer
	if err := png.Encode(&p, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	html := fmt.Sprintf(`<!doctype html><meta charset="utf-8"><script>new Image().src=%q;document.title="owned"</script><img src=%q>`, canary+"/script", canary+"/img")
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="new Image().src='%s/onload'"><script>new Image().src='%s/svg'</script><image href="%s/image"/></svg>`, canary, canary, canary)
	return map[string][]byte{
		"good.png":                        p.Bytes(),
		"page.html":                       []byte(html),
		"drawing.svg":                     []byte(svg),
		"page.png":                        []byte(html),
		"drawing.jpg":                     []byte(svg),
		"both.png":                        append(bytes.Clone(p.Bytes()), html...),
		"both.gif":                        []byte("GIF89a/*" + html + "*/=1;"),
		"<img src=x onerror=owned()>.png": []byte(html),
		"\"><script>owned()<.svg":         []byte(svg),
		"a'b;filename=x.html":             []byte(html),
		"a%2f..%2fb.html":                 []byte(html),
		"document.xml":                    []byte(`<?xml version="1.0"?><?xml-stylesheet href="` + canary + `/xsl"?><html xmlns="http://www.w3.org/1999/xhtml"><script src="` + canary + `/xml"/></html>`),
		"document.pdf":                    []byte("%PDF-1.4\n1 0 obj<</OpenAction<</S/URI/URI(" + canary + "/pdf)>>>>endobj"),
		"javascript:owned().html":         []byte(html),
		"\u202egnp.exe":                   []byte(html), // refused by the cell, and its name is shown
		"new\nline.png":                   p.Bytes(),
	}
}

// hostile is a program that leaves these files, and says everything that a page might
// take for its own.
func hostile(t *testing.T, canary string) string {
	var b strings.Builder
	b.WriteString("import sys\n")
	for name, data := range artifacts(t, canary) {
		fmt.Fprintf(&b, "open(%s, 'wb').write(bytes.fromhex('%x'))\n", pyText(name), data)
	}
	for _, s := range []string{
		`<script>owned()</script>`, `<img src="` + canary + `/out" onerror="owned()">`, `</div></main><iframe src="` + canary + `/frame"></iframe>`,
		"\x1b]8;;javascript:owned()\x1b\\a link\x1b]8;;\x1b\\", "\x1b]8;;" + canary + "/osc8\x07another\x1b]8;;\x07", "\x1b]52;c;b3duZWQ=\x07", "\x1b]0;owned\x07",
		"\x1b[999999999B\x1b[999999999C", "\x1b[2J\x1b[H", "\x1bP+q544e\x1b\\", "\x1b[31;1mred\x1b[38;2;0;0;0;48;2;0;0;0mhidden\x1b[0m", "\x1b[8mconcealed\x1b[0m",
		"a\u202egnp.exe", "\u2066isolated", "zero\u200bwidth", "\u009b31mC1", canary + "/text", "javascript:owned()", "\x00\x07\x08\x7f", "{{constructor.constructor('owned()')()}}",
	} {
		fmt.Fprintf(&b, "for f in sys.stdout, sys.stderr: print(%s, file=f)\n", pyText(s))
	}
	b.WriteString("raise SystemExit(" + pyText(`<b onclick=owned()>the end</b>`) + ")\n")
	return b.String()
}

// pyText is a text as a literal of Python.
func pyText(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\U%08x`, r)
	}
	return "'" + b.String() + "'"
}

// No output, error, file name or file of a guest makes the page ask anybody, run
// anything, or break its policy. The same files from a server that goes by their names
// do, which shows that they are loaded.
//
// proves H-69
// proves part of H-70 X-27 X-22
func TestHostileOnChromium(t *testing.T) {
	c := watchCanary(t)
	p := visit(t, open(t), "/").ready()
	p.program("python", "main.py", hostile(t, c.url))
	p.js(`window.owned = () => { window.isOwned = true }`)
	p.click("#bounds summary")
	p.set("#artifacts", "*")
	p.run()
	p.ended("exit status 1")
	p.until(`document.querySelector(".picture img")?.naturalWidth === 4`)
	p.until(`[...document.querySelectorAll(".artifacts .hint")].filter(e => e.textContent.includes("no picture")).length >= 4`)
	for name, want := range map[string]int{
		"script": 2, "#main img": 1, "iframe": 0, "#screen *:not(div):not(span)": 0, "#screen [style]": 0, "#screen a": 0, "#verdict a": 0, "[onerror], [onclick], [onload]": 0,
	} {
		if name == "script" {
			want = value[int](p, `document.querySelectorAll("head script").length`)
		}
		if got := value[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, name)); got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
	screen := p.text("#screen")
	for _, want := range []string{`<script>owned()</script>`, "a link", "a<U+202E>gnp.exe", "<U+009B>31mC1", "<U+2066>isolated", "zero<U+200B>width", "concealed", "{{constructor"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen does not show %q", want)
		}
	}
	if strings.ContainsAny(screen, "\x1b\x07\x00\u202e\u2066\u009b") {
		t.Error("the screen has what a terminal would obey")
	}
	if s := p.text("#verdict"); strings.ContainsRune(s, '\u202e') || !strings.Contains(s, `\u202e`) && !strings.Contains(s, "U+202E") {
		t.Errorf("the file whose name turns round is shown as %q", s)
	}
	p.picture("hostile")
	if value[bool](p, `window.isOwned === true`) {
		t.Error("a script of the guest ran")
	}
	p.clean()
	p.visitAll(value[[]string](p, `fetch("/v1/runs/" + JSON.parse(sessionStorage.getItem("glovebox.run")).id).then(r => r.json()).then(r => r.result.artifacts.map(a => a.url))`))
	p.stayed() // the browser's own page around a picture has styles, which the picture's policy refuses
	if n := c.rung.Load(); n != 0 {
		t.Errorf("the canary rang %d times", n)
	}
	control(t, c)
}

// visitAll goes to each file itself, as who follows a link does. What is a download ends
// no page.
func (p *tab) visitAll(urls []string) {
	p.t.Helper()
	if len(urls) < 12 {
		p.t.Errorf("the run left only %v", urls)
	}
	if _, err := chromedp.Call(p.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: "deny"}); err != nil {
		p.t.Error(err)
	}
	for _, u := range urls {
		ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
		err := chromedp.Do(ctx, chromedp.Navigate(p.url+u))
		cancel()
		shown := value[string](p, `document.contentType`)
		if strings.HasSuffix(u, "good.png") {
			if err != nil || shown != "image/png" {
				p.t.Errorf("the picture is shown as %s: %v", shown, err)
			}
			p.open("/")
		} else if err == nil || shown != "text/html" || !strings.HasSuffix(value[string](p, `location.pathname`), "/") {
			p.t.Errorf("%s is shown, as %s", u, shown)
		}
	}
	p.ready()
}

// control shows the same files as a server would that goes by their names.
func control(t *testing.T, c *canary) {
	files := artifacts(t, c.url)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{".html": "text/html", ".svg": "image/svg+xml"}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", types[path.Ext(r.URL.Path)])
		_, _ = w.Write(files[strings.TrimPrefix(r.URL.Path, "/")])
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	for _, name := range []string{"/page.html", "/drawing.svg"} {
		before := c.rung.Load()
		p := visit(t, l.Addr().String(), name)
		p.until(`document.readyState === "complete"`)
		if c.rung.Load() == before {
			t.Errorf("control: %s does not ring", name)
		}
	}
}
