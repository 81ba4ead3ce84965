// Command mcpclient shows a client of the Model Context Protocol that starts
// "glovebox mcp", has it run a Python program in a sealed cell, and gives what that
// made to a JavaScript session, which keeps it for the next call. The glovebox command,
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
	counts, err := count(ctx, session)
	if err != nil {
		return err
	}
	var first, second struct {
		Session   string `json:"session"`
		Untrusted struct {
			Value string `json:"value"`
		} `json:"untrusted"`
	}
	if err := call(ctx, session, "javascript", map[string]any{
		"code": "const counts = JSON.parse(file); Object.keys(counts).length", "inputs": map[string]any{"file": counts},
	}, &first); err != nil {
		return err
	}
	if err := call(ctx, session, "javascript", map[string]any{
		"code": "Object.entries(counts).sort((a, b) => b[1] - a[1])[0][0]", "session": first.Session, "end": true,
	}, &second); err != nil {
		return err
	}
	fmt.Printf("words: %s\nmost often: %s\n", first.Untrusted.Value, second.Untrusted.Value)
	return nil
}

// count has the Python program count words, and returns the file that it left.
func count(ctx context.Context, session *mcp.ClientSession) (string, error) {
	var counted struct {
		Verdict   string   `json:"verdict"`
		Untrusted struct { // the program's word
			Stdout    string `json:"stdout"`
			Artifacts []struct {
				Name string `json:"name"`
				Text string `json:"text"`
			} `json:"artifacts"`
		} `json:"untrusted"`
	}
	if err := call(ctx, session, "run_code", map[string]any{
		"language": "python", "source": source, "stdin": text, "artifacts": []string{"*.json"}, "limits": map[string]any{"wall_ms": 5000},
	}, &counted); err != nil {
		return "", err
	}
	fmt.Printf("verdict: %s\nstdout: %q\n", counted.Verdict, counted.Untrusted.Stdout)
	if len(counted.Untrusted.Artifacts) != 1 {
		return "", errors.New("the program left no file")
	}
	file := counted.Untrusted.Artifacts[0]
	fmt.Printf("%s: %s\n", file.Name, file.Text)
	return file.Text, nil
}

// call calls a tool and decodes its result.
func call(ctx context.Context, session *mcp.ClientSession, tool string, args map[string]any, result any) error {
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("%s: %s", tool, data)
	}
	return json.Unmarshal(data, result)
}
