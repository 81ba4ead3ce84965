//go:build linux

// Package worker is the inside of one JavaScript runtime: a process that loads
// the engine, seals itself, and then serves its host over one socket until
// either of them ends.
//
// Main is the order of its life; serve.go is what it does when the host asks;
// native.go is what the bootstrap script may ask of Go; bootstrap/*.js is the
// script, which makes the guest's globals before any guest code.
//
// There is one goroutine, on the thread of the engine. Timers, files and
// contexts of the standard library are not used after the seal: they would want
// system calls that are gone.
package worker

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/jsc/library"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// channel is the descriptor of the socket to the host.
const channel = 0

// modes by the word that the host says.
var modes = map[string]jsc.Mode{"interpreter": jsc.Interpreter, "baseline": jsc.Baseline, "full": jsc.Full}

// Main is the worker's life. args are its own path, the engine's mode, "wasm" or
// "nowasm", the path of the engine's library, and the files that the library may
// map. The calling goroutine is locked to its thread. The exit code is 0 when
// the host has ended the conversation, 2 for wrong arguments, 1 otherwise.
//
// With one argument, "transform", the worker has no engine: see transform.go.
func Main(args []string) int {
	begin := time.Now()
	if len(args) == 2 && args[1] == wire.TransformMode {
		return transformMain()
	}
	if len(args) < 4 || args[2] != "wasm" && args[2] != "nowasm" {
		fmt.Fprintln(os.Stderr, "glovebox-js: started by Glovebox, not by hand")
		return 2
	}
	mode, ok := modes[args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "glovebox-js: no such mode")
		return 2
	}
	debug.SetGCPercent(200)
	s := &server{in: wire.NewReader(socket(channel), wire.Host), out: wire.NewWriter(socket(channel)), begin: begin}
	options := jsc.Options{Mode: mode, WebAssembly: args[2] == "wasm", Files: args[4:]}
	if err := s.start(options, args[3]); err != nil {
		s.fatal("setup_failed", err)
		return 1
	}
	if err := s.serve(); err != nil {
		s.fatal("protocol", err)
		return 1
	}
	return 0
}

// start loads the engine, says hello, makes the guest's world, and seals.
func (s *server) start(options jsc.Options, path string) error {
	lib, err := library.Inspect(path)
	if err != nil {
		return err
	}
	engine, err := jsc.Load(lib, options)
	if err != nil {
		return err
	}
	s.step("load")
	if s.js, err = engine.NewContext(); err != nil {
		return err
	}
	s.step("context")
	hello := &wire.WorkerHello{Version: wire.Version, Engine: "JavaScriptCore " + lib.Version, BuildID: lib.BuildID, Mode: options.Mode.String(), PID: uint64(os.Getpid())}
	if err := s.out.Write(hello); err != nil {
		return err
	}
	if err := s.openWorld(); err != nil {
		return err
	}
	// The engine's watchdog is a thread with a loop of its own, which wants a pipe
	// when it begins.
	s.js.SetTimeLimit(time.Second, nil)
	if v, err := s.js.Evaluate("0", hiddenName, 1); err == nil {
		v.Release()
	}
	s.js.SetTimeLimit(0, nil)
	// The Go runtime's scavenger of memory sets a timer one day, whose first wants
	// the runtime's poller, which it makes of calls that are gone then.
	time.AfterFunc(time.Hour, func() {}).Stop()
	s.step("bootstrap")
	if err := seal(); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	s.step("seal")
	if err := probe(); err != nil {
		return fmt.Errorf("attest: %w", err)
	}
	s.step("attest")
	if err := s.out.Write(&wire.Ready{Steps: s.steps}); err != nil {
		return err
	}
	return s.look() // while the host looks at this process
}

// step notes how long a stage took.
func (s *server) step(name string) {
	now := time.Now()
	s.steps = append(s.steps, wire.Step{Name: name, NS: uint64(now.Sub(s.begin))})
	s.begin = now
}

// fatal is the last word of a worker that cannot go on.
func (s *server) fatal(kind string, err error) {
	text := err.Error()
	_ = s.out.Write(&wire.Fatal{Kind: kind, Message: text[:min(len(text), 4<<10)]})
	// With the worker's end the host closes the socket, read or not: it has a moment to read.
	ready := []unix.PollFd{{Fd: channel, Events: unix.POLLIN}}
	_, _ = unix.Ppoll(ready, &unix.Timespec{Nsec: 200e6}, nil)
}

// socket reads and writes a descriptor by plain calls: the runtime's poller has
// no place behind the seal.
type socket int

// lookFor is how long a read looks before it sleeps: what the host sends at once
// is there sooner than a sleeper would be woken.
const lookFor = 40 * time.Microsecond

// look waits a moment for something to read, unless there is only one processor:
// then whoever would send it needs that.
func (fd socket) look() {
	if runtime.NumCPU() == 1 {
		return
	}
	for end := time.Now().Add(lookFor); time.Now().Before(end); {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Ppoll(ready, &unix.Timespec{}, nil); n != 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// Read blocks until there is something; 0 bytes are the end.
func (fd socket) Read(p []byte) (int, error) {
	fd.look()
	for {
		n, err := unix.Read(int(fd), p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 && len(p) > 0 {
			return 0, errEnd
		}
		return n, nil
	}
}

// Write writes all of p.
func (fd socket) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(int(fd), p[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}
