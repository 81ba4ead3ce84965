package cellinit

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// listen is the life of the thread that has the listener.
func (c *cell) listen(listener int) {
	if len(c.arm.Judge) == 0 {
		c.denied(listener)
		return
	}
	t := &tracer{c: c, judge: instructions(c.arm.Judge),
		index: make(map[tracedKey]int, cellproto.MaxTraced), calls: make([]cellproto.TracedCall, 0, cellproto.MaxTraced),
		changed: make([]bool, cellproto.MaxTraced), send: make([]cellproto.TracedCall, 0, cellproto.MaxTraced),
		frame: make([]byte, 0, maxTracedFrame)}
	c.awake <- struct{}{}
	for t.listener = 0; t.listener == 0; t.listener = int(c.watch.Load()) {
		_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	if t.listener < 0 {
		return
	}
	quicken(t.listener)
	t.run()
}

// startTrace puts this thread under the filter that holds every call. From then on
// it cannot even wake another thread without being answered, so the one that
// listens must be awake: it looks for the listener, for as long as that filter
// takes to load.
func (c *cell) startTrace() error {
	c.sealed = uint32(unix.Gettid())
	c.listener <- 0
	<-c.awake
	fd, err := installWatch(c.arm.Watch)
	if err != nil {
		fd = -1
	}
	c.watch.Store(int32(fd))
	return err
}

// maxTracedFrame holds MaxTraced calls of four numbers.
const maxTracedFrame = 48 << 10

// tracer answers and counts every call of a traced guest. The sealed thread's
// calls come to it too, and wait for it: it must never wait for that thread. The
// call is judged by its number and its registers, which nobody can change while
// it is held, by a program that is the policy's own filter; what the program
// refuses gets the errno that it would get without a trace.
type tracer struct {
	c        *cell
	listener int
	judge    []unix.SockFilter
	counting bool // since the guest's exec

	index   map[tracedKey]int // into calls
	calls   []cellproto.TracedCall
	changed []bool // of calls: to be reported
	news    int    // how many are
	send    []cellproto.TracedCall
	frame   []byte
	done    bool // the last report is made
}

type tracedKey struct{ arch, number, answer uint32 }

// maxLost bounds the callers that are gone before they are asked, in a row; a
// listener without any caller says that for ever.
const maxLost = 1 << 20

func (t *tracer) run() {
	var n seccompNotif
	for lost := 0; lost < maxLost; {
		switch receive(t.listener, &n) {
		case 0:
			lost = 0
			t.call(&n)
		case unix.EINTR, unix.ENOENT: // a signal took the caller out of its call, which it may make again
			lost++
		default:
			os.Exit(1)
		}
	}
	os.Exit(1)
}

// call answers one call.
func (t *tracer) call(n *seccompNotif) {
	verdict := judge(t.judge, n)
	if n.PID == t.c.sealed {
		t.own(n)
	} else {
		t.count(n, verdict)
	}
	switch verdict & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_LOG:
		answer(t.listener, n.ID, 0)
	case unix.SECCOMP_RET_ERRNO:
		answer(t.listener, n.ID, unix.Errno(verdict&unix.SECCOMP_RET_DATA))
	default:
		t.end(n)
	}
}

// own takes note of what the sealed thread does: what it starts may be the guest,
// of which only what comes after its exec counts, and in the end it asks for the
// last report.
func (t *tracer) own(n *seccompNotif) {
	switch {
	case t.done:
	case t.c.lastWord.Load():
		t.done = true
		t.report(true)
	case n.NR == unix.SYS_CLONE && len(t.calls) > 0: // the exec before it had failed
		t.counting, t.news = false, 0
		clear(t.index)
		clear(t.changed)
		t.calls = t.calls[:0]
	}
}

// count counts a call of the guest, and reports it when its count has doubled:
// so the host knows the size of every count even of a guest that it ends.
func (t *tracer) count(n *seccompNotif, verdict uint32) {
	if t.done {
		return
	}
	if !t.counting {
		if n.NR != unix.SYS_EXECVE {
			return
		}
		t.counting = true
	}
	k := tracedKey{n.Arch, uint32(n.NR), verdict}
	i, ok := t.index[k]
	if !ok {
		if len(t.calls) >= cellproto.MaxTraced-1 { // numbers without a call: there are four milliards
			k = tracedKey{0, ^uint32(0), unix.SECCOMP_RET_ERRNO}
			i, ok = t.index[k]
		}
		if !ok && len(t.calls) < cellproto.MaxTraced {
			i = len(t.calls)
			t.index[k] = i
			t.calls = append(t.calls, cellproto.TracedCall{Arch: uint64(k.arch), Number: uint64(k.number), Answer: uint64(k.answer)})
		}
	}
	one := &t.calls[i]
	one.Count++
	if one.Count&(one.Count-1) == 0 && !t.changed[i] {
		t.changed[i] = true
		t.news++
	}
	if t.news > 0 {
		t.report(false)
	}
}

// report sends what has changed, or all. While another thread writes to the host
// it waits until later: that thread may be the sealed one, whose write waits for
// this thread.
func (t *tracer) report(all bool) {
	if !t.c.write.TryLock() {
		return
	}
	t.write(all)
	t.c.write.Unlock()
}

func (t *tracer) write(all bool) {
	t.send = t.send[:0]
	for i := range t.calls {
		if all || t.changed[i] {
			t.send = append(t.send, t.calls[i])
			t.changed[i] = false
		}
	}
	t.news = 0
	t.frame = (&cellproto.Traced{Final: all, Calls: t.send}).Frame(t.frame)
	if _, err := fdWriter(FDControl).Write(t.frame); err != nil {
		os.Exit(1)
	}
}

// end ends the cell for a call of the kill class, which is never answered. To get
// the socket it lets the sealed thread finish what it writes, and nobody else.
func (t *tracer) end(n *seccompNotif) {
	for tries := 0; !t.c.write.TryLock(); tries++ {
		var other seccompNotif
		switch errno := receive(t.listener, &other); {
		case errno == 0 && other.PID == t.c.sealed:
			answer(t.listener, other.ID, 0)
		case errno != 0 && errno != unix.EINTR && errno != unix.ENOENT || tries > maxLost:
			os.Exit(1)
		}
	}
	t.write(true)
	t.c.endDenied(n, true)
}

// endTrace has the thread that listens make its last report: this call of the
// sealed thread returns when it is made.
func (c *cell) endTrace() {
	if len(c.arm.Judge) > 0 {
		c.lastWord.Store(true)
		_ = unix.Getppid()
	}
}

// judgeKill is the program's answer for the kill class.
const judgeKill = unix.SECCOMP_RET_USER_NOTIF

// judge runs a filter over a call, as the kernel would. What it does not know
// ends the cell. Jumps go forward only, so it ends.
func judge(prog []unix.SockFilter, n *seccompNotif) uint32 {
	acc := uint32(0)
	for at := 0; at < len(prog); at++ {
		in := prog[at]
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = n.word(in.K)
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
		case unix.BPF_JMP | unix.BPF_JA:
			if in.K > uint32(len(prog)) {
				return judgeKill
			}
			at += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			at += jump(in, acc == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			at += jump(in, acc >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			at += jump(in, acc&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			return judgeKill
		}
	}
	return judgeKill
}

func jump(in unix.SockFilter, yes bool) int {
	if yes {
		return int(in.Jt)
	}
	return int(in.Jf)
}

// word is 32 bits of struct seccomp_data.
func (n *seccompNotif) word(offset uint32) uint32 {
	switch {
	case offset == 0:
		return uint32(n.NR)
	case offset == 4:
		return n.Arch
	case offset >= 16 && offset < 64 && offset%4 == 0:
		return uint32(n.Args[(offset-16)/8] >> (offset % 8 * 8))
	}
	return 0
}
