package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/gate"
)

// eval runs a source in a session, "" a new one, and returns the result.
func eval(t testing.TB, cs *mcp.ClientSession, session, code string) obj {
	t.Helper()
	args := obj{"code": code}
	if session != "" {
		args["session"] = session
	}
	got, _ := callTool(t, cs, "javascript", args)
	return got
}

func str(v any) string { s, _ := v.(string); return s }

// A session keeps what was declared; without an id another one is begun, and an end
// ends it.
func TestJavaScript(t *testing.T) {
	cs := local(t, server(t))
	first := eval(t, cs, "", "let n = 41; const add = x => n += x; console.log('hi', n); ({n})")
	id := str(first["session"])
	if first["status"] != "ok" || at(first, "untrusted", "value") != `{"n":41}` || at(first, "untrusted", "console") != "hi 41\n" || len(id) < 26 || at(first, "usage", "feeds") != 1.0 {
		t.Fatalf("%v", first)
	}
	if got := eval(t, cs, id, "add(await Promise.resolve(1))"); at(got, "untrusted", "value") != "42" || got["session"] != id || at(got, "usage", "feeds") != 2.0 {
		t.Errorf("%v", got)
	}
	if got := eval(t, cs, "", "typeof add"); at(got, "untrusted", "value") != `"undefined"` || got["session"] == id {
		t.Errorf("another session: %v", got)
	}
	if got := eval(t, cs, id, "throw new TypeError('no')"); got["status"] != "error" || got["kind"] != "thrown" || got["void"] != nil || at(got, "untrusted", "error_type") != "TypeError" || at(got, "untrusted", "error") != "no" {
		t.Errorf("%v", got)
	}
	if got := eval(t, cs, id, "n = 7; for (;;);"); got["kind"] != "timeout" && got["kind"] != "hard_timeout" && got["kind"] != "cpu_limit" || got["void"] != true {
		t.Errorf("%v", got)
	}
	if got := eval(t, cs, id, "n"); at(got, "untrusted", "value") != "42" {
		t.Errorf("after a void call: %v", got)
	}
	got, _ := callTool(t, cs, "javascript", obj{"code": "const k: number = given.a; k * 2", "syntax": "ts", "inputs": obj{"given": obj{"a": 21}}, "session": id, "end": true})
	if at(got, "untrusted", "value") != "42" || got["session"] != nil {
		t.Errorf("%v", got)
	}
	if got := eval(t, cs, id, "n"); at(got, "error", "code") != "no_such_session" {
		t.Errorf("after its end: %v", got)
	}
	for field, args := range map[string]obj{"code": {}, "syntax": {"code": "1", "syntax": "python"}, "Code": {"Code": "1"}, "inputs": {"code": "1", "inputs": []int{1}}} {
		if got, r := callTool(t, cs, "javascript", args); !r.IsError || at(got, "error", "code") != "bad_arguments" || !strings.Contains(str(at(got, "error", "message")), field) {
			t.Errorf("%s: %v", field, got)
		}
	}
}

// What is no TypeScript is told like what is no JavaScript, among what the guest wrote;
// a session that never began has no id, and one that there was goes on.
func TestJavaScriptNoTypeScript(t *testing.T) {
	cs := local(t, server(t))
	wrong := obj{"code": "const k: number = = 1", "syntax": "ts"}
	got, r := callTool(t, cs, "javascript", wrong)
	if r.IsError || got["status"] != "error" || got["kind"] != "syntax_error" || got["session"] != nil || at(got, "untrusted", "error_type") != "SyntaxError" {
		t.Errorf("%v", got)
	}
	id := str(eval(t, cs, "", "let n = 1")["session"])
	wrong["session"] = id
	if got, _ := callTool(t, cs, "javascript", wrong); got["kind"] != "syntax_error" || got["session"] != id {
		t.Errorf("%v", got)
	}
	if got := eval(t, cs, id, "n"); at(got, "untrusted", "value") != "1" {
		t.Errorf("%v", got)
	}
	if got, _ := callTool(t, cs, "javascript", obj{"code": "1", "inputs": obj{"a b": 1}}); at(got, "error", "field") != "inputs" {
		t.Errorf("%v", got)
	}
}

// What a guest returns, throws and prints is marked and filtered; a value stays the
// value that it is.
//
// proves part of H-82
func TestJavaScriptInjections(t *testing.T) {
	cs := local(t, server(t))
	session := str(eval(t, cs, "", "1")["session"])
	for name, text := range injections {
		source := must(json.Marshal(strings.ToValidUTF8(text, "?")))
		for _, code := range []string{"console.log(%[1]s); ({[%[1]s]: %[1]s})", "throw new Error(%s)", "throw new (class CANARY extends Error { name = %s })(1)", "new Map([[%[1]s, 1]])", "Promise.reject(%s)"} {
			got, r := callTool(t, cs, "javascript", obj{"code": fmt.Sprintf(code, source), "session": session})
			var all string
			walk(got, func(s string) { all += s })
			if bad := unseenIn(all + r.Content[0].(*mcp.TextContent).Text); len(bad) > 0 {
				t.Errorf("%s, %s: %U", name, code, bad)
			}
			if v := str(at(got, "untrusted", "value")); strings.HasPrefix(code, "console") {
				var back map[string]string
				if err := json.Unmarshal([]byte(v), &back); err != nil || back[strings.ToValidUTF8(text, "?")] != strings.ToValidUTF8(text, "?") {
					t.Errorf("%s: the value is another: %q: %v", name, v, err)
				}
			}
			delete(got, "untrusted")
			if rest := string(must(json.Marshal(got))); strings.Contains(rest, "CANARY") {
				t.Errorf("%s, %s: outside of the field: %s", name, code, rest)
			}
		}
	}
}

// A code session is its principal's: another one's id leads nowhere, also over another
// session of the protocol, and is not told from one that never was.
//
// proves part of H-82
func TestJavaScriptSwapped(t *testing.T) {
	swap := func(t *testing.T, o HTTPOptions) (obj, obj) {
		addr := listen(t, newServer(t, options()), o)
		a, b := remote(t, addr, tokenA, nil), remote(t, addr, tokenB, nil)
		id := str(eval(t, a, "", "const secret = 'foreign'")["session"])
		got := eval(t, b, id, "secret")
		if again := eval(t, remote(t, addr, tokenA, nil), id, "secret"); at(again, "untrusted", "value") != `"foreign"` {
			t.Errorf("the owner: %v", again)
		}
		return got, eval(t, b, strings.Repeat("A", 26), "1")
	}
	got, never := swap(t, HTTPOptions{Tokens: tokens(t)})
	if at(got, "error", "code") != "no_such_session" || !reflect.DeepEqual(got, never) {
		t.Errorf("%v and %v", got, never)
	}
	if got, _ := swap(t, HTTPOptions{Tokens: tokens(t), idOnly: true}); at(got, "untrusted", "value") != `"foreign"` {
		t.Errorf("control: %v", got)
	}
}

// A client has so many code sessions: the one that was used least recently makes room,
// one that runs something does not, and idle ones go with their time.
//
// proves part of H-82
func TestCodeSessions(t *testing.T) {
	var s codeSessions
	s.init(2)
	now := time.Now()
	s.now = func() time.Time { return now }
	begin := func() string {
		t.Helper()
		id, _, err := s.take("")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b := begin(), begin()
	var busy *busyError
	if _, _, err := s.take(""); !errors.As(err, &busy) {
		t.Errorf("a third beside two that run: %v", err)
	}
	if _, _, err := s.take(a); !errors.Is(err, errSessionBusy) {
		t.Errorf("%v", err)
	}
	s.give(a, true)
	s.give(b, true)
	if _, _, err := s.take(a); err != nil {
		t.Errorf("%v", err)
	}
	s.give(a, true) // b is the older one now
	c, gone, err := s.take("")
	if err != nil || !slices.Equal(gone, []string{b}) {
		t.Errorf("%v %v", gone, err)
	}
	if _, _, err := s.take(b); !errors.Is(err, errNoSession) {
		t.Errorf("%v", err)
	}
	if !s.give(c, false) || s.give(c, true) {
		t.Error("a session that ended was kept")
	}
	now = now.Add(sessionIdle + time.Second)
	if _, gone, err := s.take(a); !errors.Is(err, errNoSession) || !slices.Equal(gone, []string{a}) || s.order.Len() != 0 || len(s.byID) != 0 {
		t.Errorf("%v %v", gone, err)
	}
}

// Ten clients' worth of sessions leave as many as may be, in the store too; the newest
// still know what they know.
//
// proves part of H-82
func TestManyCodeSessions(t *testing.T) {
	o := options()
	o.Sessions = 3
	o.Agent.Residents = 1
	s := newServer(t, o)
	cs := local(t, s)
	var ids []string
	for i := range 12 {
		ids = append(ids, str(eval(t, cs, "", fmt.Sprintf("let n = %d; n", i))["session"]))
	}
	pool, err := s.pool.get(minute(t))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := pool.Sessions(minute(t), "stdio"); err != nil || len(list) != 3 {
		t.Errorf("%d in the store: %v", len(list), err)
	}
	for i, id := range ids {
		got := eval(t, cs, id, "n")
		if want := i >= 9; (at(got, "untrusted", "value") == fmt.Sprint(i)) != want || !want && at(got, "error", "code") != "no_such_session" {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// A call that is taken back ends; its session is as it was.
func TestJavaScriptCanceled(t *testing.T) {
	s := newServer(t, options())
	cs := local(t, s)
	id := str(eval(t, cs, "", "let n = 1; n")["session"])
	ctx, cancel := context.WithCancel(minute(t))
	done := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "javascript", Arguments: obj{"code": "n = 2; for (;;);", "session": id}})
		done <- err
	}()
	c := s.client(principal{name: "stdio"})
	eventually(t, "it runs", func() bool { return len(c.slots) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	eventually(t, "its place is free", func() bool { return len(c.slots) == 0 })
	if got := eval(t, cs, id, "n"); at(got, "untrusted", "value") != "1" {
		t.Errorf("%v", got)
	}
}

// A program that embeds the server hands its functions in; a gate that denies keeps
// sources from running, here and in run_code.
//
// proves part of H-57
func TestJavaScriptToolsAndGate(t *testing.T) {
	o := options()
	tools, err := agent.NewCatalog([]agent.Tool{{Name: "price", Params: []string{"item"}, Func: func(item string) (int, error) {
		if item != "tea" {
			return 0, errors.New("secret of the host")
		}
		return 4, nil
	}}}, agent.CatalogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.Tools = tools
	judge := func(_ context.Context, source []byte, _ gate.Info) gate.Verdict {
		return gate.Verdict{Allow: !strings.Contains(string(source), "forbidden"), Reason: "it says forbidden"}
	}
	o.Agent.Gate, o.Box.Gate = judge, judge
	cs := local(t, newServer(t, o))
	if got := eval(t, cs, "", "await price('tea') * 2"); at(got, "untrusted", "value") != "8" || at(got, "usage", "calls") != 1.0 {
		t.Errorf("%v", got)
	}
	if got := eval(t, cs, "", "await price('milk')"); got["status"] != "error" || strings.Contains(string(must(json.Marshal(got))), "secret") {
		t.Errorf("%v", got)
	}
	list, err := cs.ListTools(minute(t), nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool {
		return tool.Name == "javascript" && strings.Contains(tool.Description, "price")
	}) {
		t.Errorf("the description does not name the function: %v", err)
	}
	for name, args := range map[string]obj{"javascript": {"code": "/* forbidden */ 1"}, "run_code": {"language": "bash", "source": "# forbidden"}} {
		if got, r := callTool(t, cs, name, args); !r.IsError || at(got, "error", "code") != "denied" || !strings.Contains(str(at(got, "error", "message")), "it says forbidden") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got, _ := callTool(t, cs, "run_code", obj{"language": "bash", "source": "# fine"}); got["verdict"] != "ok" {
		t.Errorf("control: %v", got)
	}
}

// Where no worker starts the tool says so, and the others work.
func TestNoWorker(t *testing.T) {
	o := options()
	o.Agent.WorkerPath = "/bin/true"
	cs := local(t, newServer(t, o))
	if got := eval(t, cs, "", "1"); at(got, "error", "code") != "internal" {
		t.Errorf("%v", got)
	}
	if got, _ := callTool(t, cs, "run_code", obj{"command": []string{"true"}}); got["verdict"] != "ok" {
		t.Errorf("%v", got)
	}
}
