package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Deselect()
	code := m.Run()
	if s, err := shared(); err == nil {
		if err := s.Close(); err != nil {
			println("close:", err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// options are those of every test: the wall as users get it.
func options() Options {
	return Options{Version: "test", Box: glovebox.Options{InitPath: testenv.Init(), Armed: -1, CacheDir: testenv.Cache()},
		Agent: agent.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()}}
}

// shared is one Server for all tests that change nothing about it.
var shared = sync.OnceValues(func() (*Server, error) { return New(options()) })

func server(t testing.TB) *Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer is a Server of the test's own.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// minute bounds every test.
func minute(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var errLate = errors.New("no answer came in time")

// pipe connects a server to a new pair of pipes, as principal p, and returns the
// client's ends.
func pipe(t testing.TB, s *Server, p principal) (in io.ReadCloser, out io.WriteCloser) {
	t.Helper()
	clientIn, serverOut := io.Pipe()
	serverIn, clientOut := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.serve(context.Background(), p, newLines(serverIn, serverOut))
		_ = serverOut.Close()
		_ = serverIn.Close()
	}()
	late := time.AfterFunc(2*time.Minute, func() { _ = clientIn.CloseWithError(errLate) })
	t.Cleanup(func() {
		late.Stop()
		_ = clientOut.Close()
		_ = clientIn.Close()
		<-done
	})
	return clientIn, clientOut
}

// connect is the SDK's own client on a connection of one line a message.
func connect(t testing.TB, in io.ReadCloser, out io.WriteCloser, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return dial(t, &mcp.IOTransport{Reader: in, Writer: out}, o)
}

func dial(t testing.TB, via mcp.Transport, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(minute(t), via, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// local is a client of a server in this process, as on stdio.
func local(t testing.TB, s *Server) *mcp.ClientSession {
	t.Helper()
	in, out := pipe(t, s, principal{name: "stdio", local: true})
	return connect(t, in, out, nil)
}

// listen serves HTTP on loopback and returns the address.
func listen(t testing.TB, s *Server, o HTTPOptions) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeHTTP(ctx, l, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ServeHTTP: %v", err)
		}
	})
	return l.Addr().String()
}

// obj is an object of JSON.
type obj = map[string]any

// callTool calls a tool and returns its structured result.
func callTool(t testing.TB, cs *mcp.ClientSession, name string, args any) (obj, *mcp.CallToolResult) {
	t.Helper()
	r, err := cs.CallTool(minute(t), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return structure(t, r), r
}

// structure is the structured result, which stands in the first text too.
func structure(t testing.TB, r *mcp.CallToolResult) obj {
	t.Helper()
	var text, inText obj
	b, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &text); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if len(r.Content) == 0 {
		t.Fatalf("no content beside %s", b)
	}
	first, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("the first content is %T", r.Content[0])
	}
	if err := json.Unmarshal([]byte(first.Text), &inText); err != nil {
		t.Fatalf("%v: %s", err, first.Text)
	}
	if c, _ := json.Marshal(inText); string(c) != string(must(json.Marshal(text))) {
		t.Errorf("text and structure differ: %s and %s", c, b)
	}
	return text
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// at follows names through objects and lists; nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(obj)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}
