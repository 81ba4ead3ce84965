package glovebox_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// surviveC stands before every C program of the tests of survival. want ends
// the program with a number of its own when something did not go as planned.
const surviveC = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#define MIB (1L << 20)
static void fill(void *p, int c, long n) { memset(p, c, n); __asm__ volatile("" : : "r"(p) : "memory"); }
static void want(int ok, const char *what) {
	if (!ok) { fprintf(stderr, "%s: %d\n", what, errno); exit(99); }
}
`

// kernelSettles is how much later than its wall limit a run may end.
const kernelSettles = 2 * time.Second

// limited returns the program with other limits.
func limited(p glovebox.Program, l glovebox.Limits) glovebox.Program {
	p.Limits = l
	return p
}

// ended says how a run ended in a few words: the verdict, its cause, and the
// exit code or signal where the guest had one.
func ended(r *glovebox.Result) string {
	s := string(r.Verdict)
	if r.Cause != "" {
		s += " " + r.Cause
	}
	if r.Syscall != "" {
		s += " " + r.Syscall
	}
	if r.Verdict == "ok" || r.Verdict == "error" {
		switch {
		case r.Signal != "":
			s += " " + r.Signal
		case r.ExitCode != nil:
			s += " " + strconv.Itoa(*r.ExitCode)
		}
	}
	return s
}

// wantEnd checks how a run ended.
func wantEnd(t testing.TB, what string, r *glovebox.Result, want string) bool {
	t.Helper()
	if got := ended(r); got != want {
		t.Errorf("%s: %q, want %q (%s, stderr %q, oom_kills %s, peak %s, wall %.0f ms)", what, got, want,
			r.Message, clip(r.Stderr), number(r.OOMKills), number(r.PeakBytes), r.WallMS)
		return false
	}
	return true
}

func clip(s string) string { return s[:min(len(s), 200)] }

func number(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return strconv.FormatInt(*n, 10)
}

// atLeast tells whether a counter is known and not below a value.
func atLeast(n *int64, v int64) bool { return n != nil && *n >= v }

// timely runs a program and checks that the caller had its result within the
// wall limit and what settling may take.
func timely(t testing.TB, b *glovebox.Box, p glovebox.Program) *glovebox.Result {
	t.Helper()
	begin := time.Now()
	r := anyway(t, b, p)
	limit := time.Duration(p.Limits.WallMS) * time.Millisecond
	if p.Limits.WallMS == 0 {
		limit = 10 * time.Second
	}
	took := time.Since(begin) - time.Duration((r.QueueMS+r.SetupMS)*float64(time.Millisecond))
	if took > limit+kernelSettles {
		t.Errorf("settled after %v, limit %v", took, limit)
	}
	return r
}

// abreast calls f for the numbers below n, so many at a time.
func abreast(n, workers int, f func(int)) {
	numbers := make(chan int)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range numbers {
				f(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
}

// anyway runs a program of which any verdict is possible, setup_failed too.
func anyway(t testing.TB, b *glovebox.Box, p glovebox.Program) *glovebox.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	r, err := b.Run(ctx, p)
	if err != nil {
		t.Error(err)
		return &glovebox.Result{Message: err.Error()}
	}
	return r
}

// newBox returns a Box of the given options that is closed after the test.
func newBox(t testing.TB, o glovebox.Options) *glovebox.Box {
	t.Helper()
	b, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// guestOf finds the process of a program that was started with the mark in its
// environment, among those that come from this one.
func guestOf(mark string) int {
	for _, pid := range testenv.Descendants(os.Getpid()) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(env), "MARK="+mark+"\x00") {
			return pid
		}
	}
	return 0
}
