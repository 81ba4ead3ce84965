package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// childPlace is the environment variable that makes a test binary a child which
// works with a store at that place.
const childPlace = "GLOVEBOX_TEST_STORE_PLACE"

// Child is called first by a TestMain: in a child it does what the parent says, and
// ends the process.
func Child(open func(place string) (store.Store, error)) {
	place := os.Getenv(childPlace)
	if place == "" {
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // a file that would be too large is an error then
	st, err := open(place)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	c := &child{st: st}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := c.do(in.Text()); err != nil {
			fmt.Println("error:", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
	os.Exit(0)
}

type child struct {
	st    store.Store
	l     store.Lease
	count int
}

func (c *child) do(line string) (err error) {
	var what, id string
	var n int
	_, _ = fmt.Sscan(line, &what, &id, &n)
	ctx := context.Background()
	switch what {
	case "take":
		if c.l, err = c.st.Acquire(ctx, store.Key{Owner: "processes", ID: id}, store.AcquireOptions{Create: true}); err == nil {
			c.count, err = count(ctx, c.l)
		}
	case "append":
		err = c.l.Append(ctx, record(n, n*n%5000), head(n))
	case "big":
		err = c.l.Append(ctx, record(n, 1<<20), head(n))
	case "replace":
		err = c.l.Replace(ctx, base(n), head(n))
	case "load":
		_, err = c.l.Load(ctx)
	case "delete":
		err = c.l.Delete(ctx)
	case "release":
		err = c.l.Release(ctx)
	case "limit":
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(n), Max: 1 << 40})
	case "run":
		for c.count++; err == nil; c.count++ {
			fmt.Println("try", c.count)
			switch {
			case c.count%13 == 0:
				err = c.l.Replace(ctx, base(c.count), head(c.count))
			case c.count%17 == 0:
				err = c.l.Append(ctx, record(c.count, 300_000), head(c.count))
			default:
				err = c.l.Append(ctx, record(c.count, c.count*c.count%5000), head(c.count))
			}
			if err == nil {
				fmt.Println("done", c.count)
			}
			if c.count%7 == 0 && err == nil {
				if err = c.l.Release(ctx); err == nil {
					c.l, err = c.st.Acquire(ctx, c.l.Key(), store.AcquireOptions{})
				}
			}
		}
	}
	return err
}

// record is the n-th commit's frames, and base a journal that stands for n.
func record(n, size int) []byte {
	return fmt.Appendf(nil, "%d:%d:%s\n", n, size, bytes.Repeat([]byte{byte('a' + n%26)}, size))
}

func base(n int) []byte { return fmt.Appendf(nil, "=%d\n", n) }
func head(n int) []byte { return fmt.Appendf(nil, "%d", n) }

// count says how many commits a journal has, and that it is whole and its head's.
func count(ctx context.Context, l store.Lease) (int, error) {
	r, err := l.Load(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for rest := r.Journal; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if _, err := fmt.Sscanf(string(line), "=%d", &n); err == nil && len(r.Journal) > len(line) {
			continue
		}
		var at, size int
		if _, err := fmt.Sscanf(string(line[:min(len(line), 40)]), "%d:%d:", &at, &size); err != nil || at != n+1 || !bytes.Equal(append(line, '\n'), record(at, size)) {
			return 0, fmt.Errorf("after record %d comes %.40q", n, line)
		}
		n = at
	}
	if string(r.Head) != string(head(n)) && !(n == 0 && len(r.Head) == 0) {
		return 0, fmt.Errorf("a journal of %d records has the head %q", n, r.Head)
	}
	return n, nil
}

// process is a child.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T, place string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childPlace+"="+place)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	return p
}

// end kills the child, if it lives.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

// answer reads one line; it is "" at the end.
func (p *process) answer() string {
	line, _ := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}

func (p *process) must(format string, args ...any) {
	p.t.Helper()
	p.send(format, args...)
	if a := p.answer(); a != "ok" {
		p.t.Fatalf("%s: %s", fmt.Sprintf(format, args...), a)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// stop stops the child, and waits until it is.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				p.t.Fatal(err)
			}
			return
		}
	}
}

// Kills ends children with SIGKILL at random points of their commits. Nothing that was
// said to be committed is lost, and at most one record more is there. Takeover says
// that nobody sees at once that a process has ended.
func Kills(t *testing.T, st store.Store, place string, n int, takeover bool) {
	beyond := 0
	for i := range n {
		p := start(t, place)
		id := fmt.Sprint("killed ", i/2) // each session is killed twice
		id = strings.ReplaceAll(id, " ", "-")
		p.must("take %s", id)
		p.send("run")
		last, lines := [2]int{}, rand.IntN(80)
		wait := time.Duration(rand.IntN(1500)) * time.Microsecond
		for j := 0; ; j++ {
			if j == lines {
				time.Sleep(wait) // somewhere within a step
				p.signal(syscall.SIGKILL)
			}
			var at int
			line := p.answer()
			if _, err := fmt.Sscanf(line, "try %d", &at); err == nil {
				last[0] = at
			} else if _, err := fmt.Sscanf(line, "done %d", &at); err == nil {
				last[1] = at
			} else if line == "" {
				break
			} else {
				t.Fatal("the child says", line)
			}
		}
		p.end()
		k := store.Key{Owner: "processes", ID: id}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		l, err := st.Acquire(ctx, k, store.AcquireOptions{Create: true, Takeover: takeover, NoWait: !takeover})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		got, err := count(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if last[1] == 0 && last[0] > 0 { // what the first life of the session had
			last[1] = last[0] - 1
		}
		if got != last[1] && got != last[0] && last[0] > 0 {
			t.Fatalf("kill %d: %d records, of %d that were tried and %d committed", i, got, last[0], last[1])
		}
		if got > last[1] {
			beyond++
		}
		if err := l.Append(t.Context(), record(got+1, 10), head(got+1)); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d records that were committed and not yet said to be", n, beyond)
}

// Stops stops children with SIGSTOP before, within and after each kind of step, until
// st has replaced them, and lets them go on. What a child is told is what came of
// it. ttl is how long a child that shows no life is waited for. It is long because
// of what each step may be told.
func Stops(t *testing.T, st store.Store, place string, rounds int, ttl time.Duration) {
	p := start(t, place)
	kept := 0
	for i := range rounds {
		step := []string{"append", "replace", "load", "release", "delete", "big"}[i%6]
		id := fmt.Sprint("stopped-", i)
		k := store.Key{Owner: "processes", ID: id}
		p.must("take %s", id)
		p.must("append %s 1", id)
		before := i/6%4 == 0
		if before {
			p.stop()
		}
		p.send("%s %s 2", step, id)
		if !before {
			if step == "big" {
				time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			} else {
				time.Sleep(time.Duration(rand.IntN(600)) * time.Microsecond) // somewhere within the step
			}
			p.stop()
		}
		from := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), max(3*time.Second, 10*ttl))
		l, err := st.Acquire(ctx, k, store.AcquireOptions{Create: true})
		cancel()
		if step == "delete" && err != nil && strings.Contains(err.Error(), "it is being removed") {
			kept++ // it was deleted, and the child is stopped while it takes away what is left
			p.signal(syscall.SIGCONT)
			if told := p.answer(); told != "ok" {
				t.Fatalf("round %d: the child is told %q", i, told)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if before && time.Since(from) < ttl/2 {
			t.Errorf("a holder was replaced after %v", time.Since(from))
		}
		got, err := count(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), record(got+1, 5), head(got+1)); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGCONT)
		told := p.answer()
		done := got == 2
		switch step {
		case "load":
			done = told == "ok" // it may have been over before
		case "release":
			done = true // it is no error to have lost what is given back
		case "delete":
			done = got == 0
		}
		if done != (told == "ok") || told != "ok" && !strings.HasSuffix(told, store.ErrFenced.Error()) {
			t.Fatalf("round %d: stopped at %s the child is told %q, and %d records are there", i, step, told, got)
		}
		p.send("append %s 3", id)
		if told := p.answer(); !strings.HasSuffix(told, store.ErrFenced.Error()) && !strings.HasSuffix(told, store.ErrReleased.Error()) {
			t.Fatalf("round %d: then the child is told %q", i, told)
		}
		if now, err := count(t.Context(), l); err != nil || now != got+1 {
			t.Fatalf("round %d: %d records after %d, %v", i, now, got, err)
		}
		if err := l.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d of them kept from the name of a deleted session", rounds, kept)
}

// Full has a child whose files may not grow beyond 64 KiB commit until that is an
// error, and go on when they may.
func Full(t *testing.T, st store.Store, place string) error {
	p := start(t, place)
	p.must("take full")
	p.must("limit full %d", 64<<10)
	n := 0
	for {
		p.send("append full %d", n+1)
		a := p.answer()
		if a != "ok" {
			if !strings.Contains(a, syscall.EFBIG.Error()) {
				return fmt.Errorf("the child says %q", a)
			}
			break
		}
		if n++; n > 200 {
			return errors.New("there is no end")
		}
	}
	p.must("load full")
	p.send("replace full 5000")
	if a := p.answer(); a != "ok" { // it is small
		return fmt.Errorf("the child says %q", a)
	}
	p.send("big full 5001")
	if a := p.answer(); !strings.Contains(a, syscall.EFBIG.Error()) {
		return fmt.Errorf("the child says %q", a)
	}
	p.must("limit full %d", 1<<30)
	p.must("append full 5001")
	p.must("release full")
	l, err := st.Acquire(t.Context(), store.Key{Owner: "processes", ID: "full"}, store.AcquireOptions{NoWait: true})
	if err != nil {
		return err
	}
	if got, err := count(t.Context(), l); err != nil || got != 5001 {
		return fmt.Errorf("%d records: %w", got, err)
	}
	return l.Release(t.Context())
}
