package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// TestTries: what may be better later is tried three times, with one id and pauses
// that grow; what will not is tried once.
//
// proves part of H-68
func TestTries(t *testing.T) {
	var mu sync.Mutex
	var answers []int
	var times []time.Time
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
		w.WriteHeader(answers[0])
		answers = answers[1:]
	})
	w := newWorld(t, r, Options{PerMinute: 60_000, Pauses: []time.Duration{50 * time.Millisecond, 150 * time.Millisecond}})
	for _, c := range []struct {
		answers []int
		want    []string
	}{
		{[]int{500, 429, 200}, []string{Queued, Retried, Retried, Delivered}},
		{[]int{503, 408, 504}, []string{Queued, Retried, Retried, Failed}},
		{[]int{404}, []string{Queued, Failed}}, {[]int{410}, []string{Queued, Failed}}, {[]int{401}, []string{Queued, Failed}},
		{[]int{201}, []string{Queued, Delivered}}, {[]int{299}, []string{Queued, Delivered}},
	} {
		before := len(r.requests())
		mu.Lock()
		answers, times = c.answers, nil
		mu.Unlock()
		d := w.run(r.url())
		w.want(c.want...)
		got := r.requests()[before:]
		if len(got) != len(c.want)-1 || len(answers) != 0 {
			t.Fatalf("%v: %d requests", c.answers, len(got))
		}
		for _, q := range got {
			if q.Header.Get(api.WebhookIDHeader) != got[0].Header.Get(api.WebhookIDHeader) {
				t.Error("another id at another try")
			}
			if err := api.VerifyWebhook(w.h.SecretOf(d.KeyID), q.Header.Get(api.WebhookIDHeader), q.Header.Get(api.WebhookTimestampHeader),
				q.Header.Get(api.WebhookSignatureHeader), q.body, time.Now(), 0); err != nil {
				t.Error(err)
			}
		}
		if len(times) == 3 && (times[1].Sub(times[0]) < 50*time.Millisecond || times[2].Sub(times[1]) < 150*time.Millisecond) {
			t.Errorf("the pauses were %v and %v", times[1].Sub(times[0]), times[2].Sub(times[1]))
		}
	}
}

// TestReflector: 10,000 runs that all name one host make few requests there and no
// backlog without end; who submits is told so. With the bounds taken off, each arrives.
//
// proves part of H-68
func TestReflector(t *testing.T) {
	r := newReceiver(t, nil)
	var clock atomic.Int64
	w := newWorld(t, r, Options{MaxPending: 1000, PerMinute: 120, Now: func() time.Time { return time.Unix(1e9, clock.Load()) }})
	busy, queued := 0, 0
	for range 10_000 {
		d := newDelivery(r.url())
		switch err := w.h.Expect(t.Context(), d); {
		case err == nil:
			queued++
			must(t, w.q.Submit(t.Context(), queue.Job{ID: d.RunID, Client: "c", Program: []byte("{}")}))
			w.h.Follow(d.RunID)
			w.finish(w.take(), api.Result{Verdict: api.OK})
		case errors.Is(err, ErrBusy):
			busy++
		default:
			t.Fatal(err)
		}
	}
	if busy+queued != 10_000 || queued < 100 || queued > 120 {
		t.Errorf("%d taken, %d refused", queued, busy)
	}
	sent := 0
	for _, more := range []int{20, 2, 2, 20} { // what may come at once, then two a second
		for n := 0; n < more; {
			if w.next() == Delivered {
				n++
			}
		}
		if w.h.begin(); len(r.requests()) != sent+more {
			t.Fatalf("%d requests, want %d more than %d", len(r.requests()), more, sent)
		}
		sent += more
		if clock.Add(int64(time.Second)); more == 2 && sent == 24 {
			clock.Add(int64(time.Hour))
		}
		w.h.ring()
	}
	w.h.mu.Lock()
	items, keys, hosts := len(w.h.items), len(w.h.keys), len(w.h.hosts)
	w.h.mu.Unlock()
	if items > 100 || keys > 100 || hosts != 1 {
		t.Errorf("%d items, %d keys, %d hosts are kept", items, keys, hosts)
	}

	off := newWorld(t, r, Options{PerMinute: 60_000, PerHost: 256, InFlight: 256})
	before := len(r.requests())
	for range 200 {
		off.run(r.url())
	}
	for n := 0; n < 200; {
		if off.next() == Delivered {
			n++
		}
	}
	if got := len(r.requests()) - before; got < 200 {
		t.Errorf("%d of the control arrived", got)
	}
}

// TestShares: one key, one host and all together have their share of what is owed.
func TestShares(t *testing.T) {
	w := newWorld(t, nil, Options{Allow: []string{"a.test", "b.test", "c.test", "d.test"}, MaxPending: 40})
	expect := func(key, host string) error {
		d := newDelivery("https://" + host + "/")
		if key != "" {
			d.KeyID = key
		}
		return w.h.Expect(t.Context(), d)
	}
	key := credential.KeyID.New()
	for i := range 4 {
		must(t, expect(key, []string{"a.test", "b.test"}[i%2]))
	}
	if err := expect(key, "c.test"); !errors.Is(err, ErrBusy) {
		t.Errorf("a fifth of one key: %v", err)
	}
	must(t, expect("", "a.test"))
	must(t, expect("", "a.test"))
	if err := expect("", "a.test"); !errors.Is(err, ErrBusy) {
		t.Errorf("a fifth of one host: %v", err)
	}
	must(t, expect("", "c.test"))
	all := newWorld(t, nil, Options{Allow: []string{"a.test", "b.test"}, MaxPending: 1})
	must(t, all.h.Expect(t.Context(), newDelivery("https://a.test/")))
	if err := all.h.Expect(t.Context(), newDelivery("https://b.test/")); !errors.Is(err, ErrBusy) {
		t.Errorf("a second of all: %v", err)
	}
}

// TestInFlight: a receiver that does not answer holds two tries and not all, and a key
// its own share; others are told meanwhile.
//
// proves part of H-68
func TestInFlight(t *testing.T) {
	var now, most atomic.Int64
	release := make(chan struct{})
	slow := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		for n := now.Add(1); ; {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		defer now.Add(-1)
		if q.URL.Path == "/slow" {
			<-release
		}
	})
	w := newWorld(t, slow, Options{PerMinute: 60_000, InFlight: 8, PerHost: 3, PerKey: 2, Allow: []string{slow.host(), "127.0.0.1:" + slow.port()}})
	one := credential.KeyID.New()
	delivered := func(n int) {
		t.Helper()
		for n > 0 {
			if w.next() == Delivered {
				n--
			}
		}
	}
	send := func(key, url string) {
		w.submit(Delivery{RunID: credential.Run.New(), KeyID: key, URL: url})
		w.finish(w.take(), api.Result{Verdict: api.OK})
	}
	for range 6 {
		send(one, "https://"+slow.host()+"/slow")
	}
	<-slow.came
	<-slow.came
	send(credential.KeyID.New(), "https://"+slow.host()+"/quick")
	send(credential.KeyID.New(), "https://127.0.0.1:"+slow.port()+"/quick")
	delivered(2)
	if now.Load() != 2 {
		t.Errorf("%d of one key at a time", now.Load())
	}
	for range 3 {
		send(credential.KeyID.New(), "https://"+slow.host()+"/slow")
	}
	send(credential.KeyID.New(), "https://127.0.0.1:"+slow.port()+"/quick")
	delivered(1)
	for range 4 { // two quick ones of before, a slow one of another key, the quick one
		<-slow.came
	}
	settle(t, w, func() bool { return len(w.h.target("example.com").due) == 6 })
	w.h.begin()
	settle(t, w, func() bool { return w.h.target("example.com").trying == 3 })
	if most.Load() > 4 || now.Load() != 3 { // the fourth was the quick one
		t.Errorf("%d, at most %d, of one host at a time", now.Load(), most.Load())
	}
	close(release)
	delivered(9)
	if most.Load() > 4 {
		t.Errorf("%d at a time", most.Load())
	}
}

// TestRestart: what was owed when the program ended is told after it has begun again:
// a run that had not ended, one that the queue then ends itself, one that was in a try,
// one that waits for its next.
//
// proves part of H-68
func TestRestart(t *testing.T) {
	var down atomic.Bool
	hold := make(chan struct{})
	down.Store(true)
	r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case !down.Load():
		case q.URL.Path == "/mute":
			select {
			case <-hold:
			case <-q.Context().Done():
			}
		default:
			w.WriteHeader(503)
		}
	})
	w := newWorld(t, r, Options{Pauses: []time.Duration{300 * time.Millisecond, time.Second}})
	defer close(hold)
	base := "https://" + r.host()
	paused := w.run(base + "/paused")
	w.want(Queued, Retried)
	<-r.came
	w.submit(newDelivery(base + "/lost"))
	lost := w.take()
	mute := w.run(base + "/mute")
	w.want(Queued, Queued)
	<-r.came
	waiting := newDelivery(base + "/waiting")
	w.submit(waiting)
	w.want(Queued)
	w.close(0) // with a try being made
	down.Store(false)
	begun := time.Now()
	w.open()
	w.finish(w.take(), api.Result{Verdict: api.OK})
	w.want(Delivered, Delivered, Delivered, Delivered)
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	told := map[string]string{}
	for _, q := range r.requests()[2:] {
		told[q.URL.Path] = string(q.body)
	}
	for path, id := range map[string]string{"/paused": paused.RunID, "/lost": lost.Job.ID, "/mute": mute.RunID, "/waiting": waiting.RunID} {
		if !strings.Contains(told[path], `"id":"`+id+`"`) {
			t.Errorf("%s: %.200s", path, told[path])
		}
	}
	if !strings.Contains(told["/lost"], `"verdict":"interrupted"`) {
		t.Errorf("/lost: %.300s", told["/lost"])
	}
	w.close(time.Second)
	n := len(r.requests())
	w.open() // and nothing is told once more
	w.run(base + "/after")
	w.want(Queued, Delivered)
	if got := len(r.requests()); got != n+1 {
		t.Errorf("%d requests after the last restart", got-n)
	}
}

// TestTriesAcrossRestarts: a program that ends in each try makes no more tries than one
// that lives.
func TestTriesAcrossRestarts(t *testing.T) {
	r := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	w := newWorld(t, r, Options{})
	w.run(r.url())
	w.want(Queued)
	for range 3 {
		<-r.came
		w.close(0)
		w.open()
	}
	w.want(Failed)
	if got := len(r.requests()); got != 3 {
		t.Errorf("%d tries", got)
	}
}

// TestOnce: the same submission again is told of once; what was not accepted is not told
// of, and can be expected again.
//
// proves part of H-68
func TestOnce(t *testing.T) {
	r := newReceiver(t, nil)
	w := newWorld(t, r, Options{})
	ctx := t.Context()
	d := newDelivery(r.url())
	must(t, w.h.Expect(ctx, d))
	must(t, w.h.Expect(ctx, d))
	other := d
	other.URL = "https://" + r.host() + "/other"
	if err := w.h.Expect(ctx, other); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	w.h.Follow(d.RunID) // of the one that was refused: the run is not there yet
	must(t, w.q.Submit(ctx, queue.Job{ID: d.RunID, Client: "c", Program: []byte("{}")}))
	w.h.Follow(d.RunID)
	w.finish(w.take(), api.Result{Verdict: api.OK})
	w.want(Queued, Delivered)
	again := func() {
		t.Helper()
		must(t, w.h.Expect(ctx, d))
		must(t, w.q.Submit(ctx, queue.Job{ID: d.RunID, Client: "c", Program: []byte("{}")}))
		w.h.Follow(d.RunID)
	}
	waitEmpty(t, w)
	again()
	w.close(time.Second)
	w.open()
	again()
	if v, err := w.h.bucket.Get(ctx, d.RunID); err != nil || strings.Contains(string(v.Data), "secret") || strings.Contains(string(v.Data), "https") {
		t.Errorf("%v: the URL is kept: %s", err, v.Data)
	}

	refused := newDelivery(r.url())
	must(t, w.h.Expect(ctx, refused))
	w.h.Follow(refused.RunID)
	w.want(Queued, Dropped)
	waitEmpty(t, w)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // it is dropped in the background
		if _, err := w.h.bucket.Get(ctx, refused.RunID); errors.Is(err, queue.ErrNotFound) {
			break
		} else if time.Now().After(end) {
			t.Fatal("the record of a run that was not accepted stays:", err)
		}
	}
	w.submit(refused)
	w.finish(w.take(), api.Result{Verdict: api.OK})
	w.want(Queued, Delivered)
	if got := len(r.requests()); got != 2 {
		t.Errorf("%d requests", got)
	}
}

// waitEmpty waits until nothing is owed.
func waitEmpty(t *testing.T, w *world) {
	t.Helper()
	settle(t, w, func() bool {
		owed := 0
		for _, x := range w.h.hosts {
			owed += x.owed + len(x.due)
		}
		return len(w.h.items)+len(w.h.keys)+owed == 0
	})
}

// settle waits until something holds that is asked with the lock held: nothing tells of it.
func settle(t *testing.T, w *world, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		w.h.mu.Lock()
		good := holds()
		w.h.mu.Unlock()
		if good {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it does not come to that")
		}
	}
}

// TestGone: nothing is told of a run that was erased, for a key that was revoked, or to
// a host that is no longer on the list.
//
// proves part of H-68
func TestGone(t *testing.T) {
	r := newReceiver(t, nil)
	var revoked atomic.Bool
	w := newWorld(t, r, Options{Active: func(context.Context, string) bool { return !revoked.Load() }})
	w.run(r.url())
	w.want(Queued, Delivered)
	revoked.Store(true)
	w.run(r.url())
	w.want(Queued, Dropped)
	revoked.Store(false)
	w.submit(newDelivery(r.url()))
	w.want(Queued)
	w.close(0)
	w.o.Allow = []string{"example.com:1"}
	w.open()
	w.want(Dropped)
	waitEmpty(t, w)
	if got := len(r.requests()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// Many at once, from many goroutines, end, each once.
func TestParallel(t *testing.T) {
	r := newReceiver(t, nil)
	w := newWorld(t, r, Options{PerMinute: 60_000, PerHost: 8})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				d := newDelivery(r.url())
				if err := w.h.Expect(context.Background(), d); err != nil {
					t.Error(err)
					return
				}
				if err := w.q.Submit(context.Background(), queue.Job{ID: d.RunID, Client: "c", Program: []byte("{}")}); err != nil {
					t.Error(err)
				}
				w.h.Follow(d.RunID)
			}
		})
	}
	for range 400 {
		w.finish(w.take(), api.Result{Verdict: api.OK})
	}
	wg.Wait()
	waitEmpty(t, w)
	ids := map[string]bool{}
	for _, q := range r.requests() {
		ids[q.Header.Get(api.WebhookIDHeader)] = true
	}
	if len(ids) != 400 || len(r.requests()) != 400 {
		t.Errorf("%d ids in %d requests", len(ids), len(r.requests()))
	}
}
