package executor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// What happens is written down in order: the start, what is printed, the end.
// proves part of X-16
func TestEvents(t *testing.T) {
	q := openQueue(t, queue.Options{})
	f := start(t, q, Options{})
	id := submit(t, q, "python", api.Program{Language: "python", Source: "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)\n"}, Note{})
	all, result := history(t, q, id)
	if result.Verdict != api.OK || result.Stdout != "out\n" || result.QueueMS <= 0 || types(all) != "started chunk finished" {
		t.Errorf("%s: %+v", types(all), result)
	}
	if out, err := streamed(t, q, id, all, "stdout"), streamed(t, q, id, all, "stderr"); out != "out\n" || err != "err\n" {
		t.Errorf("%q %q", out, err)
	}
	if e := <-f.ends; e.Job.ID != id || e.Result.Verdict != api.OK || !json.Valid(e.Data) {
		t.Errorf("%+v", e)
	}
}

// A program that is compiled begins with its compiler, and tells of its own start.
// proves part of X-16
func TestCompiledEvents(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	id := submit(t, q, "good", api.Program{Language: "c", Source: "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 3; }\n"}, Note{})
	all, result := history(t, q, id)
	if result.Verdict != api.Error || result.ExitCode == nil || *result.ExitCode != 3 || types(all) != "started compiled program chunk finished" || !bytes.Equal(all[0].Data, PhaseCompile) {
		t.Errorf("%s %s: %+v", types(all), all[0].Data, result)
	}
	id = submit(t, q, "bad", api.Program{Language: "c", Source: "int main(void) { return nothing; }\n"}, Note{})
	all, result = history(t, q, id)
	if result.Verdict != api.CompileError || types(all) != "started compiled finished" || !strings.Contains(result.Compile.Stderr, "nothing") {
		t.Errorf("%s: %+v", types(all), result)
	}
}

// What a program prints in many small pieces is streamed in few, all of it, and does
// not use up what a run may write; so too bytes that are no text, and two streams in
// turn.
// proves part of H-47 X-16
func TestTinyPrints(t *testing.T) {
	t.Parallel() // it waits most of its time
	const most = 1200
	q := openQueue(t, queue.Options{RunEvents: most})
	start(t, q, Options{})
	for name, write := range map[string]string{
		"text":   "os.write(1, b'x')",
		"binary": "os.write(1, b'\\xff')",
		"turns":  "os.write(1 + i % 2, b'y')",
		"mixed":  "os.write(1, b'z\\xfe'[i % 2:i % 2 + 1])",
	} {
		t.Run(name, func(t *testing.T) {
			id := submit(t, q, name, api.Program{Language: "python", Source: fmt.Sprintf("import os, time\nfor i in range(10000):\n %s\n if i %% 10 == 0: time.sleep(0.001)\n", write),
				Limits: api.Limits{WallMS: 30_000}}, Note{})
			all, result := history(t, q, id)
			if result.Verdict != api.OK {
				t.Fatalf("%+v", result)
			}
			out, errs := whole(t, result.Stdout, result.StdoutBase64), whole(t, result.Stderr, result.StderrBase64)
			if len(out)+len(errs) != 10_000 {
				t.Errorf("%d bytes in the result", len(out)+len(errs))
			}
			if streamed(t, q, id, all, "stdout") != out || streamed(t, q, id, all, "stderr") != errs {
				t.Errorf("%d and %d bytes were streamed, of %d and %d", len(streamed(t, q, id, all, "stdout")), len(streamed(t, q, id, all, "stderr")), len(out), len(errs))
			}
			t.Logf("%d events", len(all))
		})
	}
}

func whole(t testing.TB, text, coded string) string {
	t.Helper()
	if coded == "" {
		return text
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	must(t, err)
	return string(b)
}

// When a run has written all that it may, what is streamed ends, and the result is
// whole all the same.
// proves part of H-47
func TestEventsUsedUp(t *testing.T) {
	for name, o := range map[string]queue.Options{"events": {RunEvents: 16}, "bytes": {RunBytes: 1 << 10}} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, o)
			start(t, q, Options{})
			id := submit(t, q, "long", api.Program{Language: "python", Source: "import os, time\nfor i in range(300):\n os.write(1, b'%07d\\n' % i)\n time.sleep(0.002)\n"}, Note{})
			all, result := history(t, q, id)
			got := streamed(t, q, id, all, "stdout")
			if result.Verdict != api.OK || len(result.Stdout) != 2400 {
				t.Errorf("%+v", result)
			}
			if got == "" || len(got) >= 2400 || !strings.HasPrefix(result.Stdout, got) {
				t.Errorf("%d bytes were streamed of %d", len(got), len(result.Stdout))
			}
			if len(all) > 20 {
				t.Errorf("%d events", len(all))
			}
		})
	}
}

// Large results go through the object store.
// proves part of H-47
func TestLargeOutput(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	for name, c := range map[string]struct {
		write string
		size  int
	}{
		"1.5 MB":       {"os.write(1, b'0123456789abcde\\n' * 4096)", 1_500_000},
		"8 MB":         {"os.write(1, b'0123456789abcde\\n' * 4096)", 8_000_000},
		"8 MB, binary": {"os.write(1, bytes(range(256)) * 256)", 8_000_000},
		// Six times as long in JSON, so that the events do not suffice.
		"4 MB, escaped": {"os.write(1, b'\\1' * 65536)", 4_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.NewReplacer(" ", "", ".", "", ",", "").Replace(name)
			submit(t, q, id, api.Program{Language: "python", Source: fmt.Sprintf("import os\nn = 0\nwhile n < %d:\n n += %s\n", c.size, c.write),
				Limits: api.Limits{StdoutBytes: 10 << 20, WallMS: 30_000}}, Note{})
			all, result := history(t, q, id)
			out := whole(t, result.Stdout, result.StdoutBase64)
			if result.Verdict != api.OK || len(out) < c.size || result.Truncated.Stdout {
				t.Errorf("%s: %d bytes", result.Verdict, len(out))
			}
			if all[len(all)-1].Object == "" {
				t.Error("the result is a message")
			}
			got := streamed(t, q, id, all, "stdout")
			if got != out && (name != "4 MB, escaped" || !strings.HasPrefix(out, got) || got == "") {
				t.Errorf("%d bytes were streamed of %d", len(got), len(out))
			}
		})
	}
}

// proves part of H-47
func TestArtifacts(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	id := submit(t, q, "files", api.Program{Language: "python", Source: "import os\nos.mkdir('d')\nopen('d/a b.bin','wb').write(bytes(range(256)) * 4096)\nopen('empty','w')\n", Artifacts: []string{"d/*", "empty"}}, Note{})
	_, result := history(t, q, id)
	if len(result.Artifacts) != 2 {
		t.Fatalf("%+v", result)
	}
	for _, a := range result.Artifacts {
		if len(a.Content) > 0 || a.URL != api.ArtifactPath(id, a.Name) {
			t.Errorf("%+v", a)
		}
		o, err := q.Runs().Get(t.Context(), id, ArtifactObject(a.Name))
		must(t, err)
		data, err := o.Bytes(2 << 20)
		must(t, err)
		if want := bytes.Repeat(upTo(256), map[string]int{"d/a b.bin": 4096}[a.Name]); !bytes.Equal(data, want) || a.Size != int64(len(want)) {
			t.Errorf("%s has %d bytes, of %d", a.Name, len(data), a.Size)
		}
	}
}

// languageThatNeeds is the file of a language that needs another file.
func languageThatNeeds(t *testing.T, name, needed string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "languages", "bash.json"))
	must(t, err)
	var l map[string]any
	must(t, json.Unmarshal(text, &l))
	l["name"], l["needs"], l["extensions"], l["interpreters"], l["file"] = name, []string{needed}, []string{"." + name}, []string{}, "main."+name
	text, err = json.Marshal(l)
	must(t, err)
	file := filepath.Join(t.TempDir(), name+".json")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

func upTo(n int) (b []byte) {
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

// What cannot be run ends as that, whatever is wrong with it.
// proves part of X-13 X-17
func TestCannotRun(t *testing.T) {
	q := openQueue(t, queue.Options{})
	box := newBox(t, languageThatNeeds(t, "gone", "/usr/share/glovebox-is-not-here"), languageThatNeeds(t, "here", "/usr/share"))
	defer func() { must(t, box.Close()) }()
	f := start(t, q, Options{Slots: 1, Box: box})
	defer f.quit()
	run := func(id string, p api.Program) *api.Result {
		_, result := history(t, q, submit(t, q, id, p, Note{}))
		return result
	}
	if r := run("here", api.Program{Language: "here", Source: "echo here"}); r.Verdict != api.OK || r.Stdout != "here\n" {
		t.Fatalf("%+v", r)
	}
	for id, p := range map[string]api.Program{
		"gone":    {Language: "gone", Source: "echo here"},
		"unknown": {Language: "cobol", Source: "1"},
		"nothing": {},
		"limit":   {Command: []string{"/bin/true"}, Limits: api.Limits{WallMS: 1 << 40}},
	} {
		result := run(id, p)
		if result.Verdict != api.SetupFailed || result.Stage == "" || result.Message == "" || result.APIVersion == "" {
			t.Errorf("%s: %+v", id, result)
		}
	}
	must(t, q.Submit(t.Context(), queue.Job{ID: "garbage", Client: "c", Program: []byte("{"), Note: []byte("{}")}))
	if _, result := history(t, q, "garbage"); result.Verdict != api.SetupFailed || result.Stage != "decode" {
		t.Errorf("%+v", result)
	}
	if r := run("missing", api.Program{Command: []string{"/bin/no-such-program"}}); r.Verdict != api.Error || r.ExitCode == nil || *r.ExitCode != 127 {
		t.Errorf("%+v", r)
	}
	if result := run("control", api.Program{Command: []string{"/bin/true"}}); result.Verdict != api.OK {
		t.Errorf("the slot is gone: %+v", result)
	}
}
