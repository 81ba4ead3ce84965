// Command mcptools shows tools that come from a server of the Model Context
// Protocol: their JSON Schemas become functions of a session, arguments are held
// against them before anything reaches the server, and calls are handed on.
//
// The server is this program too ("mcptools server", see server.go). Another one is
// another command line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/agent"
)

// code is what a model wrote when it was given the prompt.
const code = `
	let total = 0;
	for (const item of ["bolt", "nut", "gear"]) {
		const {cents} = await shop.unit_price({item});
		const {count} = await shop.stock({item, warehouse: "east"});
		total += cents * count;
	}
	let refused;
	try { await shop.stock({item: "bolt", warehouse: "the moon"}) } catch (e) { refused = e.message }
	({total, refused})`

func main() {
	ctx := context.Background()
	do := run
	if len(os.Args) == 2 && os.Args[1] == "server" {
		do = serve
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mcptools:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.Command(self, "server")
	server.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "mcptools", Version: "1"}, nil)
	remote, err := client.Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return err
	}
	defer remote.Close()
	catalog, err := catalogOf(ctx, remote)
	if err != nil {
		return err
	}
	fmt.Println(catalog.Prompt())
	pool, err := agent.Open(ctx, agent.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	session, err := pool.Checkout(ctx, agent.SessionOptions{Tools: catalog})
	if err != nil {
		return err
	}
	defer session.Close()
	result, err := session.Feed(ctx, code, agent.FeedOptions{})
	if err != nil {
		return err
	}
	text, err := result.Value.MarshalJSON()
	fmt.Printf("result: %s\n", text)
	return err
}

// catalogOf makes tools of what a server lists, in the namespace shop.
func catalogOf(ctx context.Context, remote *mcp.ClientSession) (*agent.Catalog, error) {
	listed, err := remote.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(listed.Tools)
	if err != nil {
		return nil, err
	}
	tools, err := agent.ParseTools(list, "shop", func(ctx context.Context, name string, args map[string]any) (any, error) {
		r, err := remote.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			return nil, err
		}
		if r.IsError {
			return nil, errors.New("the server refused the call")
		}
		return r.StructuredContent, nil
	})
	if err != nil {
		return nil, err
	}
	// A person who has looked at the tools keeps catalog.Hashes() and gives them as
	// Approved from then on: a server that changes a tool is noticed.
	return agent.NewCatalog(tools, agent.CatalogOptions{})
}
