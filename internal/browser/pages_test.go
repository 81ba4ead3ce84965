//go:build browser

package browser_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/service"
)

// The dashboard has the service's numbers, also after runs, and those of an operator who
// has put a password before his metrics for who has it.
//
// proves X-19
// proves part of X-22
func TestDashboardOnChromium(t *testing.T) {
	addr := open(t, func(o *service.Options) { o.Metrics.User, o.Metrics.Password = "metrics", "sesame sesame" })
	p := visit(t, addr, "/").ready()
	p.program("bash", "main.sh", "echo counted")
	p.run()
	p.ended("It ran to its end.")
	p.open("/dashboard")
	p.sees("#login", "for those who have its metrics password")
	p.sees(".tile", "Runs now")
	p.set("#password", "wrong")
	p.click("#login button")
	p.sees("#problem", "not right")
	p.set("#password", "sesame sesame")
	p.click("#login button")
	p.until(`document.getElementById("login").hidden`)
	p.until(`[...document.querySelectorAll(".tile")].some(e => e.textContent.startsWith("Runs accepted1"))`)
	p.sees("#wall", "This host enforces everything that is asked of it")
	p.clean()
}

// With its bundle the dashboard has a history, which outlives that the page is loaded
// again.
//
// proves part of X-22
func TestHistoryOnChromiumOnBundle(t *testing.T) {
	p := visit(t, open(t), "/dashboard")
	p.until(`document.querySelectorAll("#history canvas").length === 2`)
	p.until(`JSON.parse(sessionStorage.getItem("glovebox.history")).length >= 3`)
	p.picture("dashboard")
	p.open("/dashboard")
	p.until(`JSON.parse(sessionStorage.getItem("glovebox.history")).length >= 4`)
	p.clean()
}

// A private installation asks for its token, and with it everything works, the stream
// and the pictures too.
//
// proves part of X-22
func TestKeyOnChromium(t *testing.T) {
	const token = "token-0123456789abcdef"
	p := visit(t, open(t, func(o *service.Options) { o.Admission.AccessToken = token }), "/")
	p.sees("#problem", "key or the access token of this installation is needed")
	p.until(`document.getElementById("access").open`)
	p.set("#key", "gbk_wrong")
	p.sees("#problem", "No key or token of this service")
	p.set("#key", token)
	p.ready()
	p.run()
	p.ended("It ran to its end.")
	p.until(`document.querySelector(".picture img")?.naturalWidth === 320`)
	if got := value[string](p, `JSON.stringify(localStorage)`); strings.Contains(got, token) {
		t.Error("the token outlives the tab")
	}
	p.clean()
}

// What is refused is said in words: the quota with when it begins anew, a wrong limit
// with its bounds, a program that is too large, a service that is gone.
//
// proves part of X-22
func TestRefusalsOnChromium(t *testing.T) {
	addr := open(t, func(o *service.Options) { o.Admission.Quotas, o.Admission.RunsPerHour = true, 1 })
	p := visit(t, addr, "/").ready()
	p.program("bash", "main.sh", "true")
	p.set("#env", "A=b\n=x")
	p.run()
	p.sees("#problem", `env: "": a name must match`)
	p.set("#env", "")
	p.run()
	p.ended("It ran to its end.")
	p.run()
	p.sees("#problem", "Your hourly quota is used up. Try again in")
	if s := p.text("#state"); s != "It was not run" {
		t.Errorf("the page says %q", s)
	}
	p.picture("quota")
	p.clean()
}

// Errors of pages are pages, in words, for people, and JSON for programs. There are a
// title, an icon and a robots.txt, and every page has a strict policy.
//
// proves part of X-22
func TestErrorPagesOnChromium(t *testing.T) {
	addr := open(t)
	p := visit(t, addr, "/nothing/here")
	p.sees("h1", "Not found")
	p.sees("main", "The service's log calls this request")
	p.picture("error")
	p.open("/v1/runs/0123456789abcdef0123456789abcdef")
	p.sees("main", "There is no such run")
	if title := value[string](p, `document.title`); title != "Not found · Glovebox" {
		t.Errorf("the title is %q", title)
	}
	p.clean()
	for path, want := range map[string]string{"/robots.txt": "Disallow: /", "/favicon.ico": "<svg", "/assets/icon.svg": "<svg", "/": "Run code · Glovebox", "/dashboard": "Dashboard · Glovebox"} {
		a, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		policy := a.Header.Get("Content-Security-Policy")
		if err != nil || a.StatusCode != 200 || !strings.Contains(string(body), want) || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d, %q: %v", path, a.StatusCode, policy, err)
		}
	}
	a, err := http.Get("http://" + addr + "/nothing/here")
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if a.Header.Get("Content-Type") != "application/json" || a.StatusCode != 404 {
		t.Errorf("a program gets %d %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
}

// The page of the interface has every path of the document.
//
// proves part of X-22
func TestReferenceOnChromium(t *testing.T) {
	p := visit(t, open(t, bare), "/v1")
	p.sees("#reference", "/v1/runs/{id}")
	missing := value[[]string](p, `fetch("/openapi.json").then(r => r.json()).then(d => {
		const there = [...document.querySelectorAll("summary")].map(s => s.textContent)
		return Object.entries(d.paths).flatMap(([path, verbs]) => Object.keys(verbs).map(v => v.toUpperCase() + " " + path + " — "))
			.filter(line => !there.some(t => t.startsWith(line)))
	})`)
	if len(missing) > 0 {
		t.Errorf("%q are not there", missing)
	}
	p.open("/v1#schema-Submission")
	p.until(`document.getElementById("schema-Submission")?.open`)
	p.sees("#schema-Submission", "interactive")
	p.picture("reference")
	p.clean()
}
