package cellinit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// listen is the life of the thread that has the listener.
func (c *cell) listen(listener int) {
	if len(c.arm.Judge) == 0 {
		c.denied(listener)
		return
	}
	t := &tracer{c: c, out: FDControl, judge: instructions(c.arm.Judge), self: c.sealed}
	c.awake <- struct{}{}
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

// endTrace has the thread that listens make its last report: this call of the
// sealed thread returns when it is made.
func (c *cell) endTrace() {
	if len(c.arm.Judge) > 0 {
		c.lastWord.Store(true)
		// Every trace holds this one, and no policy allows it.
		_, _, _ = syscall.RawSyscall(unix.SYS_SECCOMP, 0xffff, 0, 0)
	}
}
