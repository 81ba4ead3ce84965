package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// open opens a queue in a folder of the test's own, or in this one.
func open(t testing.TB, o Options) *Queue {
	t.Helper()
	if o.Dir == "" && o.URL == "" {
		o.Dir = t.TempDir() + "/queue"
	}
	if o.MinFree == 0 {
		o.MinFree = 1
	}
	q, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func submit(t testing.TB, q *Queue, client, id string) {
	t.Helper()
	must(t, q.Submit(t.Context(), Job{ID: id, Client: client, Program: []byte("program of " + id)}))
}

func take(t testing.TB, q *Queue) *Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d, err := q.Take(ctx)
	must(t, err)
	return d
}

// events reads all events of a run that has ended.
func events(t testing.TB, q *Queue, id string, after uint64) []Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []Event
	for e, err := range q.Events(ctx, id, after) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

func told(events []Event) string {
	var b bytes.Buffer
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s %s;", e.Seq, e.Type, e.Data)
	}
	return b.String()
}

// proves part of X-17
func TestRun(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	if _, err := q.Status(ctx, "r1"); !errors.Is(err, ErrNotFound) {
		t.Error("before:", err)
	}
	submit(t, q, "c1", "r1")
	st, err := q.Status(ctx, "r1")
	must(t, err)
	if st.State != Waiting || st.Position != 0 {
		t.Errorf("%+v", st)
	}
	if _, err := q.Result(ctx, "r1"); !errors.Is(err, ErrRunning) {
		t.Error("a result before the end:", err)
	}
	late := make(chan string, 1)
	go func() { late <- told(events(t, q, "r1", 0)) }()

	d := take(t, q)
	if d.Job.ID != "r1" || string(d.Job.Program) != "program of r1" || d.Losses() != 0 {
		t.Errorf("%+v", d.Job)
	}
	if err := d.Publish(ctx, "chunk", nil); !errors.Is(err, ErrOrder) {
		t.Error("an event before the start:", err)
	}
	must(t, d.Begin(ctx, []byte("go")))
	must(t, d.Publish(ctx, "chunk", []byte("hello")))
	must(t, d.Publish(ctx, "chunk", []byte("world")))
	if err := d.Retry(ctx, 0); !errors.Is(err, ErrOrder) {
		t.Error("given back after the start:", err)
	}
	must(t, d.Finish(ctx, []byte("done"), nil))
	if err := d.Finish(ctx, []byte("again"), nil); !errors.Is(err, ErrOver) {
		t.Error("finished twice:", err)
	}
	want := "1 started go;2 chunk hello;3 chunk world;4 finished done;"
	if s := <-late; s != want {
		t.Errorf("live: %s", s)
	}
	if s := told(events(t, q, "r1", 0)); s != want {
		t.Errorf("later: %s", s)
	}
	if s := told(events(t, q, "r1", 2)); s != "3 chunk world;4 finished done;" {
		t.Errorf("after 2: %s", s)
	}
	result, err := q.Result(ctx, "r1")
	if err != nil || string(result) != "done" {
		t.Error(string(result), err)
	}
	e, err := q.Wait(ctx, "r1")
	if err != nil || !e.Final {
		t.Error(e, err)
	}
	// The same job again is the same job, and is not run again.
	submit(t, q, "c1", "r1")
	submit(t, q, "c1", "r2")
	if d := take(t, q); d.Job.ID != "r2" {
		t.Error("run again:", d.Job.ID)
	}
}
