package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

func openAudit(t testing.TB, o telemetry.AuditOptions) *telemetry.Audit {
	t.Helper()
	a, err := telemetry.OpenAudit(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func auditOptions(t testing.TB) telemetry.AuditOptions {
	return telemetry.AuditOptions{Dir: filepath.Join(t.TempDir(), "audit"), Hasher: credential.NewSecret()}
}

func entry(i int) telemetry.Entry {
	return telemetry.Entry{Kind: telemetry.EntryAccepted, Client: "net-00", RunID: fmt.Sprintf("%032x", i), RequestID: fmt.Sprint(i), Language: "python"}
}

// written is a log of n lines that was closed.
func written(t testing.TB, o telemetry.AuditOptions, n int) {
	t.Helper()
	a := openAudit(t, o)
	for i := range n {
		must(t, a.Append(t.Context(), entry(i)))
	}
	must(t, a.Close())
}

func logFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "audit-*.log"))
	must(t, err)
	return files
}

func readLines(t testing.TB, dir string) (lines []string) {
	t.Helper()
	for _, f := range logFiles(t, dir) {
		text, err := os.ReadFile(f)
		must(t, err)
		lines = append(lines, slices.Collect(strings.Lines(string(text)))...)
	}
	return lines
}

// TestAudit: what a line has, that lines of several openings are one chain, and whose
// files they are.
//
// proves part of H-85
func TestAudit(t *testing.T) {
	o := auditOptions(t)
	now := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	o.Now = func() time.Time { return now }
	a := openAudit(t, o)
	must(t, a.Append(t.Context(), telemetry.Entry{Kind: telemetry.EntryFinished, Client: "key-k1", RunID: "r1", KeyID: "k1", RequestID: "q1", Language: "c", Verdict: "ok", Code: "none"}))
	must(t, a.Close())
	written(t, o, 3)
	lines := readLines(t, o.Dir)
	var got map[string]any
	must(t, json.Unmarshal([]byte(lines[0]), &got))
	for _, hash := range []string{"prev", "hash"} {
		if h, _ := got[hash].(string); len(h) != 64 {
			t.Errorf("%s: %v", hash, got[hash])
		}
		delete(got, hash)
	}
	want := map[string]any{"seq": 1.0, "at": "2030-01-02T03:04:05.006Z", "kind": "run_finished", "client": "key-k1", "run": "r1", "key": "k1", "request": "q1", "language": "c", "verdict": "ok", "code": "none"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if first, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher); first != 1 || last != 4 || err != nil {
		t.Errorf("%d to %d, %v", first, last, err)
	}
	entries, err := os.ReadDir(o.Dir)
	must(t, err)
	for _, e := range entries {
		if st, err := e.Info(); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), st.Mode(), err)
		}
	}
	if st, err := os.Stat(o.Dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v %v", st.Mode(), err)
	}
}

// TestAuditVerify: each thing that can be done to the files without the key is found, by
// the first line that is not what was written. What was done is the only difference to
// the log that passes.
// Long because of its table.
//
// proves part of H-85
func TestAuditVerify(t *testing.T) {
	o := auditOptions(t)
	written(t, o, 20)
	file := logFiles(t, o.Dir)[0]
	good, err := os.ReadFile(file)
	must(t, err)
	head, err := os.ReadFile(filepath.Join(o.Dir, "head.json"))
	must(t, err)
	lines := slices.Collect(strings.Lines(string(good)))
	join := func(l ...[]string) []byte { return []byte(strings.Join(slices.Concat(l...), "")) }
	with := func(n int, f func(string) string) []byte {
		c := slices.Clone(lines)
		c[n] = f(c[n])
		return join(c)
	}
	// Another key, and the chain made anew with it.
	foreign := telemetry.AuditOptions{Dir: filepath.Join(t.TempDir(), "audit"), Hasher: credential.NewSecret()}
	written(t, foreign, 20)
	forged, err := os.ReadFile(logFiles(t, foreign.Dir)[0])
	must(t, err)
	foreignHead, err := os.ReadFile(filepath.Join(foreign.Dir, "head.json"))
	must(t, err)
	for name, c := range map[string]struct {
		text []byte
		head []byte
		line int64
	}{
		"as it was":               {good, head, 0},
		"half a line behind it":   {append(slices.Clone(good), `{"seq":21,"prev":"`...), head, 0}, // of who writes just now
		"a letter of a line":      {with(6, func(s string) string { return strings.Replace(s, "python", "pythom", 1) }), head, 7},
		"a time":                  {with(6, func(s string) string { return strings.Replace(s, `"at":"2`, `"at":"3`, 1) }), head, 7},
		"a member more":           {with(6, func(s string) string { return strings.Replace(s, `,"hash"`, `,"x":1,"hash"`, 1) }), head, 7},
		"a space":                 {with(6, func(s string) string { return strings.Replace(s, `,"kind"`, `, "kind"`, 1) }), head, 7},
		"a hash":                  {with(6, func(s string) string { return s[:len(s)-4] + "0\"}\n" }), head, 7},
		"the first line":          {with(0, func(s string) string { return strings.Replace(s, "python", "node", 1) }), head, 1},
		"the last line":           {with(19, func(s string) string { return strings.Replace(s, "python", "node", 1) }), head, 20},
		"one dropped":             {join(lines[:6], lines[7:]), head, 7},
		"the first dropped":       {join(lines[1:]), head, 1},
		"the last dropped":        {join(lines[:19]), head, 20},
		"half cut off":            {join(lines[:10]), head, 11},
		"cut within a line":       {good[:len(good)-40], head, 20},
		"all cut off":             {nil, head, 1},
		"two exchanged":           {join(lines[:6], lines[7:8], lines[6:7], lines[8:]), head, 7},
		"one twice":               {join(lines[:7], lines[6:]), head, 8},
		"an empty line":           {join(lines[:6], []string{"\n"}, lines[6:]), head, 7},
		"a line of rubbish":       {join(lines, []string{"rubbish\n"}), head, 21},
		"a line without end":      {join(lines[:6], []string{strings.Repeat("x", 1<<20)}), head, 7},
		"no end of line":          {join(lines[:6], []string{strings.TrimSpace(lines[6])}, lines[7:]), head, 7},
		"carriage return":         {with(6, func(s string) string { return strings.Replace(s, "\n", "\r\n", 1) }), head, 7},
		"written with other keys": {forged, head, 1},
		"head of other keys":      {forged, foreignHead, 1},
		"head changed":            {good, bytes.Replace(head, []byte(`"last":20`), []byte(`"last":19`), 1), 1},
		"head without its mac":    {good, append(bytes.Split(head, []byte(`,"mac"`))[0], '}'), 1},
		"head is rubbish":         {good, []byte("{"), 1},
		"no head":                 {good, nil, 0},
	} {
		must(t, os.WriteFile(file, c.text, 0o600))
		must(t, os.WriteFile(filepath.Join(o.Dir, "head.json"), c.head, 0o600))
		if c.head == nil {
			must(t, os.Remove(filepath.Join(o.Dir, "head.json")))
		}
		_, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher)
		if c.line == 0 && c.head != nil { // one of the two that pass
			if err != nil || last != 20 {
				t.Errorf("%s: %d, %v", name, last, err)
			}
			continue
		}
		bad, ok := errors.AsType[*telemetry.AuditError](err)
		if !ok || bad.Line != c.line || strings.Contains(err.Error(), "rubbish") {
			t.Errorf("%s: %v, want line %d", name, err, c.line)
		}
		// Who opens it sees what lies at the end.
		if a, err := telemetry.OpenAudit(o); err == nil {
			_ = a.Close()
			if slices.Contains([]string{"the last dropped", "half cut off", "cut within a line", "all cut off", "a line of rubbish", "head changed", "no head"}, name) {
				t.Errorf("%s: it is opened", name)
			}
		}
	}
	must(t, os.WriteFile(file, good, 0o600))
	must(t, os.WriteFile(filepath.Join(o.Dir, "head.json"), head, 0o600))
	if _, _, err := telemetry.VerifyAudit(o.Dir, credential.NewSecret()); err == nil {
		t.Error("verified with another key")
	}
}

// TestAuditSplice: lines that the service itself has written, after somebody had put back
// an older state, do not fit together.
//
// proves part of H-85
func TestAuditSplice(t *testing.T) {
	o := auditOptions(t)
	written(t, o, 3)
	file, path := logFiles(t, o.Dir)[0], filepath.Join(o.Dir, "head.json")
	text, err := os.ReadFile(file)
	must(t, err)
	head, err := os.ReadFile(path)
	must(t, err)
	o.Now = func() time.Time { return time.Unix(1e9, 0) }
	written(t, o, 3)
	one := readLines(t, o.Dir)
	must(t, errors.Join(os.WriteFile(file, text, 0o600), os.WriteFile(path, head, 0o600)))
	o.Now = func() time.Time { return time.Unix(2e9, 0) }
	written(t, o, 3)
	if _, _, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err != nil {
		t.Errorf("control: %v", err)
	}
	other := readLines(t, o.Dir)
	must(t, os.WriteFile(file, []byte(strings.Join(slices.Concat(one[:4], other[4:]), "")), 0o600))
	_, _, err = telemetry.VerifyAudit(o.Dir, o.Hasher)
	if bad, ok := errors.AsType[*telemetry.AuditError](err); !ok || bad.Line != 5 {
		t.Errorf("%v, want line 5", err)
	}
}

// TestAuditOneLine: one event is one line of ASCII, whatever is in it.
//
// proves part of H-85 H-74
func TestAuditOneLine(t *testing.T) {
	o := auditOptions(t)
	o.PerSecond = 1_000_000
	a := openAudit(t, o)
	const n = 100_000
	key := credential.Key.New()
	for i := range n {
		s := hostile(i)
		if i%1000 == 0 {
			s = key
		}
		e := entry(i)
		*[]*string{&e.Kind, &e.Client, &e.RunID, &e.KeyID, &e.RequestID, &e.Language, &e.Verdict, &e.Code}[i%8] = s
		must(t, a.Append(context.Background(), e))
	}
	must(t, a.Append(context.Background(), telemetry.Entry{Kind: strings.Repeat("\\", 1<<20), Code: strings.Repeat("😀", 1<<20)}))
	must(t, a.Close())
	lines := readLines(t, o.Dir)
	if len(lines) != n+1 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines {
		if strings.Trim(l, ascii) != "\n" || !json.Valid([]byte(l)) || len(l) > 8<<10 || strings.Contains(l, key) {
			t.Fatalf("line %d: %.300q", i, l)
		}
	}
	if _, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err != nil || last != n+1 {
		t.Error(last, err)
	}
}

// TestAuditRotation: files have an end, the oldest go, and the chain holds over all that
// are kept; a file that is missing in between, or the oldest one, is found.
//
// proves part of H-85 X-09
func TestAuditRotation(t *testing.T) {
	o := auditOptions(t)
	o.MaxBytes, o.MaxFiles, o.PerSecond = 64<<10, 3, 1_000_000
	written(t, o, 1000)
	written(t, o, 1000)
	files := logFiles(t, o.Dir)
	if len(files) != 3 {
		t.Fatalf("%d files", len(files))
	}
	for _, f := range files {
		if st, err := os.Stat(f); err != nil || st.Size() > o.MaxBytes {
			t.Errorf("%s has %d bytes, %v", f, st.Size(), err)
		}
	}
	first, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher)
	if err != nil || last != 2000 || first < 1200 {
		t.Errorf("%d to %d, %v", first, last, err)
	}
	for i, f := range files {
		must(t, os.Rename(f, f+".away"))
		if _, _, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err == nil {
			t.Errorf("without file %d of 3 it is verified", i+1)
		}
		must(t, os.Rename(f+".away", f))
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	must(t, os.Truncate(files[0], int64(bytes.LastIndexByte(text[:len(text)-1], '\n')+1)))
	if _, _, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err == nil {
		t.Error("without the last line of the first file it is verified")
	}
}

// TestAuditRate: a flood is cut, and counted. Strict says so to who would be admitted.
//
// proves part of H-85
func TestAuditRate(t *testing.T) {
	o := auditOptions(t)
	now := time.Unix(1e9, 0)
	o.PerSecond, o.Now = 10, func() time.Time { return now }
	outcomes := map[string]int{}
	o.Observe = func(s string) { outcomes[s]++ }
	a := openAudit(t, o)
	refused := 0
	for i := range 1000 {
		if err := a.Append(t.Context(), entry(i)); errors.Is(err, telemetry.ErrAuditRate) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 980 || outcomes[telemetry.AuditDropped] != 980 || outcomes[telemetry.AuditWritten] != 20 {
		t.Errorf("%d refused, %v", refused, outcomes)
	}
	now = now.Add(time.Second)
	must(t, a.Append(t.Context(), entry(1)))
	must(t, a.Close())
	lines := readLines(t, o.Dir)
	if len(lines) != 22 || !strings.Contains(lines[20], `"kind":"gap","count":980`) {
		t.Errorf("%d lines, the last but one %s", len(lines), lines[len(lines)-2])
	}
	if _, _, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err != nil {
		t.Error(err)
	}
}

// TestAuditLost: under Strict a file that is replaced, removed, cut or written to by
// another stops admission; without, it does not. The control is the untouched file.
//
// proves part of H-85
func TestAuditLost(t *testing.T) {
	for name, spoil := range map[string]func(string) error{
		"untouched": func(string) error { return nil },
		"removed":   os.Remove,
		"replaced":  func(f string) error { return errors.Join(os.Rename(f, f+".old"), os.WriteFile(f, nil, 0o600)) },
		"cut":       func(f string) error { return os.Truncate(f, 10) },
		"written to": func(f string) error {
			w, err := os.OpenFile(f, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = w.WriteString("{}\n")
			return errors.Join(err, w.Close())
		},
	} {
		for _, strict := range []bool{true, false} {
			o := auditOptions(t)
			o.Strict = strict
			a := openAudit(t, o)
			must(t, a.Append(t.Context(), entry(1)))
			must(t, a.Err())
			must(t, spoil(logFiles(t, o.Dir)[0]))
			// Removed and replaced are seen by Err itself, the others by who writes.
			early := a.Err()
			err := a.Append(t.Context(), entry(2))
			if name == "untouched" {
				if err != nil || a.Err() != nil {
					t.Errorf("the control: %v, %v", err, a.Err())
				}
				continue
			}
			if strict && (name == "removed" || name == "replaced") && !errors.Is(early, telemetry.ErrAuditChanged) {
				t.Errorf("%s: %v before anybody writes", name, early)
			}
			if name != "replaced" || strict { // without Strict it is looked at once a second
				if !errors.Is(err, telemetry.ErrAuditChanged) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := a.Err(); strict != errors.Is(got, telemetry.ErrAuditChanged) {
				t.Errorf("%s, strict %v: %v", name, strict, got)
			}
		}
	}
}

// TestAuditOpen: a folder that others may enter, one that is held, a link and options
// that cannot be are refused.
func TestAuditOpen(t *testing.T) {
	o := auditOptions(t)
	a := openAudit(t, o)
	if _, err := telemetry.OpenAudit(o); !errors.Is(err, telemetry.ErrAuditLocked) {
		t.Errorf("a second one: %v", err)
	}
	must(t, a.Append(t.Context(), entry(1)))
	must(t, a.Close())
	if err := a.Append(t.Context(), entry(1)); !errors.Is(err, telemetry.ErrAuditClosed) {
		t.Errorf("closed: %v", err)
	}
	must(t, os.Chmod(o.Dir, 0o750))
	if _, err := telemetry.OpenAudit(o); err == nil {
		t.Error("a folder of others")
	}
	must(t, os.Chmod(o.Dir, 0o700))
	file := logFiles(t, o.Dir)[0]
	must(t, os.Rename(file, file+"2"))
	must(t, os.Symlink(file+"2", file))
	if _, err := telemetry.OpenAudit(o); err == nil {
		t.Error("a link")
	}
	must(t, os.Rename(file+"2", file))
	must(t, openAudit(t, o).Close()) // the control
	for field, o := range map[string]telemetry.AuditOptions{
		"Dir": {}, "MaxBytes": {Dir: o.Dir, Hasher: o.Hasher, MaxBytes: 1}, "MaxFiles": {Dir: o.Dir, Hasher: o.Hasher, MaxFiles: 1}, "PerSecond": {Dir: o.Dir, Hasher: o.Hasher, PerSecond: -1},
	} {
		_, err := telemetry.OpenAudit(o)
		if bad, ok := errors.AsType[*api.FieldError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Many write at once, while it is verified; the chain holds.
func TestAuditParallel(t *testing.T) {
	o := auditOptions(t)
	o.MaxBytes, o.MaxFiles, o.PerSecond, o.Strict = 64<<10, 1000, 1_000_000, true
	a := openAudit(t, o)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				if err := errors.Join(a.Append(context.Background(), entry(i)), a.Err()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		if _, _, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	must(t, a.Close())
	if _, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err != nil || last != 4000 {
		t.Error(last, err)
	}
}

// TestAuditCrash: a program that was killed leaves a head that is behind the lines, half a
// line, or a file without a line; the chain goes on.
func TestAuditCrash(t *testing.T) {
	o := auditOptions(t)
	written(t, o, 3)
	path := filepath.Join(o.Dir, "head.json")
	head, err := os.ReadFile(path)
	must(t, err)
	written(t, o, 3)
	must(t, os.WriteFile(path, head, 0o600))
	file := logFiles(t, o.Dir)[0]
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append(text, `{"seq":7,"prev":"`...), 0o600))
	must(t, os.WriteFile(path+".new", []byte("{"), 0o600))
	next := filepath.Join(o.Dir, fmt.Sprintf("audit-%012d.log", 7))
	must(t, os.WriteFile(next, nil, 0o600))
	written(t, o, 3)
	if _, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher); last != 9 || err != nil {
		t.Errorf("%d, %v", last, err)
	}
	if st, err := os.Stat(next); err != nil || st.Size() == 0 {
		t.Errorf("the file that was begun is not gone on with: %v", err)
	}
}

// TestAuditFull: a disk that takes half a line stops admission under Strict, and when
// there is room again, the log says what is missing and goes on. The limit of a file's
// size stands for the disk.
//
// proves part of H-85
func TestAuditFull(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old)) }()
	o := auditOptions(t)
	var clock atomic.Int64
	o.Strict, o.Now = true, func() time.Time { return time.Unix(1e9+clock.Load(), 0) }
	a := openAudit(t, o)
	must(t, a.Append(t.Context(), entry(1)))
	file := logFiles(t, o.Dir)[0]
	st, err := os.Stat(file)
	must(t, err)
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(st.Size() + 50), Max: old.Max}))
	for range 2 {
		if err := a.Append(t.Context(), entry(2)); !errors.Is(err, unix.EFBIG) {
			t.Errorf("%v", err)
		}
	}
	for range 3 {
		if err := a.Err(); !errors.Is(err, unix.EFBIG) {
			t.Errorf("%v", err)
		}
		clock.Add(1)
	}
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
	clock.Add(1)
	must(t, a.Err())
	must(t, a.Append(t.Context(), entry(3)))
	must(t, a.Close())
	lines := readLines(t, o.Dir)
	if len(lines) != 3 || !strings.Contains(lines[1], `"kind":"gap","count":2,`) {
		t.Errorf("%q", lines)
	}
	if _, last, err := telemetry.VerifyAudit(o.Dir, o.Hasher); last != 3 || err != nil {
		t.Errorf("%d, %v", last, err)
	}
}

func BenchmarkAuditAppend(b *testing.B) {
	for _, always := range []bool{false, true} {
		b.Run(fmt.Sprintf("fsync=%v", always), func(b *testing.B) {
			o := auditOptions(b)
			o.PerSecond, o.FsyncAlways = 1_000_000, always
			a := openAudit(b, o)
			for b.Loop() {
				must(b, a.Append(b.Context(), entry(1)))
			}
		})
	}
}
