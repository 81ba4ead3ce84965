// Command mcpclient shows a client of the Model Context Protocol that starts
// "glovebox mcp" and has it run a program in a sealed cell. The glovebox command,
// which lies beside this program or is the one that is named, finds glovebox-init
// and glovebox-js beside itself.
//
//	mcpclient [GLOVEBOX]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// source is what a model asked to run.
const source = `
import json, sys
words = sys.stdin.read().split()
json.dump({w: words.count(w) for w in sorted(set(words))}, open("counts.json", "w"))
print(len(words), "words")
`

const text = "the cat saw the dog and the dog saw the cat"

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "mcpclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := append(os.Args[1:], filepath.Join(filepath.Dir(self), "glovebox"))[0]
	server := exec.Command(command, "mcp")
	server.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "mcpclient", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Printf("tool: %s: %s\n", tool.Name, tool.Title)
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{
		"language": "python", "source": source, "stdin": text, "artifacts": []string{"*.json"},
		"limits": map[string]any{"wall_ms": 5000},
	}})
	if err != nil {
		return err
	}
	return show(result)
}

// outcome is what of the answer is shown. Untrusted is the program's word.
type outcome struct {
	Verdict   string `json:"verdict"`
	Untrusted struct {
		Stdout    string `json:"stdout"`
		Artifacts []struct {
			Name string `json:"name"`
			Text string `json:"text"`
		} `json:"artifacts"`
	} `json:"untrusted"`
}

func show(r *mcp.CallToolResult) error {
	if r.IsError {
		text, _ := r.Content[0].(*mcp.TextContent)
		return errors.New(text.Text)
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return err
	}
	var o outcome
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	fmt.Printf("verdict: %s\nstdout: %q\n", o.Verdict, o.Untrusted.Stdout)
	for _, a := range o.Untrusted.Artifacts {
		fmt.Printf("%s: %s\n", a.Name, a.Text)
	}
	return nil
}
