package glovebox_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// started starts a program; said waits until it has printed a word.
func started(t *testing.T, p glovebox.Program) (r *glovebox.Running, said func(word string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	chunks := make(chan string, 64)
	r, err := box(t).Start(ctx, p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" {
			chunks <- e.Data
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	return r, func(word string) {
		t.Helper()
		for !strings.Contains(text, word) {
			select {
			case more := <-chunks:
				text += more
			case <-ctx.Done():
				t.Fatalf("the program has not said %q", word)
			}
		}
	}
}

// finished is the result of a run that must have one.
func finished(t *testing.T, r *glovebox.Running) *glovebox.Result {
	t.Helper()
	res, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A signal reaches the program's first process: one that is caught is the
// program's own affair, one that is not ends it.
func TestSignal(t *testing.T) {
	r, said := started(t, python(`
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
print("got", signal.sigwait([signal.SIGUSR1]).name, flush=True)
signal.signal(signal.SIGTERM, lambda *a: sys.exit(7))
print("ready again", flush=True)
while True: signal.pause()
`))
	for _, word := range []string{"ready\n", "ready again"} {
		s := map[string]os.Signal{"ready\n": syscall.SIGUSR1, "ready again": syscall.SIGTERM}[word]
		said(word)
		if err := r.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if res := finished(t, r); res.Verdict != api.Error || res.ExitCode == nil || *res.ExitCode != 7 || res.Stdout != "ready\ngot SIGUSR1\nready again\n" {
		t.Errorf("%s, exit %v, %q", res.Verdict, res.ExitCode, res.Stdout)
	}
	if err := r.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
	for _, s := range []syscall.Signal{unix.SIGINT, unix.SIGKILL, unix.SIGHUP} {
		r, said := started(t, python("import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('ready', flush=True)\nwhile True: signal.pause()"))
		said("ready")
		if err := r.Signal(s); err != nil {
			t.Fatal(err)
		}
		if res := finished(t, r); res.Verdict != api.Error || res.Signal != unix.SignalName(s) || res.ExitCode != nil {
			t.Errorf("%v: %s, signal %q", s, res.Verdict, res.Signal)
		}
	}
}

// A signal that no system has is refused; one before the start waits for it.
func TestSignalEarlyAndWrong(t *testing.T) {
	p := python("import time\ntime.sleep(60)")
	r, err := box(t).Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{0, -1, 65, 1 << 20} {
		var fe *glovebox.FieldError
		if err := r.Signal(s); !errors.As(err, &fe) || fe.Field != "signal" {
			t.Errorf("signal %d: %v", int(s), err)
		}
	}
	if err := r.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if res := finished(t, r); res.Verdict != api.Error || res.Signal != "SIGTERM" {
		t.Errorf("%s %s", res.Verdict, res.Signal)
	}
}

// Live input: what is written arrives at once, the answer comes while the program
// runs, and closing is the end of file.
func TestStdinPipe(t *testing.T) {
	lines := make(chan string, 16)
	r, err := box(t).Start(t.Context(), python("import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('end')"),
		glovebox.WithStdinPipe(), glovebox.WithEvents(func(e glovebox.Event) {
			if e.Type == "chunk" {
				lines <- e.Data
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one", "two"} {
		if _, err := io.WriteString(r.Stdin(), word+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-lines; got != "got "+word+"\n" {
			t.Errorf("%q", got)
		}
	}
	if err := r.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if res := finished(t, r); res.Stdout != "got one\ngot two\nend\n" || res.Verdict != api.OK {
		t.Errorf("%s %q", res.Verdict, res.Stdout)
	}
	if _, err := io.WriteString(r.Stdin(), "late"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after Close: %v", err)
	}
	if r, err := box(t).Start(t.Context(), python("print(input())")); err != nil || r.Stdin() != nil {
		t.Errorf("without a pipe: %v, %v", err, r.Stdin())
	} else if res := finished(t, r); !strings.Contains(res.Stderr, "EOFError") {
		t.Errorf("without a pipe the program does not see the end: %q", res.Stderr)
	}
}

// Input that nobody reads, that never ends, or whose reader hangs up holds nothing
// up: the program ends when it ends, and the writer learns of it.
func TestStdinUnread(t *testing.T) {
	for name, source := range map[string]string{
		"never read":   "print('done')",
		"closed early": "import os, time\nos.close(0)\ntime.sleep(0.5)\nprint('done')",
	} {
		r, err := box(t).Start(t.Context(), python(source), glovebox.WithStdinPipe())
		if err != nil {
			t.Fatal(err)
		}
		var write error
		for block := make([]byte, 64<<10); write == nil; { // the pipe fills up, then the program's end is told
			_, write = r.Stdin().Write(block)
		}
		if res := finished(t, r); res.Verdict != api.OK || res.Stdout != "done\n" {
			t.Errorf("%s: %s %q", name, res.Verdict, res.Stdout)
		}
		if !errors.Is(write, unix.EPIPE) && !errors.Is(write, os.ErrProcessDone) {
			t.Errorf("%s: the writer got %v", name, write)
		}
	}
	zeros, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zeros.Close()
	res := run(t, box(t), python("import sys\nprint(len(sys.stdin.buffer.read(1000)))"))
	if res.Stdout != "0\n" {
		t.Errorf("no input: %q", res.Stdout)
	}
	r, err := box(t).Start(t.Context(), python("import sys\nprint(len(sys.stdin.buffer.read(1000)))"), glovebox.WithStdin(zeros))
	if err != nil {
		t.Fatal(err)
	}
	if res := finished(t, r); res.Stdout != "1000\n" || res.Verdict != api.OK {
		t.Errorf("input without end: %s %q", res.Verdict, res.Stdout)
	}
}

// The stream of events has the whole run in order; who stops reading does not
// hold it up.
func TestEventStream(t *testing.T) {
	r, err := box(t).Start(t.Context(), python("print('a', flush=True)\nprint('b')"), glovebox.WithEventStream())
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	text := ""
	for e := range r.Events() {
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
		text += e.Data
		if e.Result != nil && e.Result.ID != r.ID() {
			t.Errorf("id %q, want %q", e.Result.ID, r.ID())
		}
	}
	if got := strings.Join(types, " "); got != "started chunk finished" || text != "a\nb\n" {
		t.Errorf("%s: %q", got, text)
	}
	r, err = box(t).Start(t.Context(), python("for i in range(1000): print(i, flush=True)"), glovebox.WithEventStream())
	if err != nil {
		t.Fatal(err)
	}
	for range r.Events() {
		break
	}
	if res := finished(t, r); res.Verdict != api.OK || !strings.HasSuffix(res.Stdout, "999\n") {
		t.Errorf("%s", res.Verdict)
	}
	for range r.Events() {
		t.Error("an event for nobody")
	}
}

// Beyond the places for running programs, callers wait in order; beyond those for
// waiting they are told so at once.
func TestBusy(t *testing.T) {
	o := options()
	o.MaxCells, o.MaxWaiting = 1, 1
	b, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	hold := python("print('ready', flush=True)\ninput()")
	in, first := io.Pipe()
	ready := make(chan struct{})
	r1, err := b.Start(t.Context(), hold, glovebox.WithStdin(in), glovebox.WithEvents(func(e glovebox.Event) {
		if e.Data == "ready\n" {
			close(ready)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	// Of two more one waits and one is refused.
	ends := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := b.Run(t.Context(), python("print(1)"))
			ends <- err
		}()
	}
	if err := <-ends; !errors.Is(err, glovebox.ErrBusy) {
		t.Errorf("the refused one: %v", err)
	}
	first.Close()
	if err := <-ends; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
	if res := finished(t, r1); res.Verdict != api.Error { // EOFError
		t.Errorf("%s", res.Verdict)
	}
}

// Two hundred programs at once share four places, and each gets its own answer.
func TestManyRuns(t *testing.T) {
	o := options()
	o.MaxCells, o.Armed = 4, 2
	b, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			word := "run " + strings.Repeat("x", i)
			r, err := b.Run(t.Context(), glovebox.Program{Command: []string{"/bin/echo", word}})
			if err != nil || r.Verdict != api.OK || r.Stdout != word+"\n" {
				t.Errorf("%d: %v, %+v", i, err, r)
			}
		})
	}
	wait.Wait()
}

// A folder of the host is seen by the program that asked for it and no other, and
// cannot be written to.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for p := filepath.Dir(dir); p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "f"), []byte("shown"), 0o644); err != nil {
		t.Fatal(err)
	}
	look := glovebox.Program{Command: []string{"/bin/sh", "-c", "cat /data/in/sub/f; echo x >/data/in/new; echo x >/data/in/sub/f"}}
	r, err := box(t).Run(t.Context(), look, glovebox.WithFolder(dir, "/data/in"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Stdout != "shown" || strings.Count(r.Stderr, "Read-only file system") != 2 {
		t.Errorf("%s: %q %q %s", r.Verdict, r.Stdout, r.Stderr, r.Message)
	}
	if r := run(t, box(t), look); !strings.Contains(r.Stderr, "No such file") || r.Stdout != "" {
		t.Errorf("another program: %q %q", r.Stdout, r.Stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if asRoot {
		closed := filepath.Join(dir, "closed")
		if err := os.Mkdir(closed, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := box(t).Run(t.Context(), look, glovebox.WithFolder(closed, "/data"))
		if err == nil || !strings.Contains(err.Error(), "is closed to other users (mode 0700)") {
			t.Errorf("a closed folder: %v", err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ folder, at, reason string }{
		{dir, "/", "must not be the root"}, {dir, "/box/x", "lies where a cell has files of its own"}, {dir, "/proc", "lies where a cell has files of its own"},
		{dir, "relative", "must be an absolute path"}, {dir, "/a/../box", "must be an absolute path"}, {link, "/data", "has a symbolic link in it; give /etc"},
		{"/proc", "/data", "shows the kernel: proc is mounted at /proc"}, {"/", "/data", "shows the kernel: "}, {"/sys/kernel", "/data", "shows the kernel: "},
		{filepath.Join(dir, "none"), "/data", "cannot be shown"}, {filepath.Join(dir, "sub/f"), "/data", "is not a folder"},
	} {
		_, err := box(t).Run(t.Context(), look, glovebox.WithFolder(c.folder, c.at))
		var fe *glovebox.FieldError
		if !errors.As(err, &fe) || fe.Field != "folders[0]" || !strings.HasPrefix(fe.Reason, c.reason) {
			t.Errorf("%s at %s: %v", c.folder, c.at, err)
		}
	}
}

// Options that only a Running has a use for are refused by Run, which would wait
// for nobody; so are two sources of one standard input.
func TestOptionsThatWaitForNobody(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	p := glovebox.Program{Command: []string{"cat"}, Limits: glovebox.Limits{WallMS: 1000}}
	for field, opts := range map[string][]glovebox.RunOption{
		"stdin":  {glovebox.WithStdinPipe()},
		"events": {glovebox.WithEventStream()},
	} {
		var at *glovebox.FieldError
		if r, err := box(t).Run(ctx, p, opts...); !errors.As(err, &at) || at.Field != field || r != nil {
			t.Errorf("%s: %v, %v", field, r, err)
		}
	}
	var at *glovebox.FieldError
	if r, err := box(t).Start(ctx, p, glovebox.WithStdin(strings.NewReader("x")), glovebox.WithStdinPipe()); !errors.As(err, &at) || at.Field != "stdin" {
		t.Errorf("two inputs: %v, %v", r, err)
	}
}
