package cell

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a host's end and the descriptor of a worker's.
func pair(t *testing.T) (*socket, *os.File) {
	t.Helper()
	theirs, ours, err := channel()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSocket(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(); theirs.Close() })
	return s, theirs
}

// asleep waits until a goroutine that reads has looked and sleeps.
func asleep(t *testing.T, s *socket) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		var armed bool
		_ = s.raw.Control(func(fd uintptr) { armed = alarmed(t, s.in, int(fd)) })
		if armed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody sleeps")
		}
	}
}

// alarmed reads from the kernel whether an alarm is set for a descriptor.
func alarmed(t *testing.T, a *alarm, fd int) (set bool) {
	t.Helper()
	_ = a.raw.Control(func(epoll uintptr) {
		text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(epoll)))
		if err != nil {
			t.Fatal(err)
		}
		// tfd: 7 events: 40002001 …: EPOLLONESHOT alone is 40000000
		set = bytes.Contains(text, []byte("events: 4000")) && !bytes.Contains(text, []byte("events: 40000000"))
	})
	return set
}

// A sleeping read is woken by what comes, and by the end of the other side.
func TestSocketWakes(t *testing.T) {
	s, theirs := pair(t)
	type outcome struct {
		text string
		err  error
	}
	got := make(chan outcome)
	read := func() {
		b := make([]byte, 16)
		n, err := s.Read(b)
		got <- outcome{string(b[:n]), err}
	}
	for range 3 {
		go read()
		asleep(t, s)
		if _, err := theirs.WriteString("word"); err != nil {
			t.Fatal(err)
		}
		if o := <-got; o.text != "word" || o.err != nil {
			t.Fatalf("%+v", o)
		}
	}
	go read()
	asleep(t, s)
	theirs.Close()
	if o := <-got; o.err != io.EOF {
		t.Fatalf("%+v", o)
	}
}

// A deadline ends a read that sleeps, and one that finds a byte each time.
func TestSocketDeadline(t *testing.T) {
	s, theirs := pair(t)
	b := make([]byte, 1)
	_ = s.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if _, err := s.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := theirs.Write(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("behind the deadline there is still something to read: %v", err)
	}
	_ = s.SetReadDeadline(time.Time{})
	if n, err := s.Read(b); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

// Whoever sleeps is woken by close, and nothing is read or written any more.
func TestSocketClose(t *testing.T) {
	s, _ := pair(t)
	got := make(chan error)
	go func() { _, err := s.Read(make([]byte, 1)); got <- err }()
	asleep(t, s)
	s.close()
	if err := <-got; err == nil || err == io.EOF {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("a closed socket reads")
	}
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("a closed socket writes")
	}
	s.close()
}

// More than the kernel holds is written as fast as the other side reads, and a
// side that does not read costs no more than the deadline.
func TestSocketWriteStall(t *testing.T) {
	s, theirs := pair(t)
	large := bytes.Repeat([]byte("0123456789"), 1<<18)
	sum := make(chan []byte)
	go func() {
		all := make([]byte, len(large))
		_, _ = io.ReadFull(theirs, all)
		sum <- all
	}()
	if n, err := s.Write(large); n != len(large) || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(<-sum, large) {
		t.Fatal("it came in another order")
	}
	_ = s.SetWriteDeadline(time.Now().Add(30 * time.Millisecond))
	n, err := s.Write(large)
	var path *os.PathError
	if n == len(large) || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &path) || path.Op != "write" {
		t.Fatal(n, err)
	}
}

// Nothing of what a socket had is left.
func TestSocketLeavesNothing(t *testing.T) {
	before := descriptors(t)
	for range 50 {
		theirs, ours, err := channel()
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSocket(ours)
		if err != nil {
			t.Fatal(err)
		}
		s.close()
		theirs.Close()
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// A socket that nobody reads from is no business of the poller's: what comes
// wakes nobody. The control is one whose reader sleeps.
func TestSocketIsQuiet(t *testing.T) {
	s, theirs := pair(t)
	ready := func() bool {
		n := 0
		_ = s.in.raw.Control(func(fd uintptr) {
			var one [1]unix.EpollEvent
			n, _ = unix.EpollWait(int(fd), one[:], 0)
		})
		return n > 0
	}
	if _, err := theirs.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if ready() {
		t.Error("its alarm goes off though nobody has set it")
	}
	_ = s.raw.Control(func(fd uintptr) { s.in.set(int(fd)) })
	if !ready() {
		t.Error("a control: it does not go off though it is set")
	}
}
