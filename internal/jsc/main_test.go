package jsc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/jsc/library"
)

// child names, in its environment, what this test binary does instead of
// running tests: an engine serves one process, so each test of it has its own.
const child = "GLOVEBOX_TEST_JSC"

// children are the things a child can do. It has the process's main thread. What
// it returns is printed as JSON, for the test to read.
var children = map[string]func(arg string) (any, error){}

func init() {
	if os.Getenv(child) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	name, arg, _ := strings.Cut(os.Getenv(child), " ")
	if name == "" {
		os.Exit(m.Run())
	}
	result, err := children[name](arg)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ended is how a child ended.
type ended struct {
	out, log string
	err      error
}

// run has a child do something, with more of an environment, within two minutes.
func run(t testing.TB, name, arg string, env ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append([]string{child + "=" + name + " " + arg, "PATH=" + os.Getenv("PATH")}, env...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	return ended{out.String(), log.String(), errors.Join(err, ctx.Err())}
}

// ask is run for a child that must do well; its answer is read into result.
func ask(t testing.TB, result any, name, arg string, env ...string) {
	t.Helper()
	e := run(t, name, arg, env...)
	if e.err != nil {
		t.Errorf("%s %s: %v\n%.2000s", name, arg, e.err, e.log)
		return
	}
	if e.log != "" {
		t.Errorf("%s %s wrote to stderr: %s", name, arg, e.log)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal([]byte(e.out), result); err != nil {
		t.Errorf("%s: %v: %q", name, err, e.out)
	}
}

// start loads the engine in a child.
func start(o Options, more ...string) (*Context, error) {
	lib, err := library.Find()
	if err != nil {
		return nil, err
	}
	e, err := load(lib, o, more...)
	if err != nil {
		return nil, err
	}
	return e.NewContext()
}
