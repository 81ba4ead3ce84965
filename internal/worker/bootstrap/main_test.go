package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/jsc/library"
)

// child names what this test binary does instead of running tests: an engine
// serves one process, so each test has a process of its own.
const child = "GLOVEBOX_TEST_BOOTSTRAP"

// bench is what a child has to work with.
type bench struct {
	*jsc.Context
	codec    *Codec
	problems []string
	notes    []string // for the log
}

var children = map[string]func(b *bench){}

func init() {
	if os.Getenv(child) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(child)
	if name == "" {
		os.Exit(m.Run())
	}
	b, err := begin(os.Getenv("GLOVEBOX_TEST_MODE"))
	if err == nil {
		children[name](b)
		err = json.NewEncoder(os.Stdout).Encode([2][]string{b.problems, b.notes})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func begin(mode string) (*bench, error) {
	lib, err := library.Find()
	if err != nil {
		return nil, err
	}
	o := jsc.Options{}
	for _, m := range []jsc.Mode{jsc.Baseline, jsc.Full} {
		if m.String() == mode {
			o.Mode = m
		}
	}
	e, err := jsc.Load(lib, o)
	if err != nil {
		return nil, err
	}
	c, err := e.NewContext()
	if err != nil {
		return nil, err
	}
	codec, err := New(c, Limits{})
	return &bench{Context: c, codec: codec}, err
}

// inChild has a child do one thing, within two minutes, and fails with what it found.
func inChild(t *testing.T, name, mode string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = []string{child + "=" + name, "GLOVEBOX_TEST_MODE=" + mode}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	var said [2][]string // problems, notes
	err := cmd.Run()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &said)
	}
	if err != nil || log.Len() > 0 {
		t.Errorf("%v\n%.3000s", err, log.String())
	}
	for _, p := range said[0] {
		t.Error(p)
	}
	for _, n := range said[1] {
		t.Log(n)
	}
}

func (b *bench) addf(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// eval evaluates what must not throw.
func (b *bench) eval(source string) *jsc.Value {
	v, err := b.Evaluate(source, "test.js", 1)
	if err == nil {
		return v
	}
	var thrown *jsc.Exception
	if errors.As(err, &thrown) {
		if f, e := b.Evaluate("(e) => String(e) + (e && e.stack)", "say.js", 1); e == nil {
			if s, e := b.Call(f, nil, thrown.Value); e == nil {
				text, _ := s.Text()
				err = fmt.Errorf("%w: %s", err, text)
			}
		}
	}
	b.addf("%.200s: %v", source, err)
	return b.Undefined()
}

// text evaluates what gives a string.
func (b *bench) text(source string) string {
	s, err := b.eval("String(" + source + ")").Text()
	if err != nil {
		b.addf("%s: %v", source, err)
	}
	return s
}
