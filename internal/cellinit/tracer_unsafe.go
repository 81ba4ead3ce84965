package cellinit

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// tracer answers and counts every call of a traced guest. A call is judged by its
// number and its registers, which nobody can change while it is held, by a program
// that is the policy's own filter; what the program refuses gets the errno that it
// would get without a trace.
//
// The sealed thread's calls are held too, whatever it is doing, with the locks of
// the Go runtime in its hands: it may be waking a thread under the lock of the
// scheduler, or asking for memory under that of the heap. So from run on nothing here
// may need the runtime: raw system calls, no allocation, no lock, no function that
// could be preempted at its start, which is what nosplit says. The processor that
// the runtime gave to this thread stays with it.
type tracer struct {
	c        *cell
	out      uintptr // the control socket
	listener uintptr
	self     uint32 // the sealed thread
	judge    []unix.SockFilter
	held     seccompNotif
	answer   seccompResp

	counting bool // since the guest's exec
	done     bool // the last report is made
	calls    [cellproto.MaxTraced]counted
	used     int
	slots    [4 * cellproto.MaxTraced]uint16 // by hash: 1 + index into calls
	news     int                             // how many calls are to be reported

	frame [48 << 10]byte // holds MaxTraced calls
	size  int
}

// counted is one kind of call.
type counted struct {
	arch, number, answer uint32
	changed              bool // to be reported
	count                uint64
}

// maxLost bounds the callers that are gone before they are asked, in a row; a
// listener without any caller says that for ever.
const maxLost = 1 << 20

//go:nosplit
func (t *tracer) run() {
	fd := t.c.watch.Load()
	for ; fd == 0; fd = t.c.watch.Load() {
		_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	if t.listener = uintptr(fd); fd < 0 {
		return
	}
	// Refused before Linux 6.6, which costs time only.
	_, _, _ = syscall.RawSyscall(unix.SYS_IOCTL, t.listener, seccompIoctlNotifSetFlags, notifSyncWake)
	for lost := 0; lost < maxLost; {
		switch t.receive() {
		case 0:
			lost = 0
			t.call()
		case unix.EINTR, unix.ENOENT: // a signal took the caller out of its call, which it may make again
			lost++
		default:
			exitNow(1)
		}
	}
	exitNow(1)
}

//go:nosplit
func (t *tracer) receive() syscall.Errno {
	t.held = seccompNotif{} // the kernel insists
	_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, t.listener, seccompIoctlNotifRecv, uintptr(unsafe.Pointer(&t.held)))
	return errno
}

// reply gives the held call its answer: an errno, or 0 to let it go on. One whose
// caller is gone needs none.
//
//go:nosplit
func (t *tracer) reply(errno uint32) {
	t.answer = seccompResp{ID: t.held.ID, Error: -int32(errno)}
	if errno == 0 {
		t.answer.Flags = notifContinue
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_IOCTL, t.listener, seccompIoctlNotifSend, uintptr(unsafe.Pointer(&t.answer)))
}

// call answers one call.
//
//go:nosplit
func (t *tracer) call() {
	verdict := judge(t.judge, &t.held)
	if t.held.PID == t.self {
		t.own()
	} else if !t.done {
		t.count(verdict)
		if t.news > 0 {
			t.report(false)
		}
	}
	switch verdict & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_LOG:
		t.reply(0)
	case unix.SECCOMP_RET_ERRNO:
		if errno := verdict & unix.SECCOMP_RET_DATA; errno != 0 {
			t.reply(errno)
		} else { // a refusal is never a success
			t.reply(uint32(unix.EPERM))
		}
	default:
		t.end()
	}
}

// own takes note of what the sealed thread does: what it starts may be the guest,
// of which only what comes after its exec counts, and in the end it asks for the
// last report.
//
//go:nosplit
func (t *tracer) own() {
	switch {
	case t.done:
	case t.c.lastWord.Load():
		t.done = true
		t.report(true)
	case t.held.NR == unix.SYS_CLONE && t.used > 0: // the exec before it had failed
		t.counting, t.news, t.used = false, 0, 0
		for i := range t.slots {
			t.slots[i] = 0
		}
	}
}

// count counts a call of the guest. It is to be reported when its count has
// doubled: so the host knows the size of every count even of a guest that it ends.
//
//go:nosplit
func (t *tracer) count(verdict uint32) {
	if !t.counting {
		if t.held.NR != unix.SYS_EXECVE {
			return
		}
		t.counting = true
	}
	one := t.find(t.held.Arch, uint32(t.held.NR), verdict)
	one.count++
	if one.count&(one.count-1) == 0 && !one.changed {
		one.changed = true
		t.news++
	}
}

// find returns the counter of a kind of call. The last one is for all numbers
// behind the first thousand: there are four milliards, and few of them are calls.
//
//go:nosplit
func (t *tracer) find(arch, number, answer uint32) *counted {
	h := (arch ^ number*0x9e3779b1 ^ answer*0x85ebca6b) % uint32(len(t.slots))
	for range len(t.slots) {
		at := int(t.slots[h])
		if at == 0 {
			break
		}
		if one := &t.calls[at-1]; one.arch == arch && one.number == number && one.answer == answer {
			return one
		}
		h = (h + 1) % uint32(len(t.slots))
	}
	at := t.used
	if at >= len(t.calls)-1 {
		at = len(t.calls) - 1
		arch, number, answer = 0, ^uint32(0), unix.SECCOMP_RET_ERRNO
		if t.used == len(t.calls) {
			return &t.calls[at]
		}
	} else {
		t.slots[h] = uint16(at + 1)
	}
	t.used = at + 1
	t.calls[at] = counted{arch: arch, number: number, answer: answer}
	return &t.calls[at]
}

// report sends what has changed, or all. While another thread writes to the host
// it waits until later: that thread may be the sealed one, whose write waits for
// this thread.
//
//go:nosplit
func (t *tracer) report(all bool) {
	if !t.c.talking.CompareAndSwap(false, true) {
		return
	}
	t.tell(all)
	t.c.talking.Store(false)
}

// tell makes the frame that cellproto.Traced describes, and sends it.
//
//go:nosplit
func (t *tracer) tell(all bool) {
	n := uint64(0)
	for i := 0; i < t.used; i++ {
		if all || t.calls[i].changed {
			n++
		}
	}
	t.begin(cellproto.TypeTraced)
	final := uint64(0)
	if all {
		final = 1
	}
	t.number(final)
	t.number(n)
	for i := 0; i < t.used; i++ {
		if one := &t.calls[i]; all || one.changed {
			t.number(uint64(one.arch))
			t.number(uint64(one.number))
			t.number(uint64(one.answer))
			t.number(one.count)
			one.changed = false
		}
	}
	t.news = 0
	t.write()
}

// begin, number and write are what cellproto's encoder does.
//
//go:nosplit
func (t *tracer) begin(typ cellproto.Type) {
	t.frame[4] = byte(typ)
	t.size = 5
}

//go:nosplit
func (t *tracer) number(v uint64) {
	for ; v >= 0x80 && t.size < len(t.frame)-1; v >>= 7 {
		t.frame[t.size] = byte(v) | 0x80
		t.size++
	}
	t.frame[t.size] = byte(v)
	t.size++
}

//go:nosplit
func (t *tracer) write() {
	payload := uint32(t.size - 5)
	t.frame[0], t.frame[1], t.frame[2], t.frame[3] = byte(payload>>24), byte(payload>>16), byte(payload>>8), byte(payload)
	for done := 0; done < t.size; {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, t.out, uintptr(unsafe.Pointer(&t.frame[done])), uintptr(t.size-done))
		switch errno {
		case 0:
			done += int(n)
		case unix.EINTR:
		default:
			exitNow(1)
		}
	}
}

// end ends the cell for a call of the kill class, which is never answered. To get
// the socket it lets the sealed thread finish what it writes, and nobody else.
//
//go:nosplit
func (t *tracer) end() {
	arch, number := t.held.Arch, uint32(t.held.NR)
	for tries := 0; !t.c.talking.CompareAndSwap(false, true); tries++ {
		switch errno := t.receive(); {
		case errno == 0 && t.held.PID == t.self:
			t.reply(0)
		case errno != 0 && errno != unix.EINTR && errno != unix.ENOENT || tries > maxLost:
			exitNow(1)
		}
	}
	t.tell(true)
	if !t.c.noPIDs { // else the namespace is not the cell's
		_, _, _ = syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
	}
	t.begin(cellproto.TypeDenied)
	t.number(uint64(arch))
	t.number(uint64(number))
	t.write()
	exitNow(0)
}

//go:nosplit
func exitNow(status uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// judgeKill is the program's answer for the kill class.
const judgeKill = unix.SECCOMP_RET_USER_NOTIF

// judge runs a filter over a call, as the kernel would. What it does not know
// ends the cell. Jumps go forward only, so it ends.
//
//go:nosplit
func judge(prog []unix.SockFilter, n *seccompNotif) uint32 {
	acc := uint32(0)
	for at := uint(0); at < uint(len(prog)); at++ {
		in := &prog[at]
		yes := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = n.word(in.K)
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_JMP | unix.BPF_JA:
			at += uint(in.K)
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			yes = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = acc&in.K != 0
		default:
			return judgeKill
		}
		if yes {
			at += uint(in.Jt)
		} else {
			at += uint(in.Jf)
		}
	}
	return judgeKill
}

// word is 32 bits of struct seccomp_data.
//
//go:nosplit
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
