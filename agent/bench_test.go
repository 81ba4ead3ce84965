package agent

import (
	"encoding/json"
	"testing"
)

// BenchmarkToolCall is what admitting and running a call costs the host.
func BenchmarkToolCall(b *testing.B) {
	c := catalogOf(b, Tool{Name: "add", Func: func(x, y int) int { return x + y }, MaxCalls: 1_000_000},
		Tool{Name: "find", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","maxLength":100},"limit":{"type":"integer"}},"required":["query"],"additionalProperties":false}`),
			Func: SchemaFunc(nothing), MaxCalls: 1_000_000})
	for name, args := range map[string][]any{"add": {1, 2}, "find": {map[string]any{"query": "what to look for", "limit": 10}}} {
		in := values(b, args...)
		b.Run(name, func(b *testing.B) {
			s := c.NewToolSet()
			for n := 0; b.Loop(); n++ {
				if n%1_000_000 == 999_999 {
					s = c.NewToolSet()
				}
				call, err := s.Admit(name, in)
				if err == nil {
					_, err = call.Run(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFetch fetches from a site on loopback, over a connection of its own.
func BenchmarkFetch(b *testing.B) {
	s := newSite(b, nil)
	f := newFetcher(b, FetchOptions{Rules: []FetchRule{everything(s.origin("api.test"))}, MaxRequests: 1_000_000})
	for b.Loop() {
		if _, err := f.Fetch(b.Context(), s.origin("api.test")+"/x?q=1", nil); err != nil {
			b.Fatal(err)
		}
	}
}
