package agent

import (
	"context"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// TestFromGuest: a guest fetches, and calls a tool through its set, and is told
// of refusals what it may know.
func TestFromGuest(t *testing.T) {
	s := newSite(t, nil)
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{{Origin: s.origin("api.test"), Paths: []string{"/v1/"}, Methods: []string{"GET", "POST"}}}})
	set := catalogOf(t, Tool{Name: "add", Func: func(a, b int) int { return a + b }, MaxCalls: 2}).NewToolSet()
	rt, err := js.New(t.Context(), js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := rt.BindAsync(t.Context(), "http_fetch", f.Fetch); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(t.Context(), "add", js.Func(func(ctx context.Context, args []js.Value) (any, error) {
		call, err := set.Admit("add", args)
		if err != nil {
			return nil, err
		}
		return call.Run(ctx)
	})); err != nil {
		t.Fatal(err)
	}
	base := s.origin("api.test")
	for code, want := range map[string]string{
		`http_fetch("` + base + `/v1/x").then(r => [r.status, r.url, r.body, r.bytes])`:    `[200,"` + base + `/v1/x","",null]`,
		`http_fetch("` + base + `/v1/y", {method: "POST", body: "b"}).then(r => r.status)`: `200`,
		`http_fetch("` + base + `/admin").catch(e => [e.name, e.message])`:                 `["FetchError","denied: its origin does not allow this path"]`,
		`http_fetch("http://169.254.169.254/").catch(e => e.message)`:                      `"denied: no rule has this origin"`,
		`(async () => { const out = [await add(1, 2)]; try { await add(1) } catch (e) { out.push(e.message) }
			out.push(await add(3, 4)); try { await add(5, 6) } catch (e) { out.push(e.name, e.message) } return out })()`: `[3,"tool_arguments: argument 2 is missing",7,"ToolError","tool_budget: all 2 calls are used up"]`,
	} {
		v, err := rt.Eval(t.Context(), code)
		if err != nil {
			t.Errorf("%s: %v", code, err)
			continue
		}
		if got, err := v.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", code, got, err, want)
		}
	}
	if got := len(s.requests()); got != 2 {
		t.Errorf("%d requests arrived", got)
	}
}
