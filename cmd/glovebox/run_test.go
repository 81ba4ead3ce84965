package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Output arrives while the program runs: it is answered before it goes on.
func TestOutputIsLive(t *testing.T) {
	for name, flags := range map[string][]string{"text": nil, "events": {"--json=stream"}} {
		t.Run(name, func(t *testing.T) {
			args := append(append([]string{"run", "--wall", "30s"}, flags...), "--", "sh", "-c", "echo ready; read x; echo got $x")
			p := prepare(t, args...)
			in, err := p.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			p.begin(t)
			for !strings.Contains(p.line(t), "ready") {
			}
			if _, err := io.WriteString(in, "word\n"); err != nil {
				t.Fatal(err)
			}
			for !strings.Contains(p.line(t), "got word") {
			}
			in.Close()
			if _, err := io.Copy(io.Discard, p.out); err != nil {
				t.Fatal(err)
			}
			p.ends(t, 0)
		})
	}
}

// A standard input that nobody ends does not keep a finished run.
func TestOpenStdin(t *testing.T) {
	p := prepare(t, "run", "--wall", "30s", "--", "true")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p.begin(t)
	p.ends(t, 0)
}

// SIGINT and SIGTERM cancel the run; its verdict says so.
func TestSignalCancels(t *testing.T) {
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			// Under nohup these tests ignore a hangup, and so would their children.
			taken := make(chan os.Signal, 1)
			signal.Notify(taken, sig)
			defer signal.Stop(taken)
			p := prepare(t, "run", "--wall", "60s", "--", "sh", "-c", "echo up; exec sleep 60")
			p.begin(t)
			p.line(t)
			if err := p.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			p.ends(t, 130)
			if got, want := p.stderr.String(), "glovebox: canceled: interrupted\n"; got != want {
				t.Errorf("stderr %q, want %q", got, want)
			}
		})
	}
}

func TestSignalCancelsWithJSON(t *testing.T) {
	p := prepare(t, "run", "--json=stream", "--wall", "60s", "--", "sh", "-c", "echo up; exec sleep 60")
	p.begin(t)
	for !strings.Contains(p.line(t), "up") {
	}
	if err := p.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	var last api.Event
	for last.Type != "finished" {
		last = api.Event{}
		if err := json.Unmarshal([]byte(p.line(t)), &last); err != nil {
			t.Fatal(err)
		}
	}
	if last.Result.Verdict != api.Canceled {
		t.Errorf("verdict %s, want %s", last.Result.Verdict, api.Canceled)
	}
	p.ends(t, 130)
}

// A signal that was ignored from the start, as nohup does, stays ignored.
func TestIgnoredSignal(t *testing.T) {
	p := prepare(t, "run", "--wall", "30s", "--", "sh", "-c", "echo up; read x; exit 7")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A shell in between, since this process's own signals are not to be touched.
	p.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, program()}, p.Args[1:]...)
	p.Path = "/bin/sh"
	p.begin(t)
	p.line(t)
	if err := p.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	in.Close()
	p.ends(t, 7)
}

// A reader that has seen enough ends the run, as it ends yes(1).
func TestReaderGone(t *testing.T) {
	p := prepare(t, "run", "--wall", "60s", "--output", "64MiB", "--", "sh", "-c", "while :; do echo y; done")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout = w
	p.begin(t)
	w.Close()
	if _, err := r.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	p.ends(t, 128+int(unix.SIGPIPE))
	if p.stderr.Len() > 0 {
		t.Errorf("stderr %q, want none", p.stderr.String())
	}
}

// Output that cannot be written ends the run and is said.
func TestFullDevice(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--wall", "60s", "--", "sh", "-c", "echo x; exec sleep 60"},
		{"run", "--wall", "60s", "--json", "--", "true"},
	} {
		p := prepare(t, args...)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.Stdout = full
		p.begin(t)
		full.Close()
		p.ends(t, exitFailed)
		if got, want := p.stderr.String(), "glovebox: write the output: no space left on device\n"; got != want {
			t.Errorf("%v: stderr %q, want %q", args, got, want)
		}
	}
}

// One file is a whole installation.
func TestSingleFile(t *testing.T) {
	text, err := os.ReadFile(program())
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "glovebox")
	if err := os.WriteFile(alone, text, 0o755); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, "run", "--wall", "30s", "--", "echo", "alone")
	p.Path = alone
	p.begin(t)
	if got := p.line(t); got != "alone\n" {
		t.Errorf("stdout %q, want %q", got, "alone\n")
	}
	p.ends(t, 0)
}

// A program beside it that others may write is not trusted.
func TestUntrustedInit(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"glovebox": 0o755, "glovebox-init": 0o777} {
		text, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	p := prepare(t, "run", "--wall", "30s", "--", "true")
	p.Path = filepath.Join(dir, "glovebox")
	p.begin(t)
	p.ends(t, exitFailed)
	if got := p.stderr.String(); !strings.Contains(got, "glovebox-init may be written by others") {
		t.Errorf("stderr %q does not say that glovebox-init may be written by others", got)
	}
}

// A user without control groups is refused with the reason and the remedy, and
// with auto is told what is missing.
//
// proves part of T-03
func TestUnavailableAsRoot(t *testing.T) {
	as := func(args ...string) *process {
		p := prepare(t, args...)
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64903, Gid: 64903}}
		p.Dir = "/"
		p.begin(t)
		return p
	}
	p := as("run", "--wall", "30s", "--", "true")
	p.ends(t, exitUnavailable)
	if got := p.stderr.String(); !strings.HasPrefix(got, "glovebox: the sandbox is not available: cgroup does not hold (") ||
		!strings.Contains(got, "; remedy: ") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q names no layer with its remedy in one line", got)
	}
	p = as("run", "--wall", "30s", "--sandbox", "auto", "--", "echo", "ran")
	if got := p.line(t); got != "ran\n" {
		t.Errorf("stdout %q, want %q", got, "ran\n")
	}
	p.ends(t, 0)
	if got := p.stderr.String(); !strings.HasPrefix(got, "glovebox: warning: the sandbox is incomplete (cgroup") {
		t.Errorf("stderr %q does not warn that cgroup is missing", got)
	}
	p = as("redteam")
	p.ends(t, exitUnavailable)
	if got := p.stderr.String(); !strings.HasPrefix(got, "glovebox: the sandbox is not available: cgroup does not hold (") {
		t.Errorf("redteam says %q", got)
	}
	p = as("status")
	table, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	p.ends(t, 1)
	for _, want := range []string{"\ncgroup           NO     ", "remedy: ", "\nincomplete (cgroup"} {
		if !strings.Contains(string(table), want) {
			t.Errorf("status has no %q:\n%s", want, table)
		}
	}
}

// A profile that belongs to somebody else is not read.
func TestForeignProfileAsRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, []byte(`{"profile":"language","allow":["mincore"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 64903, 64903); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, "run", "--wall", "30s", "--profile", path, "--", "true")
	p.begin(t)
	p.ends(t, exitUsage)
	if got := p.stderr.String(); !strings.Contains(got, "p.json: belongs to user 64903; must belong to root or to you") {
		t.Errorf("stderr %q does not tell the owner", got)
	}
}

// terminal starts glovebox with a terminal for all it reads and writes.
func terminal(t *testing.T, columns int, args ...string) (*process, *testenv.PTY) {
	t.Helper()
	pty := testenv.NewPTY(t, columns)
	p := prepare(t, args...)
	p.Stdin, p.Stdout, p.Stderr = pty.TTY, pty.TTY, pty.TTY
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.begin(t)
	return p, pty
}

// The same signals end an evaluation.
func TestSignalCancelsEval(t *testing.T) {
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		taken := make(chan os.Signal, 1)
		signal.Notify(taken, sig) // else what this process ignores its children ignore
		defer signal.Stop(taken)
		cmd := exec.Command(program(), "eval", "--timeout", "60s", "console.log('up'); for (;;);")
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stderr := bufio.NewReader(pipe)
		up, err := stderr.ReadString('\n')
		if err != nil || up != "up\n" {
			t.Fatalf("%q, %v", up, err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(stderr)
		if err := errors.Join(err, cmd.Wait()); cmd.ProcessState.ExitCode() != exitInterrupted || string(rest) != "glovebox: canceled: interrupted\n" {
			t.Errorf("%s: %v, stderr %q", sig, err, rest)
		}
	}
}
