package admission

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// taker takes a place until it is refused, and says how many it got.
func taker(t *testing.T, take func(i int) (func(), error)) (n int, release func()) {
	t.Helper()
	var all []func()
	for i := range 10_000 {
		r, err := take(i)
		if err != nil {
			if code(t, err) != api.CodeBusy {
				t.Error(err)
			}
			return len(all), func() {
				for _, r := range all {
					r()
					r() // again gives nothing
				}
			}
		}
		all = append(all, r)
	}
	t.Fatal("there is no end")
	return 0, nil
}

// Waits and streams are shares: one client never has all of them, and what is given
// back is there again.
//
// proves part of H-46
func TestShares(t *testing.T) {
	a := open(t, Options{MaxWaits: 20, WaitsPerClient: 12, MaxSockets: 40, SocketsPerClient: 25, SocketsPerRun: 10})
	one, two, three := identify(t, a, "192.0.2.1:1"), identify(t, a, "192.0.2.2:1"), identify(t, a, "192.0.2.3:1")
	wait := func(c Client) func(int) (func(), error) { return func(int) (func(), error) { return a.Wait(c) } }
	for range 2 {
		n, release := taker(t, wait(one))
		if n != 12 {
			t.Errorf("one client has %d waits", n)
		}
		n, releaseTwo := taker(t, wait(two))
		if n != 8 {
			t.Errorf("another one has %d", n)
		}
		if n, _ := taker(t, wait(three)); n != 0 {
			t.Errorf("a third has %d", n)
		}
		release()
		n, releaseThree := taker(t, wait(three))
		if n != 12 {
			t.Errorf("when there are some again: %d", n)
		}
		releaseTwo()
		releaseThree()
	}
	onOne := func(c Client) func(int) (func(), error) {
		return func(int) (func(), error) { return a.Stream(c, "run-1") }
	}
	onMany := func(c Client) func(int) (func(), error) {
		return func(i int) (func(), error) { return a.Stream(c, fmt.Sprint("run-", i)) }
	}
	n, release := taker(t, onOne(one))
	if n != 10 {
		t.Errorf("%d watch one run", n)
	}
	if n, _ := taker(t, onOne(two)); n != 0 {
		t.Errorf("%d more of another client", n)
	}
	release()
	n, release = taker(t, onMany(one))
	if n != 25 {
		t.Errorf("one client has %d streams", n)
	}
	n, releaseTwo := taker(t, onMany(two))
	if n != 15 {
		t.Errorf("another one has %d", n)
	}
	release()
	releaseTwo()
	if h := a.Held(); h != (Held{}) || len(a.shares.streams) != 0 {
		t.Errorf("left: %+v, %d runs", h, len(a.shares.streams))
	}
	d := open(t, Options{}) // the defaults are shares too
	if d.o.WaitsPerClient*4 > d.o.MaxWaits*3 || d.o.SocketsPerClient*4 > d.o.MaxSockets*3 {
		t.Errorf("%+v", d.o)
	}
}

// proves part of X-17 H-46
func TestParallelPlaces(t *testing.T) {
	a := open(t, Options{InFlight: 5})
	c := identify(t, a, "192.0.2.1:1")
	var now, most, in atomic.Int32
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			for range 100 {
				id := credential.Run.New()
				p, err := a.Admit(t.Context(), c, Request{ID: id, Bytes: 10})
				if err != nil {
					if code(t, err) != api.CodeInFlight {
						t.Error(err)
					}
					continue
				}
				in.Add(1)
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				runtime.Gosched()
				now.Add(-1)
				switch id[0] & 3 {
				case 0:
					p.Refuse(t.Context())
				case 1:
					a.Done(id) // it ended before the request was told that it was accepted
					p.Accepted()
				default:
					p.Accepted()
					a.Done(id)
				}
			}
		})
	}
	work.Wait()
	if most.Load() > 5 || most.Load() < 2 || in.Load() < 100 {
		t.Errorf("%d at once, %d in all", most.Load(), in.Load())
	}
	if h := a.Held(); h != (Held{}) || a.shares.pending != 0 {
		t.Errorf("left: %+v, %d pending", h, a.shares.pending)
	}
}

// Places are found again after a restart, and freed when a run ends where nobody tells
// this process of it.
//
// proves part of X-17 X-09
func TestRestart(t *testing.T) {
	o := queue.Options{Dir: t.TempDir() + "/queue", MinFree: 1}
	q, err := queue.Open(t.Context(), o)
	must(t, err)
	first := open(t, Options{Queue: q, InFlight: 4})
	c := identify(t, first, "192.0.2.1:1")
	var ids []string
	for range 4 {
		p, id, refused := admit(t, first, c)
		if refused != "" {
			t.Fatal(refused)
		}
		must(t, q.Submit(t.Context(), queue.Job{ID: id, Client: c.ID}))
		p.Accepted()
		ids = append(ids, id)
	}
	first.Close()
	must(t, q.Close())
	a := open(t, Options{Queue: newQueue(t, o), Secret: first.o.Secret, InFlight: 4})
	a.Adopt(ids[0], c.ID) // again is nothing
	if h := a.Held(); h.Runs != 4 {
		t.Errorf("%+v", h)
	}
	if _, _, refused := admit(t, a, c); refused != api.CodeInFlight {
		t.Error("the places were forgotten:", refused)
	}
	// Two end without a word.
	for _, id := range ids[:2] {
		must(t, a.o.Queue.Cancel(t.Context(), id, []byte("canceled")))
	}
	a.shares.clients[c.ID].looked = time.Time{} // it may look again
	p, _, refused := admit(t, a, c)
	if refused != "" {
		t.Error(refused)
	}
	if h := a.Held(); h.Runs != 3 {
		t.Errorf("%+v", h)
	}
	p.Refuse(t.Context())
	if h := a.Held(); h.Runs != 2 {
		t.Errorf("%+v", h)
	}
}

// A request whose queue gave no answer holds its place until the queue has said for
// long that it has no such run; one that it has is one that was accepted.
//
// proves part of X-17 X-09
func TestDoubt(t *testing.T) {
	a := open(t, Options{InFlight: 4})
	c := identify(t, a, "192.0.2.1:1")
	p, id, refused := admit(t, a, c)
	if refused != "" {
		t.Fatal(refused)
	}
	p.Settle(t.Context(), context.DeadlineExceeded)
	q, lost, refused := admit(t, a, c)
	if refused != "" {
		t.Fatal(refused)
	}
	q.Settle(t.Context(), io.ErrUnexpectedEOF)
	must(t, a.o.Queue.Submit(t.Context(), queue.Job{ID: id, Client: c.ID}))
	for range staleAfter {
		must(t, a.look(t.Context(), ""))
	}
	if h := a.Held(); h.Runs != 2 {
		t.Errorf("before its time: %+v", h)
	}
	must(t, a.look(t.Context(), ""))
	if h := a.Held(); h.Runs != 1 || a.shares.runs[lost] != nil || a.shares.runs[id] == nil || a.shares.pending != 0 {
		t.Errorf("%+v", h)
	}
	must(t, a.o.Queue.Cancel(t.Context(), id, []byte("canceled")))
	must(t, a.look(t.Context(), ""))
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
}

// On several machines a client's runs are counted together.
//
// proves part of X-17
func TestInFlightElsewhere(t *testing.T) {
	all := machines(t, 2, Options{InFlight: 3})
	c := identify(t, all[0], "192.0.2.1:1")
	for range 3 {
		p, id, refused := admit(t, all[0], c)
		if refused != "" {
			t.Fatal(refused)
		}
		must(t, all[0].o.Queue.Submit(t.Context(), queue.Job{ID: id, Client: c.ID}))
		p.Accepted()
	}
	if _, _, refused := admit(t, all[1], c); refused != api.CodeInFlight {
		t.Error("on another machine:", refused)
	}
	p, _, refused := admit(t, all[1], identify(t, all[1], "192.0.2.2:1"))
	if refused != "" {
		t.Error("another client:", refused)
	}
	p.Refuse(t.Context())
	if h := all[1].Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
}

// A program that has ended its executor is refused to its owner for a time, twice as
// long each time, and nothing else is.
//
// proves part of H-50
func TestSlowed(t *testing.T) {
	var shift atomic.Int64
	a := open(t, Options{SlowFor: time.Minute, Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	ctx := t.Context()
	c, other := identify(t, a, "192.0.2.1:1"), identify(t, a, "192.0.2.2:1")
	try := func(c Client, source string) api.Code {
		t.Helper()
		p, err := a.Admit(ctx, c, Request{ID: credential.Run.New(), SourceHash: source})
		if err == nil {
			p.Refuse(ctx)
		}
		return code(t, err)
	}
	if got := try(c, "bad"); got != "" {
		t.Error("control: before:", got)
	}
	must(t, a.Lost(ctx, c.ID, "bad"))
	for _, x := range []struct {
		c      Client
		source string
		want   api.Code
	}{{c, "bad", api.CodeSlowed}, {c, "good", ""}, {c, "", ""}, {other, "bad", ""}} {
		if got := try(x.c, x.source); got != x.want {
			t.Errorf("%s: %q", x.source, got)
		}
	}
	for losses := 1; losses < 14; losses++ {
		want := min(time.Minute<<(losses-1), day)
		shift.Store(int64(want - 10*time.Second))
		if got := try(c, "bad"); got != api.CodeSlowed {
			t.Errorf("%d losses: %q before %v are over", losses, got, want)
		}
		shift.Store(int64(want + time.Second))
		if got := try(c, "bad"); got != "" {
			t.Errorf("%d losses: %q after %v", losses, got, want)
		}
		must(t, a.Lost(ctx, c.ID, "bad"))
		shift.Store(0)
	}
	must(t, a.Cleared(ctx, c.ID, "bad"))
	must(t, a.Cleared(ctx, c.ID, "bad"))
	if got := try(c, "bad"); got != "" {
		t.Error("after it ran to its end:", got)
	}
	// However many are lost at once, each is counted.
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() { must(t, a.Lost(ctx, c.ID, "many")) })
	}
	work.Wait()
	v, err := a.slow.Get(ctx, a.slowKey(c.ID, "many"))
	must(t, err)
	if n := binary.LittleEndian.Uint64(v.Data); n != 8 {
		t.Error(n, "losses")
	}
}

// What a run costs is counted after it: the next one waits when it was too much.
//
// proves part of H-46 H-47
func TestSpend(t *testing.T) {
	inOneHour()
	a := open(t, Options{Quotas: true, RunsPerHour: 10, CPUPerRun: time.Second, StoredPerHour: 1 << 20, OperatorToken: credential.Operator.New()})
	ctx := t.Context()
	try := func(c Client, bytes int64) api.Code {
		t.Helper()
		p, err := a.Admit(ctx, c, Request{ID: credential.Run.New(), Bytes: bytes})
		if err == nil {
			p.Refuse(ctx)
		}
		return code(t, err)
	}
	n := 0
	for name, c := range map[string]struct {
		cost Cost
		want api.Code
	}{
		"CPU":         {Cost{CPUMS: 10_000}, api.CodeQuota},
		"less CPU":    {Cost{CPUMS: 9999}, ""},
		"much CPU":    {Cost{CPUMS: 1 << 60}, api.CodeQuota},
		"bytes":       {Cost{StoredBytes: 1<<20 - 1}, api.CodeStorage},
		"less bytes":  {Cost{StoredBytes: 1<<20 - 2048}, ""},
		"much":        {Cost{StoredBytes: 1 << 60}, api.CodeStorage},
		"nothing":     {Cost{}, ""},
		"less than 0": {Cost{CPUMS: -1 << 60, StoredBytes: -1 << 60}, ""},
	} {
		n++
		client := identify(t, a, fmt.Sprintf("192.0.2.%d:1", n))
		cost := c.cost
		cost.ID = credential.Run.New()
		if got := try(client, 1000); got != "" {
			t.Errorf("%s: before: %s", name, got)
		}
		for range 3 { // once for an id
			must(t, a.Spend(ctx, client, cost))
		}
		if got := try(client, 1000); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	c := identify(t, a, "192.0.2.200:1")
	if got := try(c, 1<<20+1); got != api.CodeStorage {
		t.Error("one that is too large:", got)
	}
	half, err := a.Admit(ctx, c, Request{ID: credential.Run.New(), Bytes: 600 << 10})
	must(t, err)
	if got := try(c, 600<<10); got != api.CodeStorage {
		t.Error("beside one that is not counted yet:", got)
	}
	half.Refuse(ctx)
	if got := try(c, 600<<10); got != "" {
		t.Error("control: after it has gone:", got)
	}
	operator := identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+a.o.OperatorToken)
	must(t, a.Spend(ctx, operator, Cost{ID: "x", CPUMS: 1 << 40, StoredBytes: 1 << 40}))
	if got := try(operator, 1<<30); got != "" {
		t.Error("the operator:", got)
	}
}

// proves part of H-47
func TestEgress(t *testing.T) {
	var shift atomic.Int64
	base := time.Now().Truncate(hour).Add(30 * time.Minute)
	a := open(t, Options{Quotas: true, EgressPerHour: 1000, KeyEgressPerHour: 3000, EgressInAll: 5000, OperatorToken: credential.Operator.New(),
		Now: func() time.Time { return base.Add(time.Duration(shift.Load())) }})
	client := func(i int) Client { return identify(t, a, fmt.Sprintf("192.0.2.%d:1", i)) }
	if err := a.Egress(client(1), 1001); code(t, err) != api.CodeQuota {
		t.Error(err)
	}
	must(t, a.Egress(client(1), 1000))
	if err := a.Egress(client(1), 1); code(t, err) != api.CodeQuota {
		t.Error(err)
	}
	must(t, a.Egress(client(1), 0))
	made, err := a.CreateKey(t.Context(), client(1))
	must(t, err)
	key := identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+made.Key)
	must(t, a.Egress(key, 3000))
	must(t, a.Egress(client(2), 1000))
	if err := a.Egress(client(3), 1); code(t, err) != api.CodeBusy {
		t.Error("more than all may have:", err)
	}
	must(t, a.Egress(identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+a.o.OperatorToken), 1<<40))
	for _, back := range []time.Duration{-time.Minute, -40 * time.Minute, 29 * time.Minute} {
		shift.Store(int64(back))
		if err := a.Egress(client(1), 1); code(t, err) != api.CodeQuota {
			t.Errorf("a clock that went %v: %v", back, err)
		}
	}
	shift.Store(int64(31 * time.Minute))
	must(t, a.Egress(client(1), 1000)) // the next hour
	must(t, open(t, Options{EgressPerHour: 1}).Egress(client(1), 1<<40))
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled is the heap when it is no more than so much larger than before, or after 30 s:
// the store gives up the caches of what was written some seconds later.
func settled(before, atMost int64) (after int64) {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if after = heap(); after-before <= atMost || time.Now().After(end) {
			return after
		}
	}
}

// Two hundred thousand clients, each of which asks for everything once and goes, leave
// nothing.
//
// proves part of X-09
func TestManyClientsAsRoot(t *testing.T) {
	const count = 200_000
	a := open(t, Options{Quotas: true, OperatorToken: credential.Operator.New()})
	r := request("")
	ask := func(i int) {
		r.RemoteAddr = fmt.Sprintf("[2001:db8:%x:%x::1]:1", i>>16, i&0xffff)
		c, err := a.Identify(r)
		must(t, err)
		if err := a.Egress(c, 1); err != nil {
			t.Fatal(err)
		}
		wait, err := a.Wait(c)
		must(t, err)
		stream, err := a.Stream(c, c.ID)
		must(t, err)
		id := credential.Run.New()
		_, err = a.shares.enter(c.ID, Request{ID: id}, 8)
		must(t, err)
		if i%2 == 0 {
			a.shares.leave(id, false)
		} else {
			a.shares.accepted(id, c.ID)
			a.Done(id)
		}
		stream()
		wait()
	}
	for i := range 1000 {
		ask(i)
	}
	before := heap()
	for i := range count {
		ask(i)
	}
	after := heap()
	t.Logf("heap before %d KiB, after %d KiB", before>>10, after>>10)
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
	if n := len(a.egress.now) + len(a.egress.old); n > 2*maxEgress || n < maxEgress {
		t.Errorf("%d clients are known", n)
	}
	if after-before > 12<<20 {
		t.Error("it grows")
	}
	runtime.KeepAlive(a)
}

// manyKeys makes keys and reads some, and says how much heap they take.
func manyKeys(t *testing.T, count int) (before, full int64) {
	t.Helper()
	a := open(t, Options{KeyTTL: hour})
	c := identify(t, a, "192.0.2.1:1")
	before = heap()
	var work sync.WaitGroup
	for w := range 8 {
		work.Go(func() {
			for i := w; i < count; i += 8 {
				made, err := a.CreateKey(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if i%100 == 0 {
					identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+made.Key)
				}
			}
		})
	}
	work.Wait()
	full = settled(before, 8<<20)
	n := 0
	for _, err := range a.Keys(t.Context()) {
		must(t, err)
		n++
	}
	if n != count {
		t.Errorf("%d keys, not %d", n, count)
	}
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
	return before, full
}

// manyQuotas has clients submit a run each, every one from a network of its own, and
// says how much heap their counters take.
func manyQuotas(t *testing.T, count int) (before, full int64) {
	t.Helper()
	a := open(t, Options{Quotas: true})
	before = heap()
	var work sync.WaitGroup
	for w := range 8 {
		work.Go(func() {
			r := request("")
			for i := w; i < count; i += 8 {
				r.RemoteAddr = fmt.Sprintf("[2001:db8:%x:1:%x::]:1", i&0xffff, i>>16)
				if i>>16 > 0 {
					r.RemoteAddr = fmt.Sprintf("[2001:db8:%x:%x::1]:1", i&0xffff, 1+i>>16)
				}
				c, err := a.Identify(r)
				must(t, err)
				p, err := a.Admit(t.Context(), c, Request{ID: credential.Run.New(), Bytes: 1})
				if err != nil {
					t.Error(err)
					return
				}
				p.Accepted()
				a.Done(p.r.ID)
			}
		})
	}
	work.Wait()
	full = settled(before, 8<<20)
	c := identify(t, a, "[2001:db8:7:1::1]:1")
	if r, _, err := a.Quotas(t.Context(), c); err != nil || r.Used != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
	return before, full
}

// What the store's index takes for 4,096 parts is all that many keys and many clients
// take; the soak test has two hundred thousand.
//
// proves part of X-09
func TestManyInStoreAsRoot(t *testing.T) {
	inOneHour()
	before, full := manyKeys(t, 4000)
	t.Logf("keys: heap before %d KiB, after %d KiB", before>>10, full>>10)
	if full-before > 8<<20 {
		t.Error("it grows")
	}
	before, full = manyQuotas(t, 4000)
	t.Logf("clients: heap before %d KiB, after %d KiB", before>>10, full>>10)
	if full-before > 8<<20 {
		t.Error("it grows")
	}
}

func TestNothingGoesOn(t *testing.T) {
	q := newQueue(t, queue.Options{})
	open(t, Options{Queue: q}) // the store's own for each bucket
	ignore := goleak.IgnoreCurrent()
	a, err := Open(t.Context(), Options{Queue: q, Secret: credential.NewSecret()})
	must(t, err)
	a.Close()
	a.Close()
	goleak.VerifyNone(t, ignore)
}
