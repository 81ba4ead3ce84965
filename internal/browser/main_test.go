//go:build browser

package browser_test

// The tests have OnChromium in their names, and are left out where there is none; those
// with OnBundle need what "make build" bundles of others.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/web"
)

// patience bounds every step of a test.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testenv.Deselect()
	code := m.Run()
	if started {
		b, _ := browser()
		b.end()
	}
	os.Exit(code)
}

var started bool

// chromium is the one browser of all tests.
type chromium struct {
	ctx context.Context
	end func()
}

var browser = sync.OnceValues(func() (*chromium, error) {
	started = true
	dir, err := os.MkdirTemp("", "glovebox-chromium-")
	if err != nil {
		return nil, err
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(testenv.Chromium()), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(dir),
		chromedp.Flag("headless", "new"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(patience)}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(alloc)
	b := &chromium{ctx: ctx, end: func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stop()
		_ = os.RemoveAll(dir)
	}}
	return b, chromedp.Do(ctx)
})

// open starts a service on loopback and returns its address.
func open(t *testing.T, change ...func(*service.Options)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := service.Options{Dir: filepath.Join(t.TempDir(), "data"), Listeners: []net.Listener{l}}
	o.Box.InitPath, o.Box.CacheDir = testenv.Init(), testenv.Cache()
	for _, c := range change {
		c(&o)
	}
	s, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// bare is a service whose program was built without the bundle.
func bare(o *service.Options) { o.Server.Site = web.New(fstest.MapFS{}) }

// tab is one tab, with a profile of its own, and all that it did.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	requests []string
	faults   []string // what the page threw, and what its policy refused
}

// visit opens a tab and the service's first page, or another one.
func visit(t *testing.T, addr, path string) *tab {
	t.Helper()
	b, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, url: "http://" + addr}
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	p.size(1360, 900)
	p.open(path)
	return p
}

func (p *tab) hear(e any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		p.requests = append(p.requests, e.URL)
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, "threw: "+thrown(e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceViolation {
			p.faults = append(p.faults, "policy: "+e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		p.faults = append(p.faults, "dialog: "+e.Message)
	}
}

func thrown(d *runtime.ExceptionDetails) string {
	if d.Exception != nil {
		return d.Exception.Description
	}
	return d.Text
}

// clean fails the test if the page threw, broke its policy, or asked anybody but the
// service.
func (p *tab) clean() {
	p.t.Helper()
	p.mu.Lock()
	for _, f := range p.faults {
		p.t.Error(f)
	}
	p.mu.Unlock()
	p.stayed()
}

// stayed fails the test if the page asked anybody but the service.
func (p *tab) stayed() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if !strings.HasPrefix(r, p.url+"/") && !strings.HasPrefix(r, "blob:"+p.url+"/") {
			p.t.Error("it asked for", r)
		}
	}
}

// do takes steps, all within patience.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	take(p, chromedp.Steps(steps...))
}

// take takes one step that has a result.
func take[T any](p *tab, step chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, step)
	if err != nil {
		p.picture("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
		p.t.Fatalf("%v; the page says:\n%s", err, p.text("main"))
	}
	return v
}

// size is that of the window.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

func (p *tab) open(path string) { p.t.Helper(); p.do(chromedp.Navigate(p.url + path)) }

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (p *tab) keys(text string) { p.t.Helper(); p.do(chromedp.KeyEvent(text)) }

// set gives a field its value, as typing would.
func (p *tab) set(selector, value string) {
	p.t.Helper()
	p.js(fmt.Sprintf(`const f = document.querySelector(%q); f.closest("details")?.setAttribute("open", ""); f.focus(); f.value = %q;
		f.dispatchEvent(new Event("input", {bubbles: true})); f.dispatchEvent(new Event("change", {bubbles: true}))`, selector, value))
}

// js runs statements in the page.
func (p *tab) js(statements string) {
	p.t.Helper()
	value[bool](p, "(() => {"+statements+"; return true})()")
}

// value is what an expression is in the page; a promise is waited for.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	return take(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression is true.
func (p *tab) until(expression string) {
	p.t.Helper()
	value[bool](p, "new Promise(ok => { const look = () => ("+expression+") ? ok(true) : setTimeout(look, 20); look() })")
}

// sees waits until an element, or one of several, has a text in it.
func (p *tab) sees(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, text))
}

func (p *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector)))
	if err != nil {
		return err.Error()
	}
	return s
}

// stdout is what the page shows of standard output.
func (p *tab) stdout() string {
	p.t.Helper()
	return value[string](p, `[...document.querySelectorAll("#screen .stdout")].map(l => l.textContent + "\n").join("")`)
}

// picture keeps a screenshot, as an output of the tests.
func (p *tab) picture(name string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Log("no screenshot:", err)
		return
	}
	dir := filepath.Join(testenv.Root(), ".cache", "screenshots")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)); err != nil {
		p.t.Error(err)
	}
}

// ready waits for the page on which programs run.
func (p *tab) ready() *tab {
	p.t.Helper()
	p.until(`!document.getElementById("run").disabled`)
	return p
}

// program shows a program on the page: its language, and names and contents of files.
func (p *tab) program(language string, files ...string) {
	p.t.Helper()
	var list []string
	for pair := range slices.Chunk(files, 2) {
		list = append(list, fmt.Sprintf("{name: %q, content: %q}", pair[0], pair[1]))
	}
	p.js(fmt.Sprintf(`localStorage.setItem("glovebox.draft", JSON.stringify({language: %q, files: [%s]})); sessionStorage.removeItem("glovebox.run")`,
		language, strings.Join(list, ", ")))
	p.open("/")
	p.ready()
}

// run starts the program that is shown.
func (p *tab) run() { p.t.Helper(); p.click("#run") }

// ended waits for the end of the run, which says a text.
func (p *tab) ended(says string) {
	p.t.Helper()
	p.until(`!document.getElementById("verdict").hidden && document.getElementById("cancel").hidden`)
	if got := p.text("#state"); !strings.Contains(got, says) {
		p.t.Fatalf("the run says %q, not %q", got, says)
	}
}
