//go:build linux

// Command liar is a worker that lies: it takes the place of glovebox-js in tests
// and does what its script says, in the same cell and behind the same seal. No
// engine is in it.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/jsc/library"
	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
	"github.com/glovebox-dev/glovebox/internal/worker"
)

func main() {
	steps, err := steps()
	if err == nil {
		l := &liar{in: wire.NewReader(channel{}, wire.Host)}
		for i := range steps {
			if err = l.do(&steps[i]); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "liar:", err)
		os.Exit(3)
	}
}

// steps are those of the script, or what an honest worker would begin with.
func steps() ([]script.Step, error) {
	if text, ok := strings.CutPrefix(os.Args[len(os.Args)-1], script.Prefix); ok {
		var all []script.Step
		err := json.Unmarshal([]byte(text), &all)
		return all, err
	}
	return []script.Step{{Do: script.Hello}, {Do: script.Seal}, {Do: script.Ready}, {Do: script.Rest}}, nil
}

// channel is descriptor 0, by plain calls: the runtime's poller has no place
// behind the seal.
type channel struct{}

func (channel) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(0, p)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			os.Exit(0) // the host has hung up
		}
		return max(n, 0), err
	}
}

func (channel) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n, err := unix.Write(0, p[done:])
		if err != nil && err != unix.EINTR {
			os.Exit(0)
		}
		done += max(n, 0)
	}
	return len(p), nil
}

// liar is what it knows of the conversation.
type liar struct {
	in     *wire.Reader
	eval   uint64
	tokens []uint64
	calls  uint64
	kept   [][]byte
}

func (l *liar) do(s *script.Step) error {
	switch s.Do {
	case script.Hello:
		return l.hello(s)
	case script.Seal:
		time.AfterFunc(time.Hour, func() {}).Stop() // see internal/worker
		return worker.Seal()
	case script.Ready:
		return l.write(&wire.Ready{})
	case script.Await:
		return l.await(s)
	case script.Frame, script.Raw:
		return l.say(s)
	case script.Drain:
		go func() {
			for p := make([]byte, 64<<10); ; {
				_, _ = channel{}.Read(p)
			}
		}()
	case script.Sip:
		go func() {
			for p := make([]byte, s.N); ; time.Sleep(time.Duration(s.MS) * time.Millisecond) {
				_, _ = channel{}.Read(p)
			}
		}()
	case script.Sleep:
		time.Sleep(time.Duration(s.MS) * time.Millisecond)
	case script.Spin:
		for end := time.Now().Add(time.Duration(s.MS) * time.Millisecond); time.Now().Before(end); {
		}
	case script.Rest:
		for {
			time.Sleep(time.Hour)
		}
	case script.Exit:
		os.Exit(int(s.N))
	case script.Die:
		return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGKILL)
	default:
		return l.take(s)
	}
	return nil
}

// take does the steps that use up what the kernel counts.
func (l *liar) take(s *script.Step) error {
	switch s.Do {
	case script.Alloc:
		for left := s.N; left > 0; left -= 1 << 20 {
			p := make([]byte, 1<<20)
			for i := 0; i < len(p); i += 4096 {
				p[i] = 1
			}
			l.kept = append(l.kept, p)
		}
	case script.Quiet:
		_ = unix.Close(1)
		return unix.Close(2)
	case script.Chat:
		line := bytes.Repeat([]byte("\x1b[31mnotice\n"), 100)
		for left := s.N; left > 0; left -= int64(len(line)) {
			_, _ = unix.Write(2, line)
		}
	case script.Thread:
		var begun sync.WaitGroup
		defer begun.Wait()
		for range s.N {
			begun.Add(1)
			go func() {
				begun.Done()
				_ = unix.Nanosleep(&unix.Timespec{Sec: 3600}, nil) // keeps a thread
			}()
		}
	default:
		return fmt.Errorf("no such step: %q", s.Do)
	}
	return nil
}

func (l *liar) hello(s *script.Step) error {
	lib, err := library.Inspect(os.Args[3])
	if err != nil {
		return err
	}
	m := &wire.WorkerHello{Version: wire.Version, Engine: "JavaScriptCore " + lib.Version, BuildID: lib.BuildID, Mode: os.Args[1]}
	if s.Text != "" {
		m.BuildID = s.Text
	}
	if s.Mode != "" {
		m.Mode = s.Mode
	}
	return l.write(m)
}

func (l *liar) write(m wire.Message) error {
	b, err := wire.AppendFrame(nil, m)
	if err != nil {
		return err
	}
	_, err = channel{}.Write(b)
	return err
}

// await reads up to a message of one type.
func (l *liar) await(s *script.Step) error {
	for left := max(s.N, 1); left > 0; {
		m, err := l.in.Read()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *wire.Eval:
			l.eval = m.ID
		case *wire.Bind:
			l.tokens = append(l.tokens, m.Token)
		}
		if m.Type() == wire.Type(s.Type) {
			left--
		}
	}
	return nil
}

// say writes a frame, or bytes, as often as it should.
func (l *liar) say(s *script.Step) error {
	var b []byte
	for i := range max(s.Times, 1) {
		if i == 0 || varies(s.Parts) {
			b = l.build(b[:0], s)
		}
		for p := b; len(p) > 0; {
			n := len(p)
			if s.Chunk > 0 {
				n = min(n, s.Chunk)
			}
			if _, err := (channel{}).Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
			if s.MS > 0 {
				time.Sleep(time.Duration(s.MS) * time.Millisecond)
			}
		}
	}
	return nil
}

func varies(parts []script.Part) bool {
	for _, p := range parts {
		if p.Var == script.Call {
			return true
		}
	}
	return false
}

func (l *liar) build(b []byte, s *script.Step) []byte {
	if s.Do == script.Frame {
		b = append(b, 0, 0, 0, 0, s.Type)
	}
	for _, p := range s.Parts {
		for range max(p.Times, 1) {
			b = append(b, p.Bytes...)
		}
		if p.Var != "" {
			b = binary.AppendUvarint(b, l.variable(p.Var))
		}
	}
	if s.Do == script.Frame {
		n := uint32(len(b) - 4)
		if s.Claim != nil {
			n = *s.Claim
		}
		binary.LittleEndian.PutUint32(b, n)
	}
	return b
}

func (l *liar) variable(name string) uint64 {
	switch name {
	case script.Eval:
		return l.eval
	case script.Token, script.First:
		if len(l.tokens) == 0 {
			return 0
		}
		if name == script.First {
			return l.tokens[0]
		}
		return l.tokens[len(l.tokens)-1]
	case script.Call:
		l.calls++
	}
	return l.calls
}
