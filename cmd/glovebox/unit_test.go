package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

func TestParseUnits(t *testing.T) {
	for _, c := range []struct {
		unit unit
		in   string
		want int64
		err  error
	}{
		{size, "65536", 65536, nil}, {size, "1B", 1, nil}, {size, "64kB", 64_000, nil}, {size, "64k", 64 << 10, nil},
		{size, "64MiB", 64 << 20, nil}, {size, "64M", 64 << 20, nil}, {size, "64MB", 64_000_000, nil},
		{size, "1GiB", 1 << 30, nil}, {size, "64 MiB", 64 << 20, nil}, {size, "2TiB", 2 << 40, nil},
		{size, "0", 0, nil}, {size, "0MiB", 0, nil}, {size, "-1", 0, errRange}, {size, "-64MiB", 0, errRange}, {size, "8388608TiB", 0, errRange},
		{size, "9223372036854775808", 0, errRange}, {size, "NaN", 0, errForm}, {size, "Inf", 0, errForm}, {size, "1.5GiB", 0, errForm},
		{size, "1e3", 0, errForm}, {size, "", 0, errForm}, {size, "MiB", 0, errForm}, {size, "0x10", 0, errForm}, {size, "1_000", 0, errForm},
		{size, "64mib", 0, errForm}, {size, "64MiBB", 0, errForm},
		{duration, "500ms", 500, nil}, {duration, "5s", 5000, nil}, {duration, "1m", 60_000, nil}, {duration, "1m30s", 90_000, nil},
		{duration, "1.5s", 1500, nil}, {duration, "1h", 3_600_000, nil}, {duration, "1000us", 1, nil},
		{duration, "0", 0, nil}, {duration, "0s", 0, nil}, {duration, "-1ms", 0, errRange}, {duration, "-5s", 0, errRange}, {duration, "9999999999h", 0, errRange},
		{duration, "99999999999999999999s", 0, errRange}, {duration, "5", 0, errForm}, {duration, "NaN", 0, errForm}, {duration, "", 0, errForm},
		{duration, "h", 0, errForm}, {duration, "1500us", 0, errForm}, {duration, "5 s", 0, errForm}, {duration, "1d", 0, errForm},
		{percent, "50", 50, nil}, {percent, "50%", 50, nil}, {percent, "0", 0, nil}, {percent, "-5", 0, errRange}, {percent, "%", 0, errForm},
		{count, "64", 64, nil}, {count, "0", 0, nil}, {count, "-1", 0, errRange}, {count, "64%", 0, errForm}, {count, "+Inf", 0, errForm},
	} {
		if got, err := c.unit.parse(c.in); got != c.want || err != c.err {
			t.Errorf("unit %d, %q: %d, %v; want %d, %v", c.unit, c.in, got, err, c.want, c.err)
		}
	}
}

// What is written reads back as the same, whatever the value.
func TestFormatUnits(t *testing.T) {
	for _, u := range []unit{count, size, duration} {
		for _, n := range []int64{1, 999, 1000, 1023, 1024, 1500, 60_000, 90_000, 1 << 20, 3_600_000, 1<<30 + 1024, 1 << 40} {
			if got, err := u.parse(u.format(n, "")); got != n || err != nil {
				t.Errorf("unit %d: %d is written %q, which reads as %d, %v", u, n, u.format(n, ""), got, err)
			}
		}
	}
	for want, got := range map[string]string{
		"64 MiB": size.format(64<<20, " "), "4000 B": size.format(4000, " "), "500 ms": duration.format(500, " "),
		"10s": duration.format(10_000, ""), "1h": duration.format(3_600_000, ""), "1 m": duration.format(60_000, " "),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Each limit of the compiler is said by the name of the flag, within the same
// bounds, and changes nothing else.
func TestCompileLimits(t *testing.T) {
	floor, _ := glovebox.Bounds()
	for i, l := range limitFlags {
		n := max(*l.of(&floor)[0], 1)
		f := &runFlags{given: func(string) bool { return false }, compile: []string{"wall=1s", l.name + "=" + l.unit.format(n, "")}}
		got, err := f.parseLimits()
		if err != nil || got.Compile == nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		want := glovebox.Limits{Compile: &glovebox.Limits{WallMS: 1000}}
		for _, to := range limitFlags[i].of(want.Compile) {
			*to = n
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", l.name, got.Compile, want.Compile)
		}
		refused := &glovebox.FieldError{Field: "limits.compile." + l.field, Value: 7, Reason: "more than limits." + l.field}
		if got, want := flagOf(refused), fmt.Sprintf("--compile-limit %[1]s: 7: more than --%[1]s", l.name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Every limit of the contract has a flag that sets it, and the bounds that the
// command line tells are those of the library.
//
// proves part of X-07
func TestEveryLimitHasAFlag(t *testing.T) {
	floor, ceiling := glovebox.Bounds()
	var all glovebox.Limits
	for _, l := range limitFlags {
		for _, to := range l.of(&all) {
			*to = *l.of(&floor)[0]
		}
		lo, hi := *l.of(&floor)[0], *l.of(&ceiling)[0]
		for n, ok := range map[int64]bool{lo: true, hi: true, lo - 1: false, hi + 1: false} {
			var one glovebox.Limits
			*l.of(&one)[0] = n
			if n == 0 { // means the default there
				continue
			}
			if _, err := one.Resolve(api.DefaultLimits(), ceiling); (err == nil) != ok {
				t.Errorf("--%s: the library says of %d: %v", l.name, n, err)
			}
		}
		text, err := json.Marshal(limitOf(l, 1))
		if err != nil || !strings.Contains(string(text), `"`+l.field+`":1`) {
			t.Errorf("--%s sets %s and not %s", l.name, text, l.field)
		}
	}
	for i, v := 0, reflect.ValueOf(floor); i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		if name != "Compile" && reflect.ValueOf(all).Field(i).Int() != v.Field(i).Int() {
			t.Errorf("no flag sets %s", name)
		}
	}
}

func limitOf(l limitFlag, n int64) (out glovebox.Limits) {
	*l.of(&out)[0] = n
	return out
}

func TestExitStatusAndSentence(t *testing.T) {
	code := func(n int) *int { return &n }
	some := func(n int64) *int64 { return &n }
	l, compile := api.DefaultLimits(), api.DefaultCompileLimits()
	l.Compile = &compile
	for _, c := range []struct {
		r    glovebox.Result
		code int
		want string
	}{
		{glovebox.Result{Verdict: api.OK, ExitCode: code(0), WallMS: 12.3}, 0, "ok after 12 ms"},
		{glovebox.Result{Verdict: api.Error, ExitCode: code(3), WallMS: 1}, 3, "error: exit status 3 after 1 ms"},
		{glovebox.Result{Verdict: api.Error, ExitCode: code(120), WallMS: 1}, 120, "error: exit status 120 after 1 ms"},
		{glovebox.Result{Verdict: api.Error, Signal: "SIGKILL", WallMS: 1, PidsMaxHits: some(2)}, 137,
			"error: ended by SIGKILL after 1 ms; the limit of 64 processes was reached"},
		{glovebox.Result{Verdict: api.Timeout, Cause: api.CauseWall}, 124, "timeout: wall limit of 10 s"},
		{glovebox.Result{Verdict: api.Timeout, Cause: api.CauseCPU}, 124, "timeout: processor time limit of 10 s"},
		{glovebox.Result{Verdict: api.MemoryLimit, OOMKills: some(2), ExitCode: code(0)}, 120, "memory_limit: the kernel killed 2 processes at the limit of 256 MiB"},
		{glovebox.Result{Verdict: api.MemoryLimit}, 120, "memory_limit: stopped at the limit of 256 MiB"},
		{glovebox.Result{Verdict: api.OutputLimit, Cause: api.CauseStderr}, 121, "output_limit: more than 1 MiB on stderr"},
		{glovebox.Result{Verdict: api.Denied, Syscall: "bpf"}, 122, "denied: system call bpf"},
		{glovebox.Result{Verdict: api.Denied, Syscall: "bpf", Compile: &api.Compile{}}, 122, "denied: system call bpf of the compiler"},
		{glovebox.Result{Verdict: api.Denied, Syscall: "bpf", Compile: &api.Compile{ExitCode: code(0)}}, 122, "denied: system call bpf"},
		{glovebox.Result{Verdict: api.CompileError}, 123, "compile_error: the compiler refused the program"},
		{glovebox.Result{Verdict: api.CompileError, Cause: api.CauseMemory, Message: "the compiler ran out of memory"}, 123,
			"compile_error: the compiler ran out of memory, at its limit of 1 GiB"},
		{glovebox.Result{Verdict: api.CompileError, Cause: api.CauseStdout, Message: "the compiler wrote too much to stdout"}, 123,
			"compile_error: the compiler wrote too much to stdout, at its limit of 1 MiB"},
		{glovebox.Result{Verdict: api.CompileError, Message: "takes more than limits.disk_bytes, 5"}, 123, "compile_error: takes more than --disk, 5"},
		{glovebox.Result{Verdict: api.Canceled}, 130, "canceled: interrupted"},
		{glovebox.Result{Verdict: api.Interrupted, Message: "Glovebox was closed"}, 125, "interrupted: Glovebox was closed"},
		{glovebox.Result{Verdict: api.SetupFailed, Stage: "attest", Message: "attest: open-root succeeded"}, 125, "setup_failed: attest: open-root succeeded"},
		{glovebox.Result{Verdict: "unheard of", ExitCode: code(0)}, 125, "unheard of"},
	} {
		if got := exitStatus(&c.r); got != c.code {
			t.Errorf("%s: exit status %d, want %d", c.r.Verdict, got, c.code)
		}
		if got := sentence(&c.r, l); got != c.want {
			t.Errorf("%s: %q, want %q", c.r.Verdict, got, c.want)
		}
	}
}

func TestErrorsAsExitStatus(t *testing.T) {
	unavailable := &glovebox.SandboxError{Reason: "cgroup does not hold (none); remedy: one"}
	for _, c := range []struct {
		err  error
		code int
		say  string
	}{
		{usagef("--x %d", 1), 2, "--x 1"},
		{&glovebox.FieldError{Field: "limits.pids", Value: 0, Reason: "no"}, 2, "--pids: 0: no"},
		{fmt.Errorf("new: %w", unavailable), 4, "new: the sandbox is not available: cgroup does not hold (none); remedy: one"},
		{fmt.Errorf("start: %w", errInterrupted), 130, "start: canceled: interrupted"},
		{&statusError{code: 7}, 7, ""},
		{&statusError{125, io.ErrShortWrite}, 125, "short write"},
		{glovebox.ErrClosed, 125, "the Box is closed"},
	} {
		if code, say := explain(c.err); code != c.code || say != c.say {
			t.Errorf("%v: %d, %q; want %d, %q", c.err, code, say, c.code, c.say)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[string]int{"SIGHUP": 1, "SIGSEGV": 11, "SIGSYS": 31, "SIG32": 32, "SIGRTMIN": 34, "SIGRTMIN+1": 35,
		"SIGRTMIN+30": 64, "SIGRTMIN+31": 0, "SIG65": 0, "SIG-1": 0, "SIGNONE": 0, "": 0} {
		if got := signalNumber(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// Only what a host is incomplete for counts as missing, and is told in capitals.
func TestStatusTable(t *testing.T) {
	s := glovebox.Status{Kernel: "6.1", User: "root", Arch: "amd64", Warnings: []string{"cgroup: none", "swap: on"}, Layers: []glovebox.Layer{
		{Name: "root", Applied: true, Detail: "own\x1b[2J"},
		{Name: "cgroup", Detail: "none usable", Remedy: "a delegated group"},
		{Name: "speculation", Detail: "open"},
	}}
	for _, c := range []struct {
		name  string
		mode  string
		width int
		want  string
	}{
		{"require", "require", 0, "LAYER        HOLDS  DETAIL\nroot         yes    own^[[2J\ncgroup       NO     none usable\n" +
			"                    remedy: a delegated group\nspeculation  no     open\n\nJavaScript: the engine of this host\n" +
			"incomplete (cgroup; nothing runs with --sandbox require): root, kernel 6.1, amd64\n"},
		{"auto, narrow", "auto", 24, "LAYER        HOLDS  DET…\nroot         yes    own…\ncgroup       NO     non…\n" +
			"                    remedy: a delegated group\nspeculation  no     open\n\nJavaScript: the engine …\n" +
			"incomplete (cgroup; with --sandbox auto every result says so): root, kernel 6.1, amd64\n"},
	} {
		var out strings.Builder
		if err := table(&out, s, "JavaScript: the engine of this host", c.mode, c.width); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, out.String(), c.want)
		}
	}
	nothing := glovebox.Status{Warnings: []string{"no init program"}}
	if got := missing(nothing); len(got) != 1 || got[0] != "no init program" {
		t.Errorf("missing of nothing found out: %q", got)
	}
}

// The library's refusals are told by the name of the flag.
func TestFieldsAsFlags(t *testing.T) {
	for field, want := range map[string]string{
		"limits.wall_ms": "--wall: 7: no", "limits.disk_files": "--disk-files: 7: no", "language": "-l: 7: no",
		"limits.compile": "--compile-limit: 7: no", "artifacts": "--artifact: 7: no", "artifacts[12]": "--artifact: 7: no",
		"folders": "--folder: 7: no", "folders[3]": "--folder: 7: no", "network": "--network: 7: no", "env": "--env: 7: no", "env.PATH": "--env PATH: 7: no",
		"Profiles.language": `--profile: profile "language": 7: no`, "args[3]": "args[3]: 7: no",
	} {
		if got := flagOf(&glovebox.FieldError{Field: field, Value: 7, Reason: "no"}); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

// Hostile or broken profile files are refused, by the field where it is one, in words
// for people, and never crash; what is accepted says the same when it is written again.
//
// proves part of T-13
func FuzzProfile(f *testing.F) {
	for _, s := range []string{`{"profile":"language","allow":["a"]}`, `{"allow":[1]}`, `{"profile":{}}`, `{`, `[]`, `{"a":` + strings.Repeat("[", 100), "\xff", `{"profile":"x","allow":["a"]}x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		name, allow, err := parseProfile(text)
		if err != nil {
			if name != "" || allow != nil || len(err.Error()) > 3000 || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q is refused with %q, and gives %q, %q", text, err, name, allow)
			}
			return
		}
		if name == "" || len(allow) == 0 || !json.Valid(text) || len(text) > maxProfile {
			t.Fatalf("%q is accepted as %q, %q", text, name, allow)
		}
		written, err := json.Marshal(profileFile{Profile: name, Allow: allow})
		if err != nil {
			t.Fatal(err)
		}
		if again, more, err := parseProfile(written); len(written) <= maxProfile && (err != nil || again != name || !slices.Equal(more, allow)) {
			t.Fatalf("%q came back as %q, %q: %v", text, again, more, err)
		}
	})
}

func FuzzParseUnits(f *testing.F) {
	f.Add("64MiB")
	f.Add("1h2m")
	f.Add(strconv.Itoa(math.MaxInt64) + "TiB")
	f.Fuzz(func(t *testing.T, s string) {
		for _, u := range []unit{count, percent, size, duration} {
			if n, err := u.parse(s); n < 0 || err != nil && n != 0 {
				t.Errorf("unit %d, %q: %d, %v", u, s, n, err)
			}
		}
	})
}

// The help of every command tells the exit statuses that the contract gives it.
func TestHelpTellsExitStatuses(t *testing.T) {
	for name, codes := range map[string]string{
		"run": "2 4 120 121 122 123 124 125 130", "eval": "0 1 2 3 4 5 6 125 130", "status": "0 1 2 125 130",
		"check": "0 1 2 125", "mcp": "0 2 4 125", "redteam": "0 1 4 125 130", "languages": "1 2 4 125 130", "trace": "of run",
	} {
		var out strings.Builder
		if code := command([]string{name, "--help"}, &out, &out); code != 0 {
			t.Fatalf("%s: %d", name, code)
		}
		text, _, _ := strings.Cut(out.String(), "\nUsage:")
		_, text, ok := strings.Cut(text, "xit status")
		for _, code := range strings.Fields(codes) {
			if !ok || !regexp.MustCompile(`\b`+code+`\b`).MatchString(text) {
				t.Errorf("%s does not tell of %s:\n%s", name, code, text)
			}
		}
	}
}
