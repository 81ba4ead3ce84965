// Command remote shows a program that runs on a service: its output while it is
// printed, what is typed into it, and the file that it leaves.
//
//	glovebox serve &
//	remote http://127.0.0.1:8080
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
)

// source is what is not trusted.
const source = `
import sys
total = 0
for line in sys.stdin:
    total += int(line)
    print("so far", total, flush=True)
open("total.txt", "w").write(str(total))
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // cancels the run on the service too
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "remote:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: remote URL")
	}
	c, err := client.New(client.Options{URL: args[0], Key: os.Getenv("GLOVEBOX_KEY")})
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Start(ctx, api.Program{Language: "python", Source: source, Artifacts: []string{"total.txt"}},
		client.WithStdinPipe(), client.WithEventStream())
	if err != nil {
		return err // refused, or nobody answers
	}
	go func() {
		for i := range 4 {
			if _, err := fmt.Fprintln(r.Stdin(), 10*i); err != nil {
				return // the run has ended, and says why
			}
		}
		_ = r.Stdin().Close()
	}()
	for e := range r.Events() { // none twice and none lost, over as many connections as it takes
		if e.Type == "chunk" {
			fmt.Printf("%s: %q\n", e.Stream, e.Data) // a stranger's text, so quoted
		}
	}
	result, err := r.Wait()
	if err != nil {
		return err
	}
	fmt.Println("verdict:", result.Verdict)
	file, err := r.Artifact(ctx, "total.txt")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	fmt.Printf("total.txt: %s\n", text)
	return err
}
