package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// wallC stands before every C program of the tests of the wall. say prints the
// outcome of a call: its name and "OK" or the number of its errno.
const wallC = `
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sched.h>
#include <signal.h>
#include <dirent.h>
#include <time.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <arpa/inet.h>
static void say(const char *name, long r) {
	if (r < 0) printf("%s %d\n", name, errno); else printf("%s OK\n", name);
	fflush(stdout);
}
// ready tells the test that it may look from outside, and waits until it has.
static void ready(void) {
	char c;
	printf("ready\n"); fflush(stdout);
	while (read(0, &c, 1) > 0) {}
}
`

// answers are what a program said, by name: "OK" or the errno's name.
func answers(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(value); err == nil && n > 0 && unix.ErrnoName(unix.Errno(n)) != "" {
			value = unix.ErrnoName(unix.Errno(n))
		}
		m[name] = value
	}
	return m
}

// outcome is one thing a guest tries: what the wall answers, and what comes of
// it with a layer off. Several answers are parted by "|".
type outcome struct{ name, sealed, control string }

// compare runs one program twice, sealed and as the control in a Box that lacks
// the named layers, and checks every answer of both.
func compare(t *testing.T, p glovebox.Program, table []outcome, off ...string) {
	t.Helper()
	for _, c := range []struct {
		name string
		box  *glovebox.Box
		want func(outcome) string
	}{
		{"sealed", box(t), func(o outcome) string { return o.sealed }},
		{"control without " + strings.Join(off, ", "), without(t, off...), func(o outcome) string { return o.control }},
	} {
		r := run(t, c.box, p)
		got := answers(r.Stdout)
		for _, o := range table {
			if want := c.want(o); !slices.Contains(strings.Split(want, "|"), got[o.name]) {
				t.Errorf("%s: %s answered %q, want %s", c.name, o.name, got[o.name], want)
			}
			delete(got, o.name)
		}
		if len(got) > 0 {
			t.Errorf("%s: not in the table: %v", c.name, got)
		}
		if r.ExitCode == nil || *r.ExitCode != 0 {
			t.Errorf("%s: the program ended with %s %s %s %s", c.name, r.Verdict, r.Syscall, r.Signal, r.Stderr)
		}
	}
}

// live is a program that has said "ready" and waits.
type live struct {
	t           *testing.T
	running     *glovebox.Running
	in          *io.PipeWriter
	guest, init int // the host's numbers of the two processes
}

// pause starts a program and returns once it has said "ready". Release lets it
// go on.
func pause(t *testing.T, b *glovebox.Box, p glovebox.Program) *live {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	mark := fmt.Sprintf("m%d", time.Now().UnixNano())
	p.Env = maps.Clone(p.Env)
	if p.Env == nil {
		p.Env = map[string]string{}
	}
	p.Env["WALL_MARK"] = mark
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	ready, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	running, err := b.Start(ctx, p, glovebox.WithStdin(r), glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" && strings.Contains(e.Data, "ready\n") {
			once.Do(func() { close(ready) })
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, running: running, in: w}
	go func() { _, _ = running.Wait(); close(done) }()
	select {
	case <-ready:
	case <-done:
		res, err := running.Wait()
		t.Fatalf("the program ended before it was ready: %v %+v", err, res)
	}
	for _, pid := range testenv.Descendants(os.Getpid()) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(env), "WALL_MARK="+mark+"\x00") && (l.guest == 0 || testenv.Parent(l.guest) == pid) {
			l.guest = pid
		}
	}
	if l.guest == 0 {
		t.Fatal("the guest is not among the processes of this machine")
	}
	l.init = testenv.Parent(l.guest)
	return l
}

// release lets the program go on and returns its result.
func (l *live) release() *glovebox.Result {
	l.t.Helper()
	l.in.Close()
	r, err := l.running.Wait()
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// field reads one line of a process's status, as the host sees it.
func (l *live) field(pid int, name string) string {
	l.t.Helper()
	return statusField(readFile(l.t, fmt.Sprintf("/proc/%d/status", pid)), name)
}

func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return "no such line"
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// openDir makes a directory of the host that every user may enter, read and
// write, so that permissions are not what stops a guest.
func openDir(t *testing.T) string {
	t.Helper()
	// Not below /tmp: a control that keeps the host's root covers that.
	dir, err := os.MkdirTemp("/var/tmp", "glovebox-wall-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// canary puts a file with a secret into a directory, for all to read and write.
func canary(t *testing.T, dir string) (path, secret string) {
	t.Helper()
	path, secret = filepath.Join(dir, "canary"), fmt.Sprintf("secret-%d", time.Now().UnixNano())
	if err := os.WriteFile(path, []byte(secret), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path, secret
}

// mustChmod opens a file or socket of the host to all users.
func mustChmod(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
}

// sealedCell waits until some cell that this process has started is sealed.
func sealedCell() error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		for _, pid := range testenv.Descendants(os.Getpid()) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if statusField(string(status), "Seccomp") == "2" {
				return nil
			}
		}
	}
	return errors.New("no cell is armed")
}

func awaitSealed(t *testing.T) {
	t.Helper()
	if err := sealedCell(); err != nil {
		t.Fatal(err)
	}
}
