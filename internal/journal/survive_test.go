package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reopen loads a file, cuts off what is torn and goes on with it.
func reopen(t testing.TB, path string, o LoadOptions) (*File, *Loaded, *Writer) {
	t.Helper()
	f, data, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	l, err := Load(data, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Cut(l.Good); err != nil {
		t.Fatal(err)
	}
	w, err := Resume(f, l, o.Keys, o.Owner)
	if err != nil {
		t.Fatal(err)
	}
	return f, l, w
}

// calls is a journal of a feed with calls that wait for their answers.
func calls(t testing.TB, n int, arg string) (data []byte, ends []int, heads []Head) {
	t.Helper()
	m := &Memory{}
	w, err := Create(m, beginOf(t, settings))
	if err == nil {
		_, err = w.Append(Record{TypeFeed, &Feed{Feed: 1}, []byte(arg)})
	}
	for range n {
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Append(Record{TypeAsk, w.NextCall(arg), []byte(arg)})
		ends, heads = append(ends, len(m.Bytes)), append(heads, w.Head())
	}
	return m.Bytes, ends, heads
}

// TestTornTail is the cases 183 and 184: cut by one byte up to all of its last
// record, within characters too, a journal loads without that record, goes on
// behind the ones before, and is whole when it is read again. The control: what
// is appended behind a torn record that was left there is lost.
// Long because of its control.
//
// proves part of S-01
func TestTornTail(t *testing.T) {
	var c struct {
		Make struct {
			Calls int
			Arg   string
		}
	}
	text, err := os.ReadFile("testdata/184-journal-torn-utf8.json")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c.Make.Calls != 5 || !bytes.Contains([]byte(c.Make.Arg), []byte("漢")) {
		t.Fatalf("%+v, %v", c, err)
	}
	data, ends, heads := calls(t, c.Make.Calls, c.Make.Arg)
	last := ends[len(ends)-1] - ends[len(ends)-2]
	if last < 64 {
		t.Fatalf("the last record has %d bytes", last)
	}
	dir := t.TempDir()
	for cut := range last + 1 {
		path := filepath.Join(dir, fmt.Sprint(cut))
		if err := os.WriteFile(path, data[:len(data)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		o := optionsOf(t, settings)
		o.Head = &heads[len(heads)-2]
		f, l, w := reopen(t, path, o)
		f.NoSync = true
		if lost := cut > 0; l.Torn != (lost && cut < last) || l.Beyond == lost || len(l.Waiting) == 5 == lost {
			t.Errorf("cut by %d: torn %v, beyond %v, waiting %v", cut, l.Torn, l.Beyond, l.Waiting)
		}
		if _, err := w.Append(Record{TypeStart, w.NextCall("again"), []byte("é")}); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		head := w.Head()
		o.Head = &head
		f, l, _ = reopen(t, path, o)
		if l.Torn || len(l.InDoubt) != 1 || l.InDoubt[0].Tool != "again" {
			t.Errorf("cut by %d and gone on: %+v", cut, l.State)
		}
		_ = f.Close()
	}
	k, err := derive(ringOf(t, "k1"), "k1", owner)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Load(data[:len(data)-9], optionsOf(t, settings))
	if err != nil {
		t.Fatal(err)
	}
	glued, _, err := k.append(bytes.Clone(data[:len(data)-9]), l.Chain, &Record{TypeBudget, &Budget{}, nil})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(glued, optionsOf(t, settings)); !errors.Is(err, Forged) {
		t.Errorf("the control: %v", err)
	}
}

// crashVar names, for a child of the test, where to end.
const crashVar = "GLOVEBOX_TEST_CRASH"

// charge is a session's part around one call of a tool whose effect is a line in
// a file. It ends by a signal at the point that the environment names.
func charge(dir string) error {
	end := func(point string) {
		if os.Getenv(crashVar) == point {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	t := &testing.T{}
	f, data, err := OpenFile(filepath.Join(dir, "journal"))
	if err != nil {
		return err
	}
	l, err := Load(data, optionsOf(t, settings))
	if err != nil {
		return err
	}
	w, err := Resume(f, l, ringOf(t, "k1"), owner)
	if err != nil {
		return err
	}
	end("before_start")
	call := w.NextCall("charge")
	if _, err := w.Append(Record{TypeStart, call, []byte("10 coins")}); err != nil {
		return err
	}
	end("after_start")
	effect, err := os.OpenFile(filepath.Join(dir, "effect"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(effect, call.Key); err != nil {
		return err
	}
	end("after_effect")
	if _, err := w.Append(Record{TypeAnswer, &Answer{Call: call.Call}, []byte("charged")}); err != nil {
		return err
	}
	end("after_result")
	return nil
}

// TestCrashWindow is the case 186: a process is killed at each of four points
// around a tool's effect. What the journal says afterwards: nothing was called,
// the call is in doubt with the very key that the tool was given, or it is
// answered. It is charged in each case but the first, and never twice. The
// control: the effect's file shows which of the doubts was right.
// Long because of its two processes.
//
// proves part of S-23
func TestCrashWindow(t *testing.T) {
	if dir := os.Getenv(crashVar + "_DIR"); dir != "" {
		t.Fatalf("the child is still there: %v", charge(dir))
	}
	text, err := os.ReadFile("testdata/186-crash-window.json")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		KillPoints []string `json:"kill_points"`
	}
	if err := json.Unmarshal(text, &c); err != nil || len(c.KillPoints) != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, point := range c.KillPoints {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal")
		f, err := CreateFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := Create(f, beginOf(t, settings))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(Record{TypeFeed, &Feed{Feed: 1}, []byte("await tools.charge()")}); err != nil {
			t.Fatal(err)
		}
		key := w.NextCall("charge").Key
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestCrashWindow$")
		child.Env = append(os.Environ(), crashVar+"="+point, crashVar+"_DIR="+dir)
		out, err := child.CombinedOutput()
		if status, ok := errors.AsType[*exec.ExitError](err); !ok || !status.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("%s: %v\n%s", point, err, out)
		}
		_, l, w := reopen(t, path, optionsOf(t, settings))
		effect, _ := os.ReadFile(filepath.Join(dir, "effect"))
		want := map[string]string{"before_start": "0 0 0", "after_start": "1 1 0", "after_effect": "1 1 1", "after_result": "0 1 1"}[point]
		if got := fmt.Sprint(len(l.InDoubt), l.Spent.Calls, strings.Count(string(effect), "\n")); got != want {
			t.Errorf("%s: in doubt, charged, effects: %s, want %s", point, got, want)
		}
		for _, d := range l.InDoubt {
			if d.Key != key || d.Tool != "charge" || len(effect) > 0 && strings.TrimSpace(string(effect)) != key {
				t.Errorf("%s: in doubt %+v, the tool was given %s, effect %s", point, d, key, effect)
			}
		}
		// The doubt is settled once, by whoever can tell.
		if len(l.InDoubt) == 1 {
			answer := Record{TypeAnswer, &Answer{Call: 1}, []byte("charged after all")}
			if _, err := w.Append(answer); err != nil {
				t.Errorf("%s: %v", point, err)
			}
			if _, err := w.Append(answer); !errors.Is(err, Odd) {
				t.Errorf("%s: settled twice: %v", point, err)
			}
		}
	}
}

// TestFile: a file is one writer's, is nobody else's to read, and nothing that is
// no plain file is opened.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	f, err := CreateFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := CreateFile(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if _, _, err := OpenFile(path); !errors.Is(err, ErrHeld) {
		t.Errorf("opened beside: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	g, data, err := OpenFile(path)
	if err != nil || len(data) != 0 {
		t.Fatalf("the control: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	link, fifo, big := filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "big")
	if err := errors.Join(os.Symlink(path, link), syscall.Mkfifo(fifo, 0o600), os.WriteFile(big, nil, 0o600), os.Truncate(big, MaxBytes+1)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{link, fifo, big, dir, filepath.Join(dir, "none")} {
		if f, _, err := OpenFile(bad); err == nil {
			t.Errorf("%s is opened", bad)
			_ = f.Close()
		}
	}
}

// half keeps half of what it is given, and fails.
type half struct{ Memory }

var errFull = errors.New("no space left")

func (h *half) Append(frame []byte, _ Head) error {
	h.Bytes = append(h.Bytes, frame[:len(frame)/2]...)
	return errFull
}

// TestAppendFails: after a failure nothing more is appended, and what is there
// loads as it was before.
func TestAppendFails(t *testing.T) {
	data, ends, _ := sample(t, settings)
	l, err := Load(data, optionsOf(t, settings))
	if err != nil {
		t.Fatal(err)
	}
	to := &half{Memory{bytes.Clone(data)}}
	w, err := Resume(to, l, ringOf(t, "k1"), owner)
	if err != nil {
		t.Fatal(err)
	}
	before := w.Head()
	if _, err := w.Append(Record{TypeFeed, &Feed{Feed: 9}, nil}); !errors.Is(err, Odd) || len(to.Bytes) != len(data) {
		t.Errorf("a feed within a feed: %v, %d bytes", err, len(to.Bytes)-len(data))
	}
	for _, r := range []Record{{Type: TypeFeed, Meta: &Budget{}}, {Type: 77, Meta: &Budget{}}, {Type: TypeBudget}, {TypeBudget, &Budget{}, make([]byte, MaxBlob+1)}, {TypeHeader, &Header{}, nil}} {
		if _, err := w.Append(r); err == nil || len(to.Bytes) != len(data) {
			t.Errorf("%d with %T: %v", r.Type, r.Meta, err)
		}
	}
	good := Record{TypeBudget, &Budget{Spent{MS: 1}}, nil}
	for range 3 {
		if _, err := w.Append(good); !errors.Is(err, errFull) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	if diff := cmp.Diff(before, w.Head()); diff != "" {
		t.Errorf("the head moved: %s", diff)
	}
	again, err := Load(to.Bytes, optionsOf(t, settings))
	if err != nil || !again.Torn || again.Good != ends[len(ends)-1] {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestCompact: a compacted journal goes on with the count, what was spent and the
// session of the one it stands for, which its head refuses from then on. One with
// something open is not compacted.
// Long because of its controls.
//
// proves part of S-04 H-62
func TestCompact(t *testing.T) {
	for _, s := range []Settings{settings, {Sealed: true}} {
		data, ends, heads := sample(t, s)
		o := optionsOf(t, s)
		open, err := Load(data, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compact(&Memory{}, open, beginOf(t, s), nil, "", nil); !errors.Is(err, Odd) {
			t.Errorf("with an open feed: %v", err)
		}
		l, err := Load(data[:ends[6]], o)
		if err != nil {
			t.Fatal(err)
		}
		late := *l
		late.InDoubt = []Call{{Call: 9}}
		if _, err := Compact(&Memory{}, &late, beginOf(t, s), nil, "", nil); !errors.Is(err, Odd) {
			t.Errorf("with a call in doubt: %v", err)
		}
		m := &Memory{}
		b := beginOf(t, s)
		b.Keys = ringOf(t, "k2", "k1")
		if _, err := Compact(m, l, Begin{b.Keys, owner, Settings{StrictEval: true}, made}, nil, "", nil); !errors.Is(err, Mismatch) {
			t.Errorf("with other settings: %v", err)
		}
		w, err := Compact(m, l, b, []byte("globals"), "hash", []string{"mail.send"})
		if err != nil {
			t.Fatal(err)
		}
		if w.NextCall("x").Call != 3 {
			t.Errorf("the next call is %+v", w.NextCall("x"))
		}
		if _, err := w.Append(Record{TypeCheckpoint, &Checkpoint{Feed: 9}, nil}); !errors.Is(err, Odd) {
			t.Errorf("a second checkpoint: %v", err)
		}
		if _, err := w.Append(Record{TypeFeed, &Feed{Feed: 2, Clock: 3000}, nil}); err != nil {
			t.Fatal(err)
		}
		head := w.Head()
		o.Keys, o.Head = b.Keys, &head
		got, err := Load(m.Bytes, o)
		if err != nil {
			t.Fatal(err)
		}
		if got.Count() != 10 || got.Header.Session != l.Header.Session || got.Header.Base != 7 || got.Spent != l.Spent || got.Tools["charge"] != 2 || got.Seed != 7 || got.Call != 2 ||
			got.Checkpoint.Hash != "hash" || got.Checkpoint.Discovered[0] != "mail.send" {
			t.Errorf("%+v", got.State)
		}
		if _, err := Load(data, o); !errors.Is(err, Rollback) {
			t.Errorf("the old one under the new head: %v", err)
		}
		o.Head = &heads[6]
		if _, err := Load(m.Bytes, o); !errors.Is(err, Ahead) {
			t.Errorf("the new one under the old head: %v", err)
		}
		bare := &Memory{}
		half, err := create(bare, b, Header{Session: l.Header.Session, Base: l.Count(), Prev: l.Chain.String()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := half.Append(Record{TypeFeed, &Feed{Feed: 1}, nil}); !errors.Is(err, Odd) {
			t.Errorf("a feed in the checkpoint's place: %v", err)
		}
		o.Head = nil
		if _, err := Load(bare.Bytes, o); !errors.Is(err, Odd) {
			t.Errorf("a compacted journal without its checkpoint: %v", err)
		}
	}
}
