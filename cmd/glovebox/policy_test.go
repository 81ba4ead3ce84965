package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
)

// gated is every way in which this command runs a guest's code: its commands,
// and what endpoints and tools it serves. Each has a proof that a policy which
// denies stops it, or the reason why there is nothing to stop. What is not in here
// fails the test: whoever adds a command, an endpoint or a tool adds its row.
//
// The functions of the library have a table like it in gate_surface_test.go.
var gated = map[string]struct {
	proof func(t *testing.T, policy string)
	free  string // why no policy is asked
}{
	"command run": {proof: func(t *testing.T, policy string) {
		denies(t, policy, "run", "--", "/bin/echo", "ran")
		denies(t, policy, "run", "-l", "bash", "-e", "echo ran")
		denies(t, policy, "run", "--json=stream", "--", "/bin/echo", "ran")
	}},
	"command trace": {proof: func(t *testing.T, policy string) { denies(t, policy, "trace", "--", "/bin/echo", "ran") }},
	"command eval": {proof: func(t *testing.T, policy string) {
		denies(t, policy, "eval", "'ran' + eval")
		denies(t, policy, "eval", "--json", "'ran' + eval")
		denies(t, policy, "eval", "--module", "export default 'ran' + eval")
	}},
	"command serve": {proof: func(t *testing.T, policy string) {
		for _, args := range [][]string{{"--policy", policy}, nil} { // the second is the control
			s := serve(t, args...)
			var run api.Run
			var no api.ErrorBody
			for _, p := range []api.Program{{Command: []string{"/bin/echo", "ran"}}, {Language: "bash", Source: "echo ran"}} {
				status, text := s.ask(t, "POST", "/v1/runs?wait=30s", p)
				_, _ = json.Unmarshal(text, &run), json.Unmarshal(text, &no)
				if denied := status == 400 && no.Error.Code == api.CodeDeniedByPolicy; denied != (args != nil) || !denied && (run.Result == nil || run.Result.Stdout != "ran\n") {
					t.Errorf("%v: %+v: %d %s", args, p, status, text)
				}
			}
		}
	}},
	"command mcp": {free: "serves the tools below"},
	"tool run_code": {proof: func(t *testing.T, policy string) {
		for _, arguments := range []string{`{"command": ["/bin/echo", "ran"]}`, `{"language": "bash", "source": "echo ran"}`} {
			if got := askMCP(t, "tools/call", `{"name": "run_code", "arguments": `+arguments+`}`, "--policy", policy); !strings.Contains(got, `"denied"`) || strings.Contains(got, "verdict") {
				t.Errorf("%s: %s", arguments, got)
			}
		}
		if got := askMCP(t, "tools/call", `{"name": "run_code", "arguments": {"command": ["/bin/echo", "ran"]}}`); !strings.Contains(got, `"verdict":"ok"`) { // the control
			t.Error(got)
		}
	}},
	"tool javascript": {proof: func(t *testing.T, policy string) {
		for _, arguments := range []string{`{"code": "'ran' + eval"}`, `{"code": "('ran' as string) + eval", "syntax": "ts"}`} {
			if got := askMCP(t, "tools/call", `{"name": "javascript", "arguments": `+arguments+`}`, "--policy", policy); !strings.Contains(got, `"denied"`) || strings.Contains(got, "status") {
				t.Errorf("%s: %s", arguments, got)
			}
		}
		if got := askMCP(t, "tools/call", `{"name": "javascript", "arguments": {"code": "'ran' + eval"}}`); !strings.Contains(got, `"status":"ok"`) { // the control
			t.Error(got)
		}
	}},
	"tool check_code":     {free: "reads texts and runs nothing"},
	"tool sandbox_status": {free: "runs nothing"},
	"command check":       {free: "reads texts and runs nothing"},
	"command completion":  {free: "runs nothing"},
	"command keys":        {free: "speaks with a service"},
	"command keys create": {free: "speaks with a service"},
	"command keys list":   {free: "speaks with a service"},
	"command keys revoke": {free: "speaks with a service"},
	"command keys show":   {free: "speaks with a service"},
	"command languages":   {free: "runs the programs that come with languages"},
	"command redteam":     {free: "runs the attacks that come with Glovebox"},
	"command status":      {free: "runs nothing"},
	"command version":     {free: "runs nothing"},
}

// served are the names of all commands, endpoints and tools.
func served(t *testing.T) (names []string) {
	for _, m := range regexp.MustCompile(`"name":"([a-z_]+)"`).FindAllStringSubmatch(askMCP(t, "tools/list", "{}"), -1) {
		names = append(names, "tool "+m[1])
	}
	for _, c := range newRoot().Commands() {
		names = append(names, "command "+c.Name())
		var below func(c *cobra.Command, path string)
		below = func(c *cobra.Command, path string) {
			for _, sub := range c.Commands() {
				names = append(names, path+" "+sub.Name())
				below(sub, path+" "+sub.Name())
			}
		}
		below(c, "command "+c.Name())
	}
	return names
}

// askMCP has a server of the Model Context Protocol answer one request.
func askMCP(t *testing.T, method, params string, flags ...string) string {
	t.Helper()
	p := prepare(t, append([]string{"mcp"}, flags...)...)
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.begin(t)
	for _, line := range []string{
		`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}`,
		`{"jsonrpc": "2.0", "method": "notifications/initialized"}`,
		`{"jsonrpc": "2.0", "id": 2, "method": "` + method + `", "params": ` + params + `}`,
	} {
		if _, err := fmt.Fprintln(in, line); err != nil {
			t.Fatal(err)
		}
	}
	answer := ""
	for !strings.Contains(answer, `"id":2`) {
		answer = p.line(t)
	}
	in.Close()
	p.ends(t, 0)
	return answer
}

// denies holds that a command line ends with the policy's words and that nothing
// of the program was printed.
func denies(t *testing.T, policy string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{args[0], "--policy", policy}, args[1:]...)
	if code := command(args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), " is not run: ") || stdout.Len() > 0 {
		t.Errorf("%q: exit status %d, %q, %q", args, code, stdout.String(), stderr.String())
	}
}

// Every command that runs a guest's code is behind --policy: a policy that denies
// stops it before anything is started (this process has neither of the programs
// that would be: it would fail otherwise).
//
// proves part of H-57
func TestCommandsAreGated(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, []byte(`{"deny_eval": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	names := served(t)
	for _, name := range names {
		if _, ok := gated[name]; !ok {
			t.Errorf("%s is not in the table of what is behind the policy", name)
		}
	}
	all := " " + strings.Join(names, ", ") + ","
	for name, row := range gated {
		switch {
		case !strings.Contains(all, " "+name+","):
			t.Errorf("the table has %s, which does not exist", name)
		case (row.proof == nil) == (row.free == ""):
			t.Errorf("%s needs a proof or a reason", name)
		case row.proof != nil:
			t.Run(name, func(t *testing.T) { row.proof(t, policy) })
		}
	}
	// The controls: without the policy each would go on to start something.
	for _, args := range [][]string{{"run", "--", "/bin/echo"}, {"eval", "1"}} {
		var stdout, stderr bytes.Buffer
		if code := command(args, &stdout, &stderr); code == exitUsage || !strings.Contains(stderr.String(), "glovebox-") {
			t.Errorf("%q: exit status %d, %q", args, code, stderr.String())
		}
	}
}

// What the file of a policy says, by kind.
func TestPolicyFile(t *testing.T) {
	sum := sha256.Sum256([]byte("eval"))
	g, err := parsePolicy([]byte(`{"names": ["a"], "members": ["b"], "deny_import": true, "deny_computed": true, "max_bytes": 50, "allow_sha256": ["` + hex.EncodeToString(sum[:]) + `"],
		"allow_languages": ["python"], "allow_files": ["*.csv", "d/?"], "allow_commands": ["/bin/true"], "allow_env": ["A"], "deny_eval": true}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind                   gate.Kind
		language, name, source string
		want                   bool
	}{
		{gate.Script, "javascript", "", "1", true},
		{gate.Script, "javascript", "", "a", false},
		{gate.Script, "javascript", "", "c.b", false},
		{gate.Module, "javascript", "", "import 'x'", false},
		{gate.Script, "javascript", "", "c[d]", false},
		{gate.Script, "javascript", "", "Function", false},
		{gate.Script, "javascript", "", "eval", true}, // by its digest
		{gate.Script, "javascript", "", "eval ", false},
		{gate.Feed, "javascript", "", "await 1", true},
		{gate.Script, "javascript", "", "'" + strings.Repeat("x", 48) + "'", true},
		{gate.Script, "javascript", "", "'" + strings.Repeat("x", 49) + "'", false},
		{gate.JSON, "javascript", "", `{"a": "eval"}`, true},
		{gate.Program, "python", "main.py", "eval(1)", true},
		{gate.File, "python", "x", "eval(1)", true},
		{gate.Program, "ruby", "main.rb", "1", false},
		{gate.Program, "ruby", "main.csv", "1", false},
		{gate.File, "ruby", "main.csv", "1", true},
		{gate.File, "ruby", "d/e", "1", true},
		{gate.File, "ruby", "d/e.csv", "1", false},
		{gate.Command, "", "", `["/bin/true","x"]`, true},
		{gate.Command, "", "", `["true"]`, false},
		{gate.Command, "", "", `["/bin/sh","/bin/true"]`, false},
		{gate.Command, "", "", `[]`, false},
		{gate.Command, "", "", `eval`, false}, // a digest is of a source
		{gate.Env, "python", "", `{"A":"1"}`, true},
		{gate.Env, "python", "", `{"A":"1","B":"2"}`, false},
		{gate.Env, "python", "", `1`, false},
	} {
		err := gate.Ask(context.Background(), g, []byte(c.source), gate.Info{Kind: c.kind, Language: c.language, Name: c.name})
		if (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for text, want := range map[string]string{
		`{`: "", `[]`: "", `null`: "", `{"max_bytes": -1}`: "negative", `{"allow_sha256": ["` + strings.Repeat("AB", 32) + `"]}`: "no digest",
		`{"allow_languages": ["javascript"]}`: "javascript is what the policy reads", `{"allow_files": ["["]}`: "no pattern", `{"Names": []}`: "Names", `{"names": "a"}`: "names",
	} {
		if _, err := parsePolicy([]byte(text)); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
