package mcpserver

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
)

// What the protocol adds to a run of /bin/true, and to a feed.
func BenchmarkRun(b *testing.B) {
	o := options()
	o.Box.Armed = 2
	s := newServer(b, o)
	box, err := s.Box(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	call := func(cs *mcp.ClientSession, name string, args obj) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if r, err := cs.CallTool(b.Context(), &mcp.CallToolParams{Name: name, Arguments: args}); err != nil || r.IsError {
					b.Fatal(r, err)
				}
			}
		}
	}
	run := obj{"command": []string{"/bin/true"}}
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			if _, err := box.Run(b.Context(), glovebox.Program{Command: []string{"/bin/true"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	cs := local(b, s)
	far := remote(b, listen(b, s, HTTPOptions{Tokens: tokens(b)}), tokenA, nil)
	b.Run("stdio", call(cs, "run_code", run))
	b.Run("http", call(far, "run_code", run))
	id := eval(b, cs, "", "let n = 0")["session"]
	b.Run("feed", call(cs, "javascript", obj{"code": "n += 1", "session": id}))
}
