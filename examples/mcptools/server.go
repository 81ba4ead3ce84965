package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goods are what the server sells.
var goods = map[string]struct{ cents, east, west int }{"bolt": {12, 4_000, 10}, "nut": {7, 250, 0}, "gear": {1_999, 3, 8}}

// tool is one of the server's, with its schema as text.
func tool(name, about, in, out string) *mcp.Tool {
	return &mcp.Tool{Name: name, Description: about, InputSchema: json.RawMessage(in), OutputSchema: json.RawMessage(out)}
}

// serve is the server, on stdin and stdout. What it is asked it writes to the file
// that MCPTOOLS_LOG names.
func serve(ctx context.Context) error {
	log, err := os.OpenFile(os.Getenv("MCPTOOLS_LOG"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log = os.Stderr
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	answer := func(of func(item, warehouse string) any) mcp.ToolHandler {
		return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			fmt.Fprintf(log, "%s %s\n", r.Params.Name, r.Params.Arguments)
			var a struct{ Item, Warehouse string }
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{StructuredContent: of(a.Item, a.Warehouse)}, nil
		}
	}
	server.AddTool(tool("unit-price", "What one piece costs.",
		`{"type":"object","properties":{"item":{"type":"string","maxLength":40}},"required":["item"],"additionalProperties":false}`,
		`{"type":"object","properties":{"cents":{"type":"integer"}},"required":["cents"]}`),
		answer(func(item, _ string) any { return map[string]any{"cents": goods[item].cents} }))
	server.AddTool(tool("stock", "How many pieces a warehouse has.",
		`{"type":"object","properties":{"item":{"type":"string"},"warehouse":{"enum":["east","west"]}},"required":["item","warehouse"],"additionalProperties":false}`,
		`{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}`),
		answer(func(item, warehouse string) any {
			return map[string]any{"count": map[string]int{"east": goods[item].east, "west": goods[item].west}[warehouse]}
		}))
	return server.Run(ctx, &mcp.StdioTransport{})
}
