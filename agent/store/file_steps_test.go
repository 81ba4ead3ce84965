package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stops makes a store whose hook waits where it is told to.
type stops struct {
	*fileStore
	arrived chan struct{}
	goOn    func()
}

func newStops(t *testing.T, dir string) *stops {
	t.Helper()
	st, err := NewFile(dir, FileOptions{TTL: time.Hour, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &stops{fileStore: st.(*fileStore)}
}

// stopAt has the next one that comes to a step wait there, once, as if its process
// were stopped.
func (s *stops) stopAt(t *testing.T, step string) {
	arrived, goOn, done := make(chan struct{}), make(chan struct{}), false
	s.arrived = arrived
	s.goOn = sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(s.goOn)
	s.hook = func(at string) {
		if at == step && !done {
			done = true
			close(arrived)
			<-goOn
		}
	}
}

var stepKey = Key{"owner", "id"}

func take(t *testing.T, s Store, o AcquireOptions) *fileLease {
	t.Helper()
	l, err := s.Acquire(t.Context(), stepKey, o)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*fileLease)
}

func journalOf(t *testing.T, l Lease) string {
	t.Helper()
	r, err := l.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Head) != r2head(string(r.Journal)) {
		t.Fatalf("journal %q with head %q", r.Journal, r.Head)
	}
	return string(r.Journal)
}

// r2head is the head that goes with a journal in these tests.
func r2head(journal string) string {
	f := strings.Fields(journal)
	return f[len(f)-1]
}

func add(l Lease, record string) error {
	return l.Append(context.Background(), []byte(record+" "), []byte(record))
}

// The holder is stopped at each step of a commit, while another takes the session
// over, works and gives it back, or is taken over too. What the holder is told is
// what came of it: nil, and the record is in every later journal, or ErrFenced, and
// it is in none.
//
// proves part of H-60
func TestFileHolderStopped(t *testing.T) {
	for _, step := range []string{"append", "written", "replacement", "unclaimed", "replaced", "tombstone"} {
		for _, then := range []string{"holds", "releases", "releases and another takes", "is taken over", "replaces", "replaces twice", "deletes", "deletes, and it is new"} {
			t.Run(step+"/"+then, func(t *testing.T) { holderStopped(t, step, then) })
		}
	}
}

// holderStopped is long because of what may come after the step.
func holderStopped(t *testing.T, step, then string) {
	dir := filepath.Join(t.TempDir(), "s")
	a, b := newStops(t, dir), newStops(t, dir)
	old := take(t, a, AcquireOptions{Create: true})
	if err := add(old, "first"); err != nil {
		t.Fatal(err)
	}
	a.stopAt(t, strings.Replace(step, "replaced", "linked", 1))
	told := make(chan error, 1)
	go func() {
		switch step {
		case "append", "written":
			told <- add(old, "record")
		case "replacement", "unclaimed", "replaced":
			told <- old.Replace(context.Background(), []byte("record "), []byte("record"))
		default:
			told <- old.Delete(context.Background())
		}
	}()
	<-a.arrived
	next := take(t, b, AcquireOptions{Takeover: true})
	seen := journalOf(t, next)
	want := seen
	switch then {
	case "releases", "releases and another takes":
		_ = next.Release(t.Context())
		if then != "releases" {
			next = take(t, b, AcquireOptions{})
		}
	case "is taken over":
		next = take(t, newStops(t, dir), AcquireOptions{Takeover: true})
	case "replaces", "replaces twice":
		for range strings.Count(then, " ") + 1 {
			if err := next.Replace(t.Context(), []byte("other "), []byte("other")); err != nil {
				t.Fatal(err)
			}
		}
		want = "other "
	case "deletes", "deletes, and it is new":
		if err := next.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = ""
	}
	if then == "deletes, and it is new" {
		next = take(t, b, AcquireOptions{Create: true})
		if err := add(next, "new"); err != nil {
			t.Fatal(err)
		}
		want = "new "
	}
	a.goOn()
	err := <-told
	in := strings.Contains(seen, "record")
	if (err == nil) != in || err != nil && !errors.Is(err, ErrFenced) {
		t.Fatalf("the holder was told %v, and the next saw %q", err, seen)
	}
	if (step == "written" || step == "replaced") != in {
		t.Fatalf("stopped at %q, the next saw %q", step, seen)
	}
	if err := add(old, "stale"); !errors.Is(err, ErrFenced) {
		t.Fatal("then the holder was told", err)
	}
	<-old.Lost()
	if strings.HasPrefix(then, "releases") || then == "deletes" {
		_ = next.Release(t.Context())
		next = take(t, b, AcquireOptions{Create: then == "deletes"})
	}
	if want != "" {
		if got := journalOf(t, next); got != want {
			t.Fatalf("the journal is %q, not %q", got, want)
		}
	}
	if err := add(next, "last"); err != nil {
		t.Fatal(err)
	}
	if got := journalOf(t, next); got != want+"last " {
		t.Fatalf("the journal is %q", got)
	}
	if err := next.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _ = a.Close(), b.Close()
	nothingLeft(t, dir)
}

// One who takes the session over is stopped at each step of that, while its holder
// goes on, and while a third takes it over from both.
//
// proves part of H-60
func TestFileTakerStopped(t *testing.T) {
	for _, step := range []string{"claimed", "read", "agreed", "drafted"} {
		for _, third := range []string{"", "takes", "takes, deletes", "takes, deletes, begins", "waits for the holder's end"} {
			t.Run(step+"/"+third, func(t *testing.T) { takerStopped(t, step, third) })
		}
	}
}

// takerStopped is long because of what the third may do.
func takerStopped(t *testing.T, step, third string) {
	dir := filepath.Join(t.TempDir(), "s")
	a, b, c := newStops(t, dir), newStops(t, dir), newStops(t, dir)
	holder := take(t, a, AcquireOptions{Create: true})
	committed := []string{}
	write := func(l Lease, record string) {
		switch err := add(l, record); {
		case err == nil:
			committed = append(committed, record)
		case !errors.Is(err, ErrFenced):
			t.Fatal(err)
		}
	}
	write(holder, "first")
	b.stopAt(t, step)
	taken := make(chan *fileLease, 1)
	go func() {
		l, err := b.Acquire(context.Background(), stepKey, AcquireOptions{Takeover: true, Create: true})
		if err != nil {
			t.Error(err)
			close(taken)
			return
		}
		taken <- l.(*fileLease)
	}()
	<-b.arrived
	write(holder, "second") // committed where nobody has said yet where it ends: then the holder says so
	write(holder, "third")
	if slices.Contains(committed, "second") != (step == "claimed" || step == "read") || slices.Contains(committed, "third") {
		t.Fatalf("stopped at %q, committed are %q", step, committed)
	}
	var l *fileLease
	switch third {
	case "takes":
		l = take(t, c, AcquireOptions{Takeover: true})
		write(l, "by-the-third")
	case "waits for the holder's end":
		l = take(t, c, AcquireOptions{})
		write(l, "by-the-third")
	case "takes, deletes", "takes, deletes, begins":
		l = take(t, c, AcquireOptions{Takeover: true})
		if err := l.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		committed = nil
		if third != "takes, deletes" {
			l = take(t, c, AcquireOptions{Create: true})
			write(l, "by-the-third")
		}
	}
	b.goOn()
	last := <-taken
	if last == nil {
		return
	}
	if l != nil && last.Fence() <= l.Fence() {
		t.Fatalf("lease %d after %d", last.Fence(), l.Fence())
	}
	write(holder, "stale")
	if l != nil && third != "takes, deletes" {
		write(l, "stale too")
	}
	write(last, "last")
	want := strings.Join(committed, " ") + " "
	if got := journalOf(t, last); got != want || !strings.HasSuffix(want, "last ") || strings.Contains(want, "stale") {
		t.Fatalf("the journal is %q, committed were %q", got, want)
	}
	if err := last.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*stops{a, b, c} {
		_ = s.Close()
	}
	nothingLeft(t, dir)
}

// One who has just made a generation is stopped there, and another goes on from it:
// who deleted is told that he did, and who took the session over is fenced.
//
// proves part of H-60
func TestFileStoppedBehindIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	a, b := newStops(t, dir), newStops(t, dir)
	old := take(t, a, AcquireOptions{Create: true})
	if err := add(old, "first"); err != nil {
		t.Fatal(err)
	}
	a.stopAt(t, "linked")
	told := make(chan error, 1)
	go func() { told <- old.Delete(context.Background()) }()
	<-a.arrived
	next := take(t, b, AcquireOptions{Create: true, Takeover: true})
	if err := add(next, "new"); err != nil {
		t.Fatal(err)
	}
	a.goOn()
	if err := <-told; err != nil {
		t.Fatal("who deleted is told", err)
	}

	a.stopAt(t, "linked")
	taken := make(chan Lease, 1)
	go func() {
		l, err := a.Acquire(context.Background(), stepKey, AcquireOptions{Takeover: true})
		if err != nil {
			t.Error(err)
		}
		taken <- l
	}()
	<-a.arrived
	third := take(t, b, AcquireOptions{Takeover: true})
	if err := add(third, "newer"); err != nil {
		t.Fatal(err)
	}
	a.goOn()
	if err := add(<-taken, "stale"); !errors.Is(err, ErrFenced) {
		t.Fatal("who took it over and was replaced is told", err)
	}
	if got := journalOf(t, third); got != "new newer " {
		t.Fatalf("the journal is %q", got)
	}
}

// The control: a holder who does not see that he was replaced is told that his record
// is committed, and it is in no journal.
func TestFileWithoutFence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	a, b := newStops(t, dir), newStops(t, dir)
	old := take(t, a, AcquireOptions{Create: true})
	if err := add(old, "first"); err != nil {
		t.Fatal(err)
	}
	next := take(t, b, AcquireOptions{Takeover: true})
	a.hook = func(step string) {
		if step == "written" { // the look for a claim finds none
			if _, err := old.file.Load().WriteAt([]byte{0, 0, 0, 0}, atClaim); err != nil {
				t.Error(err)
			}
		}
	}
	if err := errors.Join(add(old, "old"), add(next, "next")); err != nil {
		t.Fatal("without the fence one of them is told", err)
	}
	if got := journalOf(t, next); got != "first next " {
		t.Fatalf("the journal is %q", got)
	}
}

// Two begin a session that is not there at once, each stopped while the other goes
// all the way: one has it.
//
// proves part of H-60
func TestFileBeginStopped(t *testing.T) {
	for _, then := range []string{"holds", "releases", "deletes"} {
		dir := filepath.Join(t.TempDir(), "s")
		a, b := newStops(t, dir), newStops(t, dir)
		a.stopAt(t, "drafted")
		got := make(chan *fileLease, 1)
		go func() {
			l, err := a.Acquire(context.Background(), stepKey, AcquireOptions{Create: true})
			if err != nil {
				t.Error(err)
				close(got)
				return
			}
			got <- l.(*fileLease)
		}()
		<-a.arrived
		l := take(t, b, AcquireOptions{Create: true})
		if err := add(l, "one"); err != nil {
			t.Fatal(err)
		}
		switch then {
		case "releases":
			_ = l.Release(t.Context())
		case "deletes":
			if err := l.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		a.goOn()
		if then == "holds" {
			time.AfterFunc(20*time.Millisecond, func() { _ = l.Release(context.Background()) })
		}
		first := <-got
		if first == nil {
			t.Fatal(then)
		}
		want := map[string]string{"holds": "one two ", "releases": "one two ", "deletes": "two "}[then]
		if err := add(first, "two"); err != nil {
			t.Fatal(then, err)
		}
		if j := journalOf(t, first); j != want || first.Fence() <= l.Fence() {
			t.Fatalf("%s: %q, lease %d after %d", then, j, first.Fence(), l.Fence())
		}
	}
}

// nothingLeft looks for what a store leaves in its folder when all sessions are
// gone: the number of the last lease.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if !strings.HasPrefix(name, filepath.Join(dir, "floor")) {
			t.Error("left behind:", fmt.Sprint(filepath.Rel(dir, name)))
		}
	}
}
