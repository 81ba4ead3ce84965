package admission

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// inOneHour waits until an hour is not about to end, so that a test sees one window.
func inOneHour(atLeast ...time.Duration) {
	if left := time.Until(time.Now().Truncate(hour).Add(hour)); left < max(30*time.Second, slices.Max(append(atLeast, 0))) {
		time.Sleep(left + 100*time.Millisecond)
	}
}

// machines opens Admissions with one secret and one server, as machines that share it.
func machines(t *testing.T, n int, o Options) []*Admission {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir()})
	must(t, err)
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	o.Secret = credential.NewSecret()
	var all []*Admission
	for range n {
		o.Queue = newQueue(t, queue.Options{URL: srv.ClientURL(), Insecure: true, MaxJobs: 1000})
		all = append(all, open(t, o))
	}
	return all
}

// Two hundred submit at once, at three machines, and twenty get in.
//
// proves H-76
// proves part of X-18
func TestThreeMachines(t *testing.T) {
	inOneHour()
	all := machines(t, 3, Options{Quotas: true, InFlight: 1000})
	client := identify(t, all[0], "192.0.2.1:1")
	if other := identify(t, all[1], "192.0.2.1:9"); other.ID != client.ID {
		t.Fatal("two machines do not agree who it is")
	}
	counts := map[api.Code]*atomic.Int32{"": {}, api.CodeQuota: {}}
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			p, _, refused := admit(t, all[i%3], client)
			n := counts[refused]
			if n == nil {
				t.Error(refused)
				return
			}
			n.Add(1)
			if refused == "" {
				p.Accepted()
			}
		})
	}
	work.Wait()
	if in, out := counts[""].Load(), counts[api.CodeQuota].Load(); in != 20 || out != 180 {
		t.Errorf("%d got in, %d were refused", in, out)
	}
}

// The control: who reads the counter first and writes it then lets in more.
//
// proves part of H-76
func TestReadThenWrite(t *testing.T) {
	inOneHour()
	all := machines(t, 3, Options{Quotas: true})
	client := identify(t, all[0], "192.0.2.1:1")
	var in atomic.Int32
	var work, read sync.WaitGroup
	read.Add(60)
	for i := range 60 {
		work.Go(func() {
			a := all[i%3]
			r, _, err := a.Quotas(t.Context(), client)
			read.Done()
			read.Wait()
			if err != nil || r.Remaining == 0 {
				return
			}
			if err := a.tally(t.Context(), client, func(t *tally) error {
				t.add("r-"+client.ID, t.of("r-"+client.ID), credential.Run.New(), 1)
				return nil
			}); err == nil {
				in.Add(1)
			}
		})
	}
	work.Wait()
	if in.Load() <= 20 {
		t.Error("only", in.Load(), "got in, so that the other test proves nothing")
	}
}

// runs admits so many runs, which are accepted and end at once, and says how many
// got in and why the first one did not.
func runs(t *testing.T, a *Admission, c Client, n int) (in int, refused api.Code) {
	t.Helper()
	for range n {
		p, id, code := admit(t, a, c)
		if code != "" {
			return in, code
		}
		p.Accepted()
		a.Done(id)
		in++
	}
	return in, ""
}

// proves part of X-18 X-14
func TestQuotas(t *testing.T) {
	inOneHour()
	operator := credential.Operator.New()
	a := open(t, Options{Quotas: true, OperatorToken: operator, KeyRunsPerHour: 25})
	ctx := t.Context()
	c := identify(t, a, "192.0.2.1:1")
	for range 3 { // reading consumes nothing
		r, k, err := a.Quotas(ctx, c)
		must(t, err)
		if r.Limit != 20 || r.Used != 0 || r.Remaining != 20 || k.Limit != 5 || k.Used != 0 || k.Remaining != 5 || time.Until(r.Reset) > hour || time.Until(r.Reset) < -time.Second {
			t.Errorf("%+v %+v", r, k)
		}
	}
	if in, refused := runs(t, a, c, 30); in != 20 || refused != api.CodeQuota {
		t.Errorf("%d, then %s", in, refused)
	}
	r, _, err := a.Quotas(ctx, c)
	must(t, err)
	if r.Used != 20 || r.Remaining != 0 {
		t.Errorf("%+v", r)
	}
	_, err = a.Admit(ctx, c, Request{ID: credential.Run.New()})
	if e, ok := errors.AsType[*api.ServiceError](err); !ok || time.Duration(e.RetryAfterMS)*time.Millisecond > time.Until(r.Reset)+2*time.Second || time.Duration(e.RetryAfterMS)*time.Millisecond < time.Until(r.Reset)-time.Second {
		t.Errorf("%v: not the window's end, %v", err, r.Reset)
	}
	// Others are not bound by it: another address, a key, the operator.
	if in, refused := runs(t, a, identify(t, a, "192.0.2.2:1"), 3); refused != "" {
		t.Error(in, refused)
	}
	made, err := a.CreateKey(ctx, c)
	must(t, err)
	key := identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+made.Key)
	if in, refused := runs(t, a, key, 30); in != 25 || refused != api.CodeQuota {
		t.Errorf("a key: %d, then %s", in, refused)
	}
	if in, refused := runs(t, a, identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+operator), 40); refused != "" {
		t.Errorf("the operator: %d, then %s", in, refused)
	}
	off := open(t, Options{Secret: a.o.Secret})
	if in, refused := runs(t, off, c, 40); refused != "" {
		t.Errorf("control: without quotas %d, then %s", in, refused)
	}
	if r, k, err := off.Quotas(ctx, c); r != nil || k != nil || err != nil {
		t.Error(r, k, err)
	}
}

// A network has a share of its own, so that a client with many addresses of it does
// not have as many quotas.
//
// proves part of H-75
func TestCoarse(t *testing.T) {
	inOneHour()
	for name, c := range map[string]struct{ own, others func(int) string }{
		"IPv4": {func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) }, func(i int) string { return fmt.Sprintf("192.0.%d.1:1", 3+i) }},
		"IPv6": {func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:1", i) }, func(i int) string { return fmt.Sprintf("[2001:db8:%x::1]:1", 1+i) }},
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, Options{Quotas: true, CoarseFactor: 2})
			in := 0
			for i := range 100 {
				n, _ := runs(t, a, identify(t, a, c.own(i)), 1)
				in += n
			}
			if in != 40 {
				t.Errorf("%d of 40", in)
			}
			r, _, err := a.Quotas(t.Context(), identify(t, a, c.own(99)))
			must(t, err)
			if r.Used != 0 || r.Remaining != 0 {
				t.Errorf("%+v", r)
			}
			for i := range 60 {
				if _, refused := runs(t, a, identify(t, a, c.others(i)), 1); refused != "" {
					t.Fatal("control: another network:", refused)
				}
			}
			// What its own client has used up takes nothing from the network.
			b := open(t, Options{Quotas: true, CoarseFactor: 2})
			runs(t, b, identify(t, b, c.own(1)), 60)
			for range 50 {
				runs(t, b, identify(t, b, c.own(1)), 1)
			}
			if n, refused := runs(t, b, identify(t, b, c.own(2)), 20); n != 20 {
				t.Errorf("%d, then %s", n, refused)
			}
		})
	}
}

// The same run again is counted once, and is given back by the request that charged it
// alone, and only if nobody else's was accepted.
//
// proves part of H-76
func TestRefund(t *testing.T) {
	inOneHour()
	a := open(t, Options{Quotas: true})
	ctx := t.Context()
	c := identify(t, a, "192.0.2.1:1")
	used := func(want int) {
		t.Helper()
		must(t, a.tally(ctx, c, func(n *tally) error {
			for _, id := range []string{c.ID, c.Wide} {
				if got := n.of("r-" + id).used(); got != int64(want) {
					t.Errorf("%.4s: %d are counted, not %d", id, got, want)
				}
			}
			return nil
		}))
	}
	again := func(id string) *Place {
		t.Helper()
		p, err := a.Admit(ctx, c, Request{ID: id})
		must(t, err)
		return p
	}
	id := credential.Run.New()
	p := again(id)
	used(1)
	p.Refuse(ctx) // the queue was full
	used(0)
	p.Refuse(ctx)
	used(0)

	p, q := again(id), again(id) // two requests for one run, at once
	used(1)
	p.Refuse(ctx)
	used(1)
	q.Settle(ctx, fmt.Errorf("wrapped: %w", queue.ErrBacklog))
	used(0)

	p, q = again(id), again(id)
	q.Accepted()
	p.Settle(ctx, queue.ErrExists) // the other one has it
	used(1)
	a.Done(id)
	again(id).Settle(ctx, queue.ErrExists) // again, after its end: an answer of before stands
	used(1)
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
	p = again(credential.Run.New())
	p.Settle(ctx, context.DeadlineExceeded) // it is not known: the charge stands
	p.Refuse(ctx)
	used(2)
	other := identify(t, a, "192.0.2.2:1")
	p = again(id)
	if _, err := a.Admit(ctx, other, Request{ID: id}); code(t, err) != api.CodeConflict {
		t.Error("another client's:", err)
	}
	p.Refuse(ctx)
	used(2)
}

const (
	childVar  = "GLOVEBOX_TEST_ADMISSION_CHILD"
	stepsVar  = "GLOVEBOX_TEST_ADMISSION_STEPS"
	childAddr = "192.0.2.1:1"
)

func childOptions(dir string) (Options, error) {
	q, err := queue.Open(context.Background(), queue.Options{Dir: filepath.Join(dir, "queue"), MinFree: 1})
	if err != nil {
		return Options{}, err
	}
	secret, err := credential.LoadSecret(dir)
	return Options{Queue: q, Secret: secret, Quotas: true, InFlight: 100}, err
}

// child is a service that submits until it is refused, says each step, and kills itself
// after that many.
func child(dir string) {
	steps, err := strconv.Atoi(os.Getenv(stepsVar))
	fatal(err)
	say := func(what, of string) {
		fmt.Println(what, of)
		if steps--; steps < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	o, err := childOptions(dir)
	fatal(err)
	a, err := Open(context.Background(), o)
	fatal(err)
	c, err := a.Identify(request(childAddr))
	fatal(err)
	for {
		id := credential.Run.New()
		p, err := a.Admit(context.Background(), c, Request{ID: id, SourceHash: "aa"})
		if err != nil {
			say("refused", err.Error())
			return
		}
		say("charged", id)
		err = o.Queue.Submit(context.Background(), queue.Job{ID: id, Client: c.ID})
		say("accepted", id)
		p.Settle(context.Background(), err)
		say("settled", id)
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A process that is killed anywhere between the charge and the queue's answer, again and
// again, never lets in more than the quota: what it had charged stands.
//
// proves H-76
func TestKilledBetween(t *testing.T) {
	inOneHour()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	charged, accepted, lives := map[string]bool{}, map[string]bool{}, 0
	for refused := ""; refused == "" && lives < 60; lives++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		// After each of the steps in turn, of the first run or the second.
		cmd.Env = append(os.Environ(), childVar+"="+dir, fmt.Sprintf("%s=%d", stepsVar, lives%5))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			what, rest, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "charged":
				charged[rest] = true
			case "accepted":
				accepted[rest] = true
			case "refused":
				refused = rest
			}
		}
		if err := cmd.Wait(); err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatal(err, stderr.String())
		}
	}
	o, err := childOptions(dir)
	must(t, err)
	defer func() { must(t, o.Queue.Close()) }()
	a := open(t, o)
	c := identify(t, a, childAddr)
	jobs, err := o.Queue.Unfinished(t.Context(), c.ID)
	must(t, err)
	r, _, err := a.Quotas(t.Context(), c)
	must(t, err)
	t.Logf("%d lives: %d were told to be charged, %d to be accepted; %d are in the queue, %d counted", lives, len(charged), len(accepted), len(jobs), r.Used)
	if r.Used != 20 || len(charged) != 20 || len(jobs) != len(accepted) || len(accepted) < 8 || len(accepted) > 15 {
		t.Error("more was let in than the quota, or nothing was proved")
	}
	if h := a.Held(); h.Runs != len(jobs) {
		t.Errorf("%d runs are in the queue, and %d have a place after the restart", len(jobs), h.Runs)
	}
}

// Clocks that jump give nothing: quotas go by the store's.
//
// proves part of H-76
func TestClocks(t *testing.T) {
	inOneHour()
	var shift atomic.Int64
	a := open(t, Options{Quotas: true, Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	c := identify(t, a, "192.0.2.1:1")
	runs(t, a, c, 20)
	must(t, a.Egress(c, 1<<30))
	for _, d := range []time.Duration{0, -time.Minute, -hour, -1000 * day, 59 * time.Minute, hour, 1000 * day} {
		shift.Store(int64(d))
		if _, _, refused := admit(t, a, c); refused != api.CodeQuota { // the time to try again is looked at too
			t.Errorf("%v: %s", d, refused)
		}
		p, _, refused := admit(t, a, identify(t, a, "192.0.2.2:1"))
		if refused != "" {
			t.Errorf("control: %v: %s", d, refused)
			continue
		}
		p.Refuse(t.Context())
	}
	shift.Store(0)
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
}
