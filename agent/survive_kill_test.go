package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// childVar makes this program, as a child of a test, hold a session in a folder:
// "folder,what,where".
const childVar = "GLOVEBOX_TEST_SURVIVE"

// The appends of a child that has a session with one feed and one call: which record
// comes when.
const (
	atStart  = 3 // after the header and the feed
	atAnswer = 4
)

// signals is a store that sends this process a signal before or after one of its
// writes.
type signals struct {
	store.Store
	n             atomic.Int64
	before, after int64
	send          syscall.Signal
}

type signalsLease struct {
	store.Lease
	s *signals
}

func (s *signals) Acquire(ctx context.Context, k store.Key, o store.AcquireOptions) (store.Lease, error) {
	l, err := s.Store.Acquire(ctx, k, o)
	if err != nil {
		return nil, err
	}
	return &signalsLease{l, s}, nil
}

func (l *signalsLease) Append(ctx context.Context, frames, head []byte) error {
	n := l.s.n.Add(1)
	if n == l.s.before {
		signalSelf(l.s.send)
	}
	err := l.Lease.Append(ctx, frames, head)
	if n == l.s.after {
		signalSelf(l.s.send)
	}
	return err
}

// signalSelf returns when the process goes on.
func signalSelf(s syscall.Signal) {
	on := make(chan os.Signal, 1)
	signal.Notify(on, syscall.SIGCONT)
	defer signal.Stop(on)
	_ = syscall.Kill(os.Getpid(), s)
	<-on // a process that stops itself may still run a little
}

// folderPool is a pool on a folder. Its tool "charge" has an effect: a line in a file
// with the key of its call, which it returns.
func folderPool(t testing.TB, dir string, st store.Store, then func()) (*Pool, *Catalog) {
	t.Helper()
	catalog := catalogOf(t, Tool{Name: "charge", MaxCalls: chargeBudget, Func: func(ctx context.Context) (string, error) {
		c, _ := CallOf(ctx)
		f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := f.WriteString(c.Session + " " + c.Key + "\n"); err != nil {
			return "", err
		}
		if then != nil {
			then()
		}
		return c.Key, nil
	}})
	return newPool(t, Options{Keys: surviveKeys, Store: st, Max: 6}), catalog
}

const chargeBudget = 40

// folderStore is the store of a folder. Whoever shows no life for 300 ms is replaced.
func folderStore(t testing.TB, dir string) store.Store {
	t.Helper()
	st, err := store.NewFile(filepath.Join(dir, "sessions"), store.FileOptions{TTL: 300 * time.Millisecond, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

var oneKey = store.Key{Owner: "o", ID: "a"}

// effects are the keys that the tool has written, in order.
func effects(t testing.TB, dir string) (keys []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "effects"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		keys = append(keys, s.Text())
	}
	return keys
}

// TestSurviveChild is what children of the other tests do: one feed with one call,
// with a signal to itself on the way. It says what its feed came to.
func TestSurviveChild(t *testing.T) {
	parts := strings.Split(os.Getenv(childVar), ",")
	if len(parts) != 3 {
		return
	}
	dir, send := parts[0], syscall.SIGKILL
	if parts[1] == "crowd" {
		crowd(t, dir)
		return
	}
	if parts[1] == "stop" {
		send = syscall.SIGSTOP
	}
	st := &signals{Store: folderStore(t, dir), send: send}
	var then func()
	switch parts[2] {
	case "before_start":
		st.before = atStart
	case "after_start":
		st.after = atStart
	case "after_effect":
		then = func() { signalSelf(send) }
	case "before_result":
		st.before = atAnswer
	case "after_result":
		st.after = atAnswer
	}
	p, catalog := folderPool(t, dir, st, then)
	s := acquire(t, p, oneKey, AcquireOptions{Tools: catalog})
	fmt.Printf("came to %s\n", fed(s, "const k = await charge(); k"))
	fmt.Printf("and then %s\n", fed(s, "await charge()"))
}

// child begins one.
func child(t testing.TB, dir, what, where string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestSurviveChild$", "-test.v")
	c.Env = append(os.Environ(), childVar+"="+dir+","+what+","+where)
	c.Stderr = os.Stderr
	return c
}

// TestSurviveCrash is the case 186 with sessions: a process is killed at four points
// around the effect of a tool. Another takes the session up: nothing was called, the
// call is in doubt under the key that the tool was given, or it is answered and not
// called again. It is charged once; the count is that of the tool's own file.
//
// proves S-23
func TestSurviveCrash(t *testing.T) {
	text, err := os.ReadFile("testdata/cases/186-crash-window.json")
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
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			cmd := child(t, dir, "kill", point)
			out, err := cmd.Output()
			if status, ok := errors.AsType[*exec.ExitError](err); !ok || !status.Sys().(syscall.WaitStatus).Signaled() {
				t.Fatalf("%v\n%s", err, out)
			}
			had := len(effects(t, dir))
			p, catalog := folderPool(t, dir, folderStore(t, dir), nil)
			s := acquire(t, p, oneKey, AcquireOptions{Tools: catalog, MustExist: true})
			step := s.Step()
			if step == nil || s.Usage().Calls != 1 || s.Usage().Feeds != 1 {
				t.Fatalf("%+v %+v", step, s.Usage())
			}
			doubt := point == "after_start" || point == "after_effect"
			if answered := point == "after_result"; step.Done != answered || !answered && (len(step.Calls) != 1 || step.Calls[0].InDoubt != doubt) {
				t.Fatalf("%+v", step)
			}
			if want := point == "after_effect" || point == "after_result"; had > 1 || (had == 1) != want {
				t.Errorf("%d effects", had)
			}
			key := ""
			if !step.Done { // again, by the host's own word, and under the same key
				key = step.Calls[0].Key
				if step, err = s.Resume(t.Context(), Reply{Call: step.Calls[0].ID, Run: true}); err != nil || !step.Done {
					t.Fatalf("%+v %v", step, err)
				}
			}
			var got string
			if err := step.Result.Value.Decode(&got); err != nil || key != "" && got != key || len(got) != 32 {
				t.Errorf("%s, not %s: %v", got, key, err)
			}
			for _, line := range effects(t, dir) {
				if line != s.ID()+" "+got {
					t.Errorf("an effect of another call: %s", line)
				}
			}
			l := reloaded(t, s, p)
			if fed(l, "k") != `"`+got+`"` || l.Usage().Calls != 1 {
				t.Errorf("%+v", l.Usage())
			}
		})
	}
}

// TestSurviveStopped: a process is stopped on its way, past the time that it may show
// no life, and another takes its session. Continued, it delivers nothing: no call that
// it had not begun, no answer. The call is charged once, and never answered by both.
//
// proves H-60
func TestSurviveStopped(t *testing.T) {
	for _, point := range []string{"before_start", "after_start", "after_effect", "before_result"} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			cmd := child(t, dir, "stop", point)
			var out strings.Builder
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var ws syscall.WaitStatus
			if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
				t.Fatalf("%v %v\n%s", ws, err, out.String())
			}
			had := len(effects(t, dir))
			p, catalog := folderPool(t, dir, folderStore(t, dir), nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			s, err := p.Acquire(ctx, oneKey, AcquireOptions{Tools: catalog, MustExist: true})
			if err != nil {
				t.Fatal(err)
			}
			step := s.Step()
			if step == nil || step.Done || len(step.Calls) != 1 || step.Calls[0].InDoubt != (point != "before_start") || s.Usage().Calls != 1 {
				t.Fatalf("%+v", step)
			}
			key := step.Calls[0].Key
			reply := Reply{Call: step.Calls[0].ID, Value: "by the second"}
			if point == "before_start" {
				reply = Reply{Call: step.Calls[0].ID, Run: true}
			}
			if step, err = s.Resume(t.Context(), reply); err != nil || !step.Done {
				t.Fatalf("%+v %v", step, err)
			}
			second := said(step.Result, nil)
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v", err)
			}
			if said := out.String(); !strings.Contains(said, "came to error: agent: session_lost") || !strings.Contains(said, "and then error: agent: session_lost") {
				t.Errorf("the first %s", said)
			}
			all := effects(t, dir)
			// What was on record as begun may have been on its way to the tool: that is what in doubt means.
			if want := map[string][2]int{"before_start": {0, 1}, "after_start": {0, 1}, "after_effect": {1, 1}, "before_result": {1, 1}}[point]; had != want[0] || len(all) > want[1] {
				t.Errorf("%d effects, and at the end %v", had, all)
			}
			for _, line := range all {
				if line != s.ID()+" "+key {
					t.Errorf("an effect of another call: %s", line)
				}
			}
			if got := fed(s, "k"); got != second || s.Usage().Calls != 1 {
				t.Errorf("%s, not %s, %+v", got, second, s.Usage())
			}
		})
	}
}

// crowdSize is how many sessions a crowd has.
func crowdSize(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "size"))
	n := 0
	_, _ = fmt.Sscan(string(data), &n)
	return n
}

// crowd feeds all sessions of a folder, a few at a time, until it is killed or every
// budget is used up. What was accepted it writes down.
func crowd(t *testing.T, dir string) {
	p, catalog := folderPool(t, dir, folderStore(t, dir), nil)
	accepted, err := os.OpenFile(filepath.Join(dir, "accepted"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan int)
	go func() {
		size := crowdSize(dir)
		for {
			for _, i := range rand.Perm(size) {
				next <- i
			}
		}
	}()
	for range 4 {
		go func() {
			for i := range next {
				if err := crowdTurn(p, catalog, i, accepted); err != nil {
					fmt.Println("crowd:", err)
				}
			}
		}()
	}
	fmt.Println("ready")
	select {}
}

// crowdTurn takes a session up and feeds it a little. Calls in doubt are answered
// with "doubt" and never run again.
func crowdTurn(p *Pool, catalog *Catalog, i int, accepted *os.File) error {
	ctx := context.Background()
	s, err := p.Acquire(ctx, store.Key{Owner: "o", ID: fmt.Sprint(i)}, AcquireOptions{Tools: catalog})
	if err != nil {
		return err
	}
	if err := settleStep(ctx, s); err != nil {
		return err
	}
	for range 3 {
		r, err := s.Feed(ctx, "globalThis.log ??= []; globalThis.turn = (globalThis.turn ?? 0) + 1; var got = []; for (let i = 0; i < 2; i++) try { const k = await charge(); log.push(k); got.push(k) } catch (e) { got.push(e.message) } return got",
			FeedOptions{})
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %d %s\n", s.ID(), s.Usage().Feeds, said(r, nil))
		if _, err := accepted.WriteString(line); err != nil {
			return err
		}
	}
	return s.Release()
}

// settleStep ends what a crash has left open.
func settleStep(ctx context.Context, s *Session) error {
	for step := s.Step(); step != nil && !step.Done; {
		reply := Reply{Call: step.Calls[0].ID, Run: true}
		if step.Calls[0].InDoubt {
			reply = Reply{Call: step.Calls[0].ID, Value: "doubt"}
		}
		var err error
		if step, err = s.Resume(ctx, reply); err != nil {
			return err
		}
	}
	return nil
}

// surviveCrowd kills a process with many sessions at random points, again and again.
func surviveCrowd(t *testing.T, size, rounds int) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "size"), fmt.Append(nil, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		cmd := child(t, dir, "crowd", "")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasSuffix(lines.Text(), "ready") {
		}
		time.Sleep(time.Duration(round*137%900+50) * time.Millisecond) // the point is by chance
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "crowd:") {
				t.Error(lines.Text())
			}
		}
		_ = cmd.Wait()
	}
	crowdCheck(t, dir, size)
}

// crowdAccepted looks for what was accepted of one session, and says how much it was.
func crowdAccepted(t *testing.T, s *Session, accepted []string, used Usage, log []string) (seen int) {
	t.Helper()
	for _, line := range accepted {
		var id string
		var feed int64
		if _, err := fmt.Sscan(line, &id, &feed); err != nil || id != s.ID() {
			continue
		}
		seen++
		if feed > used.Feeds {
			t.Errorf("%s has %d feeds, and %d was accepted", id, used.Feeds, feed)
		}
		var keys []string
		if err := json.Unmarshal([]byte(strings.SplitN(line, " ", 3)[2]), &keys); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		for _, k := range keys {
			if len(k) == 32 && !slices.Contains(log, k) {
				t.Errorf("%s has lost %s of feed %d", id, k, feed)
			}
		}
	}
	return seen
}

// crowdCheck holds the sessions against what tools and feeds have written down.
func crowdCheck(t *testing.T, dir string, size int) {
	text, err := os.ReadFile(filepath.Join(dir, "accepted"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	p, catalog := folderPool(t, dir, folderStore(t, dir), nil)
	seen, calls := 0, 0
	for i := range size {
		s, err := p.Acquire(t.Context(), store.Key{Owner: "o", ID: fmt.Sprint(i)}, AcquireOptions{Tools: catalog, MustExist: true})
		if errors.Is(err, store.ErrNotFound) {
			continue // its turn never came
		}
		if err != nil {
			t.Errorf("session %d: %v", i, err)
			continue
		}
		if err := settleStep(t.Context(), s); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
		used := s.Usage() // the last feed asks nothing
		var log []string
		r, err := s.Feed(t.Context(), "globalThis.log ?? []", FeedOptions{})
		if err == nil {
			err = r.Value.Decode(&log)
		}
		if err != nil {
			t.Errorf("session %d: %v", i, err)
		}
		mine, all := 0, effects(t, dir)
		for _, line := range all {
			if strings.HasPrefix(line, s.ID()+" ") {
				mine++
			}
		}
		if int64(mine) > used.Calls || used.Calls > chargeBudget || mine > chargeBudget {
			t.Errorf("session %d: %d effects, %+v", i, mine, used)
		}
		for _, key := range log {
			if key != "doubt" && !slices.Contains(all, s.ID()+" "+key) {
				t.Errorf("session %d has %s, which nobody did", i, key)
			}
		}
		seen += crowdAccepted(t, s, accepted, used, log)
		calls += int(used.Calls)
		if err := s.Release(); err != nil {
			t.Error(err)
		}
	}
	done := effects(t, dir)
	if once := slices.Compact(slices.Sorted(slices.Values(done))); len(once) != len(done) {
		t.Errorf("%d effects of %d calls", len(done), len(once))
	}
	if seen == 0 || calls == 0 || len(done) == 0 {
		t.Errorf("%d accepted feeds, %d calls, %d effects: nothing was tried", seen, calls, len(done))
	}
	t.Logf("%d sessions: %d accepted feeds, %d calls charged, %d effects", size, seen, calls, len(done))
}

// TestSurviveKills: a process that has twenty sessions is killed at random points:
// no effect is repeated, no budget regained, no accepted feed lost.
//
// proves part of S-04 S-23
func TestSurviveKills(t *testing.T) { surviveCrowd(t, 20, 4) }
