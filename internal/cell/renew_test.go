package cell

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// A file of the host that cells show and that was replaced, as an update does, is
// never shown to a later run as it was: idle cells go, running ones end in peace,
// and the former launcher ends with its last cell.
//
// proves part of H-31
func TestReplacedFile(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "glovebox-renew-") // not /tmp, which is a cell's own
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "library")
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	replace("old")
	h, err := Open(Config{Mode: Require, InitPath: testenv.Init(), Armed: 2, Reserve: 2, MaxCells: 4, Paths: []string{file},
		Max: api.MaxLimits(runtime.NumCPU(), 8<<30)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	run := func(argv ...string) *api.Result {
		t.Helper()
		r, err := h.Run(context.Background(), &Job{Profile: DefaultProfile, Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Limits: api.DefaultLimits()}, Streams{})
		if err != nil || r.Verdict == api.SetupFailed {
			t.Fatalf("%v: %+v", err, r)
		}
		return r
	}
	if got := run("cat", file).Stdout; got != "old" {
		t.Fatalf("%q", got)
	}
	h.launching.Lock()
	former := h.launcher
	h.launching.Unlock()

	// One that runs on while its launcher is retired.
	in, hold := make(chan *api.Result, 1), make(chan struct{})
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	go func() {
		r, _ := h.Run(context.Background(), &Job{Profile: DefaultProfile, Argv: []string{"sh", "-c", "echo up; read x; cat " + file}, Env: []string{"PATH=/usr/bin:/bin"}, Limits: api.DefaultLimits()},
			Streams{Stdin: reader, Event: func(e api.Event) {
				if strings.HasPrefix(e.Data, "up") {
					close(hold)
				}
			}})
		in <- r
	}()
	<-hold
	replace("new")
	seen := ""
	for end := time.Now().Add(20 * time.Second); seen != "new" && time.Now().Before(end); {
		seen = run("cat", file).Stdout
	}
	if seen != "new" {
		t.Fatalf("later runs still see %q", seen)
	}
	for range 4 { // none of the idle cells shows the old one
		if got := run("cat", file).Stdout; got != "new" {
			t.Errorf("%q", got)
		}
	}
	if former.ended() {
		t.Error("the former launcher ended before its last cell")
	}
	writer.Close()
	if r := <-in; r == nil || r.Verdict != api.OK || r.Stdout != "up\nold" {
		t.Errorf("the one that ran on: %+v", r)
	}
	select {
	case <-former.dead:
	case <-time.After(20 * time.Second):
		t.Error("the former launcher lives on")
	}
}
