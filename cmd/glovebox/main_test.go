package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// bin is the folder of the programs under test, of which some tests take one away.
var bin string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	testenv.Deselect()
	var err error
	if bin, err = os.MkdirTemp("", "glovebox-cmd-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build() error {
	if err := os.Chmod(bin, 0o755); err != nil { // other users run them too
		return err
	}
	for name, from := range map[string]string{"glovebox": testenv.Command(), "glovebox-init": testenv.Init(), "glovebox-js": testenv.Worker()} {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(bin, name), b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// program is the glovebox under test.
func program() string { return filepath.Join(bin, "glovebox") }

// TestScripts runs the command against the kernel of this machine.
//
// proves part of X-04
// proves part of X-07
// proves part of P-01
func TestScripts(t *testing.T) {
	p := scripts()
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// scripts are how every script is run, with variables that it has besides.
func scripts(vars ...string) testscript.Params {
	return testscript.Params{
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, vars...)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("LF", "\n")
			env.Setenv("ESC", "\x1b")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			} else if cond == "remote" {
				return len(vars) > 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "json": jsonField, "exactly": exactly},
	}
}

// exits runs a command and checks its exit status: exits N COMMAND [ARG]…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND [ARG]…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit status %d, want %d; stderr: %s", code, want, ts.ReadFile("stderr"))
	}
}

// exactly checks all of stdout, stderr or a file: exactly FILE TEXT, in which
// the text is in Go's notation without its quotes.
func exactly(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: exactly FILE TEXT")
	}
	want, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	if got := ts.ReadFile(args[0]); got != want {
		ts.Fatalf("%s is %q, want %q", args[0], got, want)
	}
}

// jsonField checks a field of the one line of JSON on stdout: json PATH VALUE,
// "*" being any value but null, and "-" none at all.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	text := ts.ReadFile("stdout")
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "}\n") {
		ts.Fatalf("stdout is not one line of JSON: %q", text)
	}
	var v any
	ts.Check(json.Unmarshal([]byte(text), &v))
	got := "-"
	for _, key := range strings.Split(args[0], ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			v = in[i]
		default:
			v = nil
		}
	}
	if v != nil {
		b, err := json.Marshal(v)
		ts.Check(err)
		got = strings.Trim(string(b), `"`)
	}
	if match := got == args[1] || args[1] == "*" && v != nil; match == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// process is a glovebox that runs beside the test.
type process struct {
	*exec.Cmd
	out    *bufio.Reader
	stderr strings.Builder
}

// prepare makes a glovebox that keeps its stderr.
func prepare(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(program(), args...)}
	p.Stderr = &p.stderr
	return p
}

// begin starts it, with a pipe for stdout unless there is something else.
func (p *process) begin(t *testing.T) *process {
	t.Helper()
	if p.Stdout == nil {
		pipe, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.out = bufio.NewReader(pipe)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// line returns the next line of stdout.
func (p *process) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("stdout ended with %q: %v; stderr: %s", s, err, p.stderr.String())
	}
	return s
}

// ends waits for the end and checks the exit status.
func (p *process) ends(t *testing.T, want int) {
	t.Helper()
	err := p.Wait()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	if got := p.ProcessState.ExitCode(); got != want {
		t.Errorf("exit status %d, want %d; stderr: %s", got, want, p.stderr.String())
	}
}
