package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// proves part of X-17
func TestBacklog(t *testing.T) {
	q := open(t, Options{MaxJobs: 8})
	ctx := t.Context()
	for i := range 8 {
		submit(t, q, "c", fmt.Sprintf("r%d", i))
	}
	for i := range 8 {
		st, err := q.Status(ctx, fmt.Sprintf("r%d", i))
		if err != nil || st.State != Waiting || st.Position != i {
			t.Errorf("r%d: %+v %v", i, st, err)
		}
	}
	if err := q.Submit(ctx, Job{ID: "more", Client: "c"}); !errors.Is(err, ErrBacklog) {
		t.Error("one more:", err)
	}
	if _, err := q.Status(ctx, "more"); !errors.Is(err, ErrNotFound) {
		t.Error("refused, and there:", err)
	}
	submit(t, q, "c", "r3") // what was accepted may be said again
	// A job that ends makes room, and one that is canceled.
	must(t, take(t, q).Finish(ctx, nil, nil))
	eventually(t, func() bool { return q.Submit(ctx, Job{ID: "more", Client: "c"}) == nil })
	must(t, q.Cancel(ctx, "r5", []byte("canceled")))
	submit(t, q, "c", "another")
	want := []string{"r1", "r2", "r3", "r4", "r6", "r7", "more", "another"}
	for _, id := range want {
		d := take(t, q)
		if d.Job.ID != id {
			t.Errorf("%s, not %s", d.Job.ID, id)
		}
		must(t, d.Finish(ctx, nil, nil))
	}
	if s := told(events(t, q, "r5", 0)); s != "1 finished canceled;" {
		t.Error(s)
	}
	if err := q.Cancel(ctx, "r5", nil); !errors.Is(err, ErrOver) {
		t.Error("canceled twice:", err)
	}
}

// eventually waits for what the server does in the background.
func eventually(t testing.TB, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// One client has many jobs, others one each: they do not wait for all of his.
// proves part of X-17
func TestTurns(t *testing.T) {
	q := open(t, Options{})
	for i := range 6 {
		submit(t, q, "many", fmt.Sprintf("m%d", i))
	}
	submit(t, q, "one", "a0")
	submit(t, q, "two", "b0")
	submit(t, q, "one", "a1")
	first := take(t, q) // now the rest arrives
	eventually(t, func() bool {
		q.taking.mu.Lock()
		defer q.taking.mu.Unlock()
		return len(q.taking.waiting) == 8
	})
	order := []string{first.Job.ID}
	for range 8 {
		order = append(order, take(t, q).Job.ID)
	}
	got := strings.Join(order, " ")
	if i := strings.Index(got, "b0"); i < 0 || strings.Count(got[:i], "m") > 3 {
		t.Error("the others wait for all of one:", got)
	}
	for _, of := range []string{"m", "a"} { // in their own order
		last := ""
		for _, id := range order {
			if strings.HasPrefix(id, of) {
				if id < last {
					t.Error(got)
				}
				last = id
			}
		}
	}
}

// proves part of H-47
func TestRunLimits(t *testing.T) {
	q := open(t, Options{RunEvents: 20, RunBytes: 10_000})
	ctx := t.Context()
	submit(t, q, "c", "many")
	d := take(t, q)
	must(t, d.Begin(ctx, nil))
	n := 0
	for range 40 {
		err := d.Publish(ctx, "chunk", []byte("x"))
		if err == nil {
			n++
		} else if !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
	}
	if n != 19 {
		t.Error(n, "events")
	}
	must(t, d.Finish(ctx, []byte("ok"), nil)) // there is always room for the end
	if all := events(t, q, "many", 0); len(all) != 21 || !all[20].Final {
		t.Error(len(all))
	}
	submit(t, q, "c", "large")
	d = take(t, q)
	must(t, d.Begin(ctx, nil))
	must(t, d.Publish(ctx, "chunk", make([]byte, 9000)))
	if err := d.Publish(ctx, "chunk", make([]byte, 1001)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	must(t, d.Publish(ctx, "chunk", make([]byte, 1000)))
	must(t, d.Finish(ctx, []byte("ok"), nil))

	// Should the executor lose count, the server does not.
	submit(t, q, "c", "lies")
	d = take(t, q)
	must(t, d.Begin(ctx, nil))
	n = 0
	for range 40 {
		d.seq = 1
		if err := d.Publish(ctx, "chunk", nil); err == nil {
			n++
		} else if !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
	}
	if n != 20 {
		t.Error(n, "events")
	}
}

// proves part of X-16
func TestLarge(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	text := func(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n/16) }
	program, chunk, result := text(5<<20), text(300<<10), text(3<<19) // 1.5 MiB of result
	must(t, q.Submit(ctx, Job{ID: "r", Client: "c", Program: program}))
	must(t, q.Submit(ctx, Job{ID: "r", Client: "c", Program: program}))
	if err := q.Submit(ctx, Job{ID: "r", Client: "c", Program: program[1:]}); !errors.Is(err, ErrExists) {
		t.Error("another program of the same id:", err)
	}
	d := take(t, q)
	if !bytes.Equal(d.Job.Program, program) {
		t.Error(len(d.Job.Program))
	}
	must(t, d.Begin(ctx, nil))
	must(t, d.Publish(ctx, "chunk", chunk))
	must(t, d.Finish(ctx, result, nil))
	all := events(t, q, "r", 0)
	if len(all) != 3 || all[1].Object == "" || all[1].Data != nil {
		t.Fatal(len(all))
	}
	if got, err := q.Data(ctx, "r", all[1]); err != nil || !bytes.Equal(got, chunk) {
		t.Error(len(got), err)
	}
	if got, err := q.Result(ctx, "r"); err != nil || !bytes.Equal(got, result) {
		t.Error(len(got), err)
	}
	for _, m := range []struct {
		what string
		err  error
	}{
		{"program", q.Submit(ctx, Job{ID: "x", Client: "c", Program: make([]byte, MaxObject+1)})},
		{"note", q.Submit(ctx, Job{ID: "x", Client: "c", Note: make([]byte, MaxNote+1)})},
		{"cancel", q.Cancel(ctx, "x", make([]byte, MaxInline+1))},
		{"signal", q.Signal(ctx, "x", make([]byte, MaxInline+1))},
	} {
		if !errors.Is(m.err, ErrTooLarge) {
			t.Error(m.what, m.err)
		}
	}
}

// proves part of X-16
func TestObjects(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	o, err := q.Objects(ctx, "kept", time.Hour, 8<<20)
	must(t, err)
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3*chunkSize + 7} {
		name := fmt.Sprint("dir/a b ", size)
		text := bytes.Repeat([]byte{7}, size)
		must(t, o.Put(ctx, "owner", name, bytes.NewReader(text)))
		must(t, o.Put(ctx, "owner", name, bytes.NewReader(text))) // the same again
		if err := o.Put(ctx, "owner", name, bytes.NewReader(append(text, 1))); !errors.Is(err, ErrExists) {
			t.Error("another:", err)
		}
		r, err := o.Get(ctx, "owner", name)
		must(t, err)
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, text) || r.Name != name || r.Size != int64(size) {
			t.Errorf("%d: %d %+v %v", size, len(got), r.ObjectInfo, err)
		}
	}
	if _, err := o.Get(ctx, "other", "dir/a b 1"); !errors.Is(err, ErrNotFound) {
		t.Error("another's:", err)
	}
	list, err := o.List(ctx, "owner")
	if err != nil || len(list) != 6 {
		t.Error(len(list), err)
	}
	// What fails on its way leaves nothing.
	broken := io.MultiReader(bytes.NewReader(make([]byte, 2*chunkSize)), failing{})
	if err := o.Put(ctx, "owner", "broken", broken); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, err := o.Get(ctx, "owner", "broken"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	must(t, o.Put(ctx, "owner", "broken", strings.NewReader("now")))
	// The bucket is bounded, and what did not fit is not there in part.
	err = nil
	for i := 0; err == nil && i < 20; i++ {
		err = o.Put(ctx, "owner", fmt.Sprint("fill", i), bytes.NewReader(make([]byte, 1<<20)))
	}
	if !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	must(t, o.DeleteAll(ctx, "owner"))
	if list, err := o.List(ctx, "owner"); err != nil || len(list) != 0 {
		t.Error(len(list), err)
	}
	must(t, o.Put(ctx, "owner", "fits", bytes.NewReader(make([]byte, 4<<20))))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// At four fifths of the cap jobs are refused, what was accepted goes on to its end,
// and reading works.
// proves part of H-47
func TestLowWater(t *testing.T) {
	q := open(t, Options{MaxBytes: 64 << 20, RunBytes: 1 << 30})
	ctx := t.Context()
	for i := range 4 {
		submit(t, q, "c", fmt.Sprintf("r%d", i))
	}
	d := take(t, q)
	must(t, d.Begin(ctx, nil))
	kept, err := q.Objects(ctx, "fill", time.Hour, 16<<20)
	must(t, err)
	fill := func(o *Objects, what string) {
		for i := 0; err == nil; i++ {
			err = o.Put(ctx, "fill", fmt.Sprint(what, i), bytes.NewReader(make([]byte, 1<<20)))
		}
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		err = nil
	}
	fill(kept, "a")
	fill(q.Runs(), "b")
	var published error
	for published == nil {
		published = d.Publish(ctx, "chunk", make([]byte, 200<<10))
	}
	if !errors.Is(published, ErrFull) {
		t.Fatal(published)
	}
	time.Sleep(fresh + 50*time.Millisecond) // the figure of what is stored is that old at most
	if err := q.Submit(ctx, Job{ID: "new", Client: "c"}); !errors.Is(err, ErrFull) {
		t.Error("accepted:", err)
	}
	if _, err := q.Status(ctx, "new"); !errors.Is(err, ErrNotFound) {
		t.Error("refused, and there:", err)
	}
	// A result that has no room left is replaced by its brief form.
	must(t, d.Finish(ctx, make([]byte, 1<<20), []byte("brief")))
	if r, err := q.Result(ctx, d.Job.ID); err != nil || string(r) != "brief" {
		t.Error(len(r), err)
	}
	for range 3 {
		d := take(t, q)
		must(t, d.Begin(ctx, nil))
		must(t, d.Finish(ctx, []byte("ok"), nil))
		if r, err := q.Result(ctx, d.Job.ID); err != nil || string(r) != "ok" {
			t.Error(string(r), err)
		}
	}
	if err := q.Err(); err != nil {
		t.Error(err)
	}
	must(t, kept.DeleteAll(ctx, "fill"))
	must(t, q.Runs().DeleteAll(ctx, "fill"))
	eventually(t, func() bool { return q.Submit(ctx, Job{ID: "new", Client: "c"}) == nil })
}

// A disk that is nearly full refuses jobs, and nothing else yet.
// proves part of H-47
func TestDiskLow(t *testing.T) {
	q := open(t, Options{MinFree: 1})
	ctx := t.Context()
	submit(t, q, "c", "r")
	d := take(t, q)
	must(t, d.Begin(ctx, nil))
	q.o.MinFree = 1 << 50
	if err := q.Submit(ctx, Job{ID: "new", Client: "c"}); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "disk") {
		t.Error(err)
	}
	if err := d.Publish(ctx, "chunk", nil); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	must(t, d.Finish(ctx, []byte("ok"), nil))
	q.o.MinFree = 1
	submit(t, q, "c", "new")
}

// Options that cannot be are refused by name.
// proves part of X-07
func TestOptionsRefused(t *testing.T) {
	dir := t.TempDir() + "/queue"
	for field, o := range map[string]Options{
		"MaxBytes": {MaxBytes: 1}, "MinFree": {MinFree: -1}, "RunBytes": {RunBytes: -1}, "Retention": {Retention: time.Millisecond},
		"Patience": {Patience: -1}, "Replicas": {Replicas: 6}, "MaxJobs": {MaxJobs: -1}, "RunEvents": {RunEvents: 1},
		"MaxLosses": {MaxLosses: 11}, "Space": {Space: "a.b"}, "EncryptionKey": {EncryptionKey: "short"},
	} {
		o.Dir = dir
		if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "short") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
	}
}
