package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// raw is a client that writes what it likes.
type raw struct {
	t   testing.TB
	in  *bufio.Reader
	out io.Writer
}

func rawClient(t testing.TB, in io.Reader, out io.Writer) *raw {
	t.Helper()
	r := &raw{t, bufio.NewReaderSize(in, 1<<20), out}
	r.write(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if a := r.read(); at(a, "result", "serverInfo", "name") != "glovebox" {
		t.Fatalf("initialize: %v", a)
	}
	r.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r
}

func (r *raw) write(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.out, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// read returns the next message of the server, nil after the last.
func (r *raw) read() obj {
	r.t.Helper()
	line, err := r.in.ReadString('\n')
	switch {
	case errors.Is(err, errLate):
		r.t.Fatal(err)
	case err != nil:
		return nil
	}
	var o obj
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		r.t.Fatalf("%v: %q", err, line)
	}
	return o
}

// toolCall is the text of a call with raw arguments.
func toolCall(id any, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}

// Names of arguments are exact, stand once, and what a client may not set is refused
// by its name.
//
// proves part of H-54
func TestArgumentsAreExact(t *testing.T) {
	in, out := pipe(t, server(t), principal{name: "stdio", local: true})
	r := rawClient(t, in, out)
	for args, want := range map[string]string{
		`{"language":"bash","Source":"echo x"}`:                                     "Source",
		`{"language":"bash","source":"echo x","SOURCE":"echo y"}`:                   "SOURCE",
		`{"language":"bash","ſource":"echo x"}`:                                     "is not known",
		`{"language":"bash","source\u0000":"echo x"}`:                               "is not known",
		`{"language":"bash","source":"true","limits":{"Wall_ms":50}}`:               "limits",
		`{"language":"bash","source":"true","limits":{"wall_ms":-1}}`:               "limits.wall_ms",
		`{"language":"bash","source":"true","limits":{"wall_ms":60001}}`:            "must be between 50 and 60000",
		`{"language":"bash","source":"true","limits":{"memory_bytes":1073741825}}`:  "limits.memory_bytes",
		`{"language":"bash","source":"true","profile":"language"}`:                  "profile",
		`{"language":"bash","source":"true","isolation":"process"}`:                 "isolation",
		`{"language":"bash","source":"true","stdin":"x","stdin_encoding":"latin1"}`: "stdin_encoding",
		`{"language":"bash","source":"true","stdin":"%","stdin_encoding":"base64"}`: "stdin",
		`{"language":"bash","files":[{"name":"../x","content":""}]}`:                "files[0].name",
		`{"language":"bash","files":[{"name":"x","content":"","Mode":511}]}`:        "Mode",
		`{"language":"klingon","source":"true"}`:                                    "language",
		`{"language":"bash","source":["true"]}`:                                     "source",
		`{"language":"bash","source":"true","network":"host"}`:                      "network",
		`{"language":"bash","source":"true","artifacts":["../../etc/passwd"]}`:      "artifacts[0]",
		`{}`:                                     "language",
		`null`:                                   "language",
		`{"command":["true"],"env":{"A=B":"1"}}`: "env",
		`{"language":"bash","source":"true","env":{}}`: "",
	} {
		r.write(toolCall(1, "run_code", args))
		a := r.read()
		if want == "" {
			if at(a, "result", "structuredContent", "verdict") != "ok" {
				t.Errorf("control: %s: %v", args, a)
			}
			continue
		}
		text, _ := at(a, "result", "structuredContent", "error", "message").(string)
		if at(a, "result", "isError") != true || at(a, "result", "structuredContent", "error", "code") != "bad_arguments" || !strings.Contains(text, want) {
			t.Errorf("%s: %v, want %q", args, a, want)
		}
	}
}

// frames that are refused before the SDK sees them, with the code of the answer and a
// part of its text.
var badFrames = map[string]struct {
	line string
	code float64
	text string
}{
	"no JSON":          {`hello`, -32700, "body"},
	"a batch":          {`[` + toolCall(1, "run_code", "{}") + `]`, -32700, "must be an object"},
	"folded":           {`{"jsonrpc":"2.0","id":1,"Method":"tools/list"}`, -32700, "Method"},
	"folded besides":   {`{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/list"}`, -32700, "METHOD"},
	"NUL":              {`{"jsonrpc":"2.0","id":1,"method":"ping","method\u0000":"tools/list"}`, -32700, "method"},
	"twice":            {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, -32700, "method"},
	"arguments twice":  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":{},"arguments":{"language":"bash","source":"true"}}}`, -32700, "arguments"},
	"source twice":     {toolCall(1, "run_code", `{"language":"bash","source":"false","source":"true"}`), -32700, "source"},
	"deep":             {toolCall(1, "run_code", strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)), -32700, "deep"},
	"not UTF-8":        {toolCall(1, "run_code", "{\"source\":\"\xff\"}"), -32700, "UTF-8"},
	"half a surrogate": {toolCall(1, "run_code", `{"source":"\ud800"}`), -32700, "surrogate"},
	"another version":  {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "jsonrpc"},
	"id null":          {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "id"},
	"id a fraction":    {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, "id"},
	"id a list":        {`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, -32600, "id"},
	"id long":          {`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 300) + `","method":"ping"}`, -32600, "id"},
	"nothing":          {`{"jsonrpc":"2.0"}`, -32600, "method"},
	"both":             {`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, -32600, "not both"},
	"a long method":    {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 200) + `"}`, -32600, "method"},
	"long control":     {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + strings.Repeat("u", maxControl) + `"}}`, -32600, "65536"},
	"params a list":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, -32602, "params"},
	"name a number":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`, -32602, "name"},
	"no name":          {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, -32602, "name"},
	"arguments a list": {toolCall(1, "run_code", "[]"), -32602, "arguments"},
	"a long token":     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","_meta":{"progressToken":"` + strings.Repeat("p", 300) + `"}}}`, -32602, "progressToken"},
	"a token a list":   {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","_meta":{"progressToken":[]}}}`, -32602, "progressToken"},
	"meta a list":      {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[]}}`, -32602, "_meta"},
}

// A message that could mean two things, or that an answer would repeat at length, is
// answered with a short error, and the next one is served.
//
// proves part of H-54
// proves part of H-48
func TestFramesAreExact(t *testing.T) {
	in, out := pipe(t, server(t), principal{name: "stdio", local: true})
	r := rawClient(t, in, out)
	for name, f := range badFrames {
		r.write(f.line)
		a := r.read()
		text, _ := at(a, "error", "message").(string)
		if at(a, "error", "code") != f.code || !strings.Contains(text, f.text) || len(text) > 2500 {
			t.Errorf("%s: %.500v, want %v %q", name, a, f.code, f.text)
		}
		r.write(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
		if a := r.read(); a["id"] != 7.0 || a["result"] == nil {
			t.Fatalf("after %s: %v", name, a)
		}
	}
	r.write("") // an empty line is no message
	r.write(`{"jsonrpc":"2.0","id":"x","method":"ping"}` + "\r")
	if a := r.read(); a["id"] != "x" {
		t.Errorf("%v", a)
	}
}

// The control: on the SDK's own transport, without the reading in front of it, the
// second of two members wins, and a batch passes.
//
// proves part of H-54
func TestFramesAreExactControl(t *testing.T) {
	c := newClient(server(t), principal{name: "control", local: true})
	clientIn, serverOut := io.Pipe()
	serverIn, clientOut := io.Pipe()
	ss, err := c.mcp.Connect(context.Background(), &mcp.IOTransport{Reader: serverIn, Writer: serverOut}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = clientOut.Close(); _ = clientIn.Close(); _ = ss.Wait() }()
	r := rawClient(t, clientIn, clientOut)
	r.write(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none","name":"run_code","arguments":{},"arguments":{"language":"bash","source":"echo second"}}}`)
	if a := r.read(); at(a, "result", "structuredContent", "untrusted", "stdout") != "second\n" {
		t.Errorf("%v", a)
	}
}

// A line that is too long is answered and ends the connection; what came of it so far
// does not grow.
//
// proves part of H-48
func TestLongLine(t *testing.T) {
	in, out := pipe(t, server(t), principal{name: "stdio", local: true})
	r := rawClient(t, in, out)
	go func() {
		part := strings.Repeat("x", 1<<20)
		for range 2 * MaxMessage >> 20 {
			if _, err := io.WriteString(out, part); err != nil {
				return
			}
		}
	}()
	a := r.read()
	if text, _ := at(a, "error", "message").(string); !strings.Contains(text, "bytes") {
		t.Errorf("%v", a)
	}
	if a := r.read(); a != nil {
		t.Errorf("after it: %v", a)
	}
}

// A program as long as a message may be runs.
func TestLongestMessage(t *testing.T) {
	in, out := pipe(t, server(t), principal{name: "stdio", local: true})
	r := rawClient(t, in, out)
	line := toolCall(1, "run_code", `{"language":"bash","source":"exit 9 #%"}`)
	r.write(strings.Replace(line, "%", strings.Repeat("x", MaxMessage-len(line)+1), 1))
	if a := r.read(); at(a, "result", "structuredContent", "exit_code") != 9.0 {
		t.Errorf("%.1000v", a)
	}
}

// A thousand calls at once are all answered, and no more run than may.
//
// proves part of H-67
func TestThousandCalls(t *testing.T) {
	for name, o := range map[string]Options{"few may run": {InFlight: 3}, "many may wait": {InFlight: 1000}} {
		t.Run(name, func(t *testing.T) { thousandCalls(t, o.InFlight) })
	}
}

func thousandCalls(t *testing.T, inFlight int) {
	o := options()
	o.InFlight = inFlight
	o.Box.MaxWaiting = 1000
	s := newServer(t, o)
	in, out := pipe(t, s, principal{name: "stdio", local: true})
	r := rawClient(t, in, out)
	const n = 1000
	go func() {
		for i := range n {
			if _, err := io.WriteString(out, toolCall(i, "run_code", `{"command":["sleep","0.05"]}`)+"\n"); err != nil {
				return
			}
		}
	}()
	ran, busy, many := 0, 0, 0
	seen := map[any]bool{}
	for range n {
		a := r.read()
		if a == nil {
			t.Fatal("the server has gone")
		}
		seen[a["id"]] = true
		switch {
		case at(a, "result", "structuredContent", "verdict") == "ok":
			ran++
		case at(a, "result", "structuredContent", "error", "code") == "busy":
			busy++
		case at(a, "error", "message") == errTooMany.Error():
			many++
		default:
			t.Fatalf("%v", a)
		}
	}
	if len(seen) != n || ran < 3 || inFlight == 3 && busy == 0 || inFlight == 1000 && (busy > 0 || many == 0) {
		t.Errorf("%d answers: %d ran, %d were too many for the slots, %d for the connection", len(seen), ran, busy, many)
	}
	r.write(toolCall(`"last"`, "run_code", `{"command":["true"]}`))
	if a := r.read(); at(a, "result", "structuredContent", "verdict") != "ok" {
		t.Errorf("after it: %v", a)
	}
}
