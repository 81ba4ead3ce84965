package cell

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cgroup"
)

// place is what a cell is made in: a thread of the launcher with namespaces of
// its own, in control groups of its own.
type place struct {
	group  *cgroup.Group // nil without control groups
	limits cgroup.Limits // what was written to it, until a job comes
	slot   *slot
}

// armTasks bounds the tasks of a cell until its job is known.
const armTasks = 64

// prepare makes a cell of which nothing depends on the job or on its kind: a
// place, the streams, and an init that waits to be told what to build. A
// launcher whose death shows only now is replaced.
func (h *Host) prepare() (*cell, error) {
	l, err := h.launch()
	if err != nil {
		return nil, err
	}
	c, err := h.prepareWith(l)
	if err != nil && l.lost() != nil {
		if l, err = h.launch(); err == nil {
			c, err = h.prepareWith(l)
		}
	}
	return c, err
}

func (h *Host) prepareWith(l *launcher) (*cell, error) {
	p, err := h.makePlace(l)
	if err != nil {
		return nil, err
	}
	c := &cell{h: h, place: p, pidfd: -1}
	err = c.launch()
	if err == nil {
		c.witness, err = attest.NewWitness(c.pidfd)
	}
	if err != nil {
		c.destroy()
		return nil, fmt.Errorf("start init: %w", err)
	}
	return c, nil
}

// makePlace makes a place. The limits are the defaults until a job comes; they
// are written before anything runs in the group.
func (h *Host) makePlace(l *launcher) (*place, error) {
	p := &place{}
	var files []*os.File
	unified := false
	if h.groups != nil {
		g, err := h.groups.NewGroup()
		if err != nil {
			return nil, fmt.Errorf("control group: %w", err)
		}
		p.group = g
		d := api.DefaultLimits()
		p.limits = cgroup.Limits{MemoryBytes: d.MemoryBytes, Tasks: armTasks, CPUPercent: 100 * int64(runtime.NumCPU())}
		err = g.SetLimits(p.limits)
		if err == nil {
			files, err = g.EntryFiles()
		}
		if err != nil {
			_ = g.Remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
		unified = g.Unified()
	}
	s, err := l.prepare(files, unified, h.offInside())
	if err != nil {
		if p.group != nil {
			_ = p.group.Remove()
		}
		return nil, err
	}
	p.slot = s
	return p, nil
}

// takePrepared returns a cell of the reserve that is still alive, under the
// present launcher, or makes one; ahead tells which.
func (h *Host) takePrepared() (c *cell, ahead bool, err error) {
	for {
		c, ok := h.slots.take()
		if !ok {
			c, err = h.prepare()
			return c, false, err
		}
		if c.place.slot.l.usable() && !c.gone(0) {
			return c, true, nil
		}
		h.later(c)
	}
}

// launch makes the streams and starts init in the place.
func (c *cell) launch() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control's end")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	c.control = conn.(*net.UnixConn)
	stdin, w, err := c.h.input()
	if err != nil {
		return err
	}
	c.stdin = w
	defer stdin.Close()
	if c.h.cfg.Worker != nil {
		if c.socket, err = newSocket(w); err != nil {
			return err
		}
	}
	r, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	c.stdout = r
	defer stdout.Close()
	r, stderr, err := os.Pipe()
	if err != nil {
		return err
	}
	c.stderr = r
	defer stderr.Close()
	c.pidfd, err = c.place.slot.start([4]*os.File{theirs, stdin, stdout, stderr})
	runtime.KeepAlive(theirs)
	return err
}
