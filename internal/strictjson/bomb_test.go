package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// The bounds of one refusal, beside bombTime. Its text has bombLength bytes.
const (
	bombBytes = 64 << 20
	bombStack = 64 << 20 // what a goroutine of the child may have; Go allows 1 GB
)

// bombEnv names the bomb that this program, as a child, is to read; with
// unboundedEnv it does so without bounds.
const (
	bombEnv      = "GLOVEBOX_JSON_BOMB"
	unboundedEnv = "GLOVEBOX_JSON_UNBOUNDED"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(bombEnv); name != "" {
		os.Exit(bombChild(name))
	}
	os.Exit(m.Run())
}

// bombs are a head and what is repeated behind it. None of them ends.
var bombs = map[string][2]string{
	"lists":             {"", "["},
	"objects":           {"", `{"a":`},
	"both":              {"", `[{"a":`},
	"its own kind":      {"", `{"next":`},
	"its own list":      {"", `{"deep":{"a":[`},
	"limits":            {`{"limits":`, `{"compile":`},
	"raw":               {`{"raw":`, `[`},
	"any":               {`{"any":`, `{"":`},
	"long keys":         {"", `{"` + strings.Repeat(`\u00e9`, 1000) + `":`},
	"numbers":           {"[", "1,"},
	"numbers in raw":    {`{"raw":[`, "1,"},
	"empty strings":     {"[", `"",`},
	"empty objects":     {"[", "{},"},
	"small objects":     {"[", `{"a":{"b":0}},`},
	"empty lists":       {`{"list":[`, `[],`},
	"files":             {`{"files":[`, `{"mode":1},`},
	"spaces":            {"", " \n\t\r"},
	"a string":          {`"`, "a"},
	"a source":          {`{"source":"`, "é"},
	"escapes":           {`"`, `\ud83d\ude00`},
	"escaped quotes":    {`{"text":"`, `\"`},
	"not UTF-8":         {`"`, "\xff"},
	"base64":            {`{"stdin":"`, "A"},
	"escaped base64":    {`{"stdin":"`, `\u0041`},
	"a key":             {`{"`, "k"},
	"an escaped key":    {`{"`, `\u0041`},
	"digits":            {"", "9"},
	"digits of a limit": {`{"limits":{"wall_ms":`, "9"},
	"a fraction":        {`{"any":0.`, "0"},
	"an exponent":       {`{"double":1e`, "9"},
	"minus":             {"", "-"},
	"zeros":             {"", "\x00"},
	"brackets":          {"", "("},
	"templates":         {"", "`${"},
	"comments":          {"", "/*"},
	"marks":             {"", "<!--"},
}

// bomb makes the text of one. Those of names that are not in bombs are made here.
func bomb(name string) []byte {
	b := make([]byte, 0, bombLength+64)
	switch name {
	case "keys":
		b = append(b, '{')
		for i := 0; len(b) < bombLength; i++ {
			b = append(strconv.AppendInt(append(b, '"'), int64(i), 10), `":0,`...)
		}
	case "closed key", "closed base64", "closed string":
		b = append(b, map[string]string{"closed key": `{"`, "closed base64": `{"stdin":"`, "closed string": `["`}[name]...)
		b = append(b, bytes.Repeat([]byte(`\u0041`), bombLength/6)...)
		b = append(b, `!"!`...)
	default:
		b = append(b, bombs[name][0]...)
		b = append(b, bytes.Repeat([]byte(bombs[name][1]), bombLength/len(bombs[name][1]))...)
	}
	return b
}

// target is one type that a bomb is read into.
type target struct {
	name string
	v    func() any
	o    strictjson.Options
}

func targets() []target {
	o := strictjson.Options{MaxBytes: 2 * bombLength} // or the length would be what is refused
	client := o
	client.Audience = api.AudienceClient
	return []target{
		{"any", func() any { return new(any) }, o}, {"program", func() any { return new(api.Program) }, client},
		{"all", func() any { return new(all) }, o}, {"map", func() any { return new(map[string]any) }, o},
		{"raw", func() any { return new(json.RawMessage) }, o}, {"list", func() any { return new([]string) }, o},
		{"text", func() any { return new(string) }, o}, {"number", func() any { return new(float64) }, o},
		{"default", func() any { return new(any) }, strictjson.Options{}},
	}
}

// report is what the child tells of one reading.
type report struct {
	Target    string
	Took      time.Duration
	Allocated uint64
	Field     string
	Error     string
}

func bombChild(name string) int {
	debug.SetMaxStack(bombStack)
	text := bomb(name)
	if os.Getenv(unboundedEnv) != "" {
		fmt.Println(strictjson.WalkUnbounded(text, new(any)))
		return 0
	}
	for _, to := range targets() {
		r := report{Target: to.name, Took: time.Hour}
		for i := 0; i < 3 && r.Took > bombTime; i++ {
			took, allocated := measured(func() {
				var field *api.FieldError
				if err := strictjson.Decode(text, to.v(), to.o); errors.As(err, &field) {
					r.Field, r.Error = field.Field, field.Error()
				}
			})
			r.Took, r.Allocated = min(took, r.Took), allocated
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return 3
		}
	}
	return 0
}

// measured runs f and returns its processor time, which is the thread's own
// since others may be using the processor, and what it allocated in all.
func measured(f func()) (took time.Duration, allocated uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := threadTime()
	f()
	took = threadTime() - begin
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc
}

func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func child(t *testing.T, name string, env ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, bombEnv+"="+name, "GORACE=atexit_sleep_ms=0")...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// 16 MiB made to cost as much as they can end in a short, clean refusal within
// 50 ms and 64 MiB, whatever they are read into.
//
// proves part of H-48
func TestBombs(t *testing.T) {
	names := []string{"keys", "closed key", "closed base64", "closed string"}
	for name := range bombs {
		names = append(names, name)
	}
	for _, name := range names {
		out, errs, code := child(t, name)
		if code != 0 {
			t.Errorf("%s: exit status %d: %.300s", name, code, errs)
			continue
		}
		seen := 0
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); seen++ {
			var r report
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			if r.Field == "" || len(r.Error) > 1200 || strings.Contains(r.Error, "cannot be decoded") {
				t.Errorf("%s into %s: %.2000s", name, r.Target, r.Error)
			}
			if r.Took > bombTime || r.Allocated > bombBytes {
				t.Errorf("%s into %s: %v and %d MiB for %.200s", name, r.Target, r.Took, r.Allocated>>20, r.Error)
			}
		}
		if seen != len(targets()) {
			t.Errorf("%s: %d readings, want %d", name, seen, len(targets()))
		}
	}
}

// The control: without the bounds of depth and values the same text ends the
// process, and no recover would have helped.
//
// proves part of H-48
func TestBombsControl(t *testing.T) {
	for _, name := range []string{"lists", "objects"} {
		out, errs, code := child(t, name, unboundedEnv+"=1")
		if code != 2 || !strings.Contains(errs, "stack overflow") {
			t.Errorf("%s: exit status %d, %q, %.200q", name, code, out, errs)
		}
	}
}
