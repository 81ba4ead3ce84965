//go:build linux

// Command matrix boots the machines of package cells, runs tests and attacks in
// each, and says what held:
//
//	go run ./matrix/cmd/matrix -only '*-arm64-*' -jobs 2
//
// The exit status is 1 if a machine failed. A whole run in which none did writes
// docs/matrix.md.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/matrix/cells"
)

// options are the flags.
type options struct {
	only, page     string
	list, json, ci bool
	jobs           int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run returns the code to exit with.
func run(ctx context.Context, args []string) int {
	var o options
	f := flag.NewFlagSet("matrix", flag.ContinueOnError)
	f.StringVar(&o.only, "only", "", "only the machines whose name, KERNEL-ARCH-USERLAND-VARIANT, matches this `pattern`")
	f.BoolVar(&o.list, "list", false, "list the machines and run none")
	f.BoolVar(&o.ci, "ci", false, "only those that .ci/run takes")
	f.BoolVar(&o.json, "json", false, "print one JSON object, and the progress on stderr")
	f.IntVar(&o.jobs, "jobs", 1, "`number` of machines at a time; each keeps a processor busy")
	f.StringVar(&o.page, "page", filepath.Join("docs", "matrix.md"), "`file` that a whole, good run writes")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if f.NArg() > 0 || o.jobs < 1 || o.jobs > 64 {
		fmt.Fprintln(os.Stderr, "matrix: there are no arguments, and -jobs is 1 to 64")
		return 2
	}
	picked, err := cells.Pick(cells.Table(), o.only, o.ci)
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return 2
	}
	if o.list {
		for _, c := range picked {
			fmt.Printf("%-40s tests %-30s attacks %s\n", c.Name(), c.Tests, c.Attacks)
		}
		return 0
	}
	if err := o.fire(ctx, picked); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return 1
	}
	return 0
}

// fire runs the machines and writes what came of them. The error says that not
// all is well.
func (o options) fire(ctx context.Context, picked []cells.Cell) error {
	begin := time.Now()
	progress := os.Stdout
	if o.json {
		progress = os.Stderr
	}
	results, err := cells.Run(ctx, picked, cells.Options{Jobs: o.jobs, Log: func(format string, args ...any) {
		fmt.Fprintf(progress, format+"\n", args...)
	}})
	if o.json {
		if err := cells.JSON(os.Stdout, results); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	bad := 0
	for _, r := range results {
		if !r.Good() {
			bad++
		}
	}
	fmt.Fprintf(progress, "%d passed, %d failed\n", len(results)-bad, bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d machines failed", bad, len(results))
	}
	if o.only != "" || o.ci {
		return nil
	}
	var page bytes.Buffer
	if err := cells.Markdown(&page, results, time.Now(), o.jobs, time.Since(begin)); err != nil {
		return err
	}
	return os.WriteFile(o.page, page.Bytes(), 0o644)
}
