package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// marked is a program that sleeps, and can be found among the processes of the host.
func marked(t *testing.T) (p api.Program, mark string) {
	mark = fmt.Sprintf("glovebox-mark-%d-%d", os.Getpid(), time.Now().UnixNano())
	return api.Program{Language: "bash", Source: "echo ready; bash -c 'sleep 25; :' " + mark + "\n", Limits: api.Limits{WallMS: 30_000}}, mark
}

// A run that another executor has taken is ended here: its cell is gone, and nothing is
// written.
// proves part of H-50
func TestLost(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	must(t, err)
	srv.Start()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("no server")
	}
	q := openQueue(t, queue.Options{URL: srv.ClientURL(), Insecure: true})
	f := start(t, q, Options{Slots: 1})
	p, mark := marked(t)
	id := submit(t, q, "lost", p, Note{})
	until(t, "a guest is seen, or nothing is proved", func() bool { return guests(t, mark) > 0 })
	printed(t, q, id)
	// Another one that waits less long for a sign of life.
	other := openQueue(t, queue.Options{URL: srv.ClientURL(), Insecure: true, Patience: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if d, err := other.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("what had begun was given to another: %v %v", d, err)
	}
	all, result := history(t, q, id)
	if result.Verdict != api.Interrupted || result.Cause != queue.CauseLost || types(all) != "started chunk finished" {
		t.Errorf("%s %+v", types(all), result)
	}
	until(t, "the guest is gone", func() bool { return guests(t, mark) == 0 })
	f.quit()
	if len(f.ends) != 0 {
		t.Errorf("it has ended here too: %+v", <-f.ends)
	}
}

// Draining takes nothing more, and lets what runs come to its end.
// proves part of X-17
func TestDrain(t *testing.T) {
	q := openQueue(t, queue.Options{})
	f := start(t, q, Options{Slots: 1})
	p, _ := marked(t)
	id := submit(t, q, "long", p, Note{})
	printed(t, q, id)
	submit(t, q, "waits", api.Program{Command: []string{"/bin/true"}}, Note{})
	ctx, cancelDrain := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelDrain()
	if err := f.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if f.Running() != 1 {
		t.Error(f.Running())
	}
	must(t, cancel(t, q, id))
	must(t, f.Drain(t.Context()))
	if _, result := history(t, q, id); result.Verdict != api.Canceled {
		t.Errorf("%+v", result)
	}
	if st, err := q.Status(t.Context(), "waits"); err != nil || st.State != queue.Waiting {
		t.Error(st, err)
	}
	start(t, q, Options{})
	if _, result := history(t, q, "waits"); result.Verdict != api.OK {
		t.Errorf("%+v", result)
	}
}

// A Box that is closed ends what runs as interrupted; what was taken and has not begun
// goes back, without a loss, and runs after the next start.
// proves part of H-50
func TestShutdown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	q, err := queue.Open(t.Context(), queue.Options{Dir: dir, MinFree: 1})
	must(t, err)
	box := newBox(t)
	reserved, goOn := make(chan struct{}, 9), make(chan struct{})
	hold := waitIn(reserved, goOn)
	f := start(t, q, Options{Box: box, Slots: 2, Reserve: func(ctx context.Context, l api.Limits) (func(), error) {
		if l.WallMS == 30_000 {
			return func() {}, nil
		}
		return hold(ctx, l)
	}})
	p, mark := marked(t)
	id := submit(t, q, "runs", p, Note{})
	printed(t, q, id)
	submit(t, q, "taken", api.Program{Command: []string{"/bin/true"}}, Note{})
	<-reserved
	f.Quit()
	must(t, box.Close())
	f.Wait()
	if _, result := history(t, q, id); result.Verdict != api.Interrupted || result.Cause != CauseShutdown {
		t.Errorf("%+v", result)
	}
	if n := guests(t, mark); n != 0 {
		t.Errorf("%d guests are left", n)
	}
	must(t, q.Close())
	q = openQueue(t, queue.Options{Dir: dir})
	if st, err := q.Status(t.Context(), "taken"); err != nil || st.State != queue.Waiting || st.Losses != 0 {
		t.Errorf("%+v %v", st, err)
	}
	start(t, q, Options{})
	if all, result := history(t, q, "taken"); result.Verdict != api.OK || types(all) != "started finished" {
		t.Errorf("%s %+v", types(all), result)
	}
}
