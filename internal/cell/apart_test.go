package cell

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// groupDir finds the directory of a cell's own group that has a control file.
func groupDir(t *testing.T, c *cell, files ...string) string {
	t.Helper()
	found := ""
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		instance := filepath.Base(filepath.Dir(path))
		if d.Name() != c.place.group.Name() || !strings.HasPrefix(instance, fmt.Sprintf("i%d-", os.Getpid())) {
			return nil
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(path, f)); err == nil && hasInit(c, path) {
				found = filepath.Join(path, f)
				return fs.SkipAll
			}
		}
		return nil
	})
	if found == "" {
		t.Fatalf("no %v in the group of the cell", files)
	}
	return found
}

// hasInit tells whether init is a member of the group in that directory: a test may
// have several hosts, whose groups have the same names.
func hasInit(c *cell, dir string) bool {
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && strings.Contains("\n"+string(procs), fmt.Sprintf("\n%d\n", pidOf(c)))
}

// pidOf is the host's number of a cell's init.
func pidOf(c *cell) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", c.pidfd))
	pid := 0
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, "Pid: %d", &pid)
	}
	return pid
}

// An armed cell is used only if it still is what it was: a limit changed behind
// the host's back, its init gone or moved to another group, or too long a wait,
// and the run gets a fresh cell. Left alone, it is used.
//
// proves part of H-21
func TestHandOverLooksAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		warm   bool
		change func(*testing.T, *Host, *aged)
	}{
		{"nothing", true, func(*testing.T, *Host, *aged) {}},
		{"memory", false, func(t *testing.T, _ *Host, a *aged) {
			write(t, groupDir(t, a.c, "memory.limit_in_bytes", "memory.max"), "134217728")
		}},
		{"tasks", false, func(t *testing.T, _ *Host, a *aged) {
			write(t, groupDir(t, a.c, "pids.max"), "1000")
		}},
		{"processor", false, func(t *testing.T, _ *Host, a *aged) {
			if path := groupDir(t, a.c, "cpu.cfs_quota_us", "cpu.max"); strings.HasSuffix(path, "max") {
				write(t, path, "max 100000")
			} else {
				write(t, path, "-1")
			}
		}},
		{"another group", false, func(t *testing.T, h *Host, a *aged) {
			g, err := h.groups.NewGroup()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = g.Remove() })
			file := groupDir(t, a.c, "memory.limit_in_bytes", "memory.max")
			other := filepath.Join(filepath.Dir(filepath.Dir(file)), g.Name(), "cgroup.procs")
			write(t, other, fmt.Sprint(pidOf(a.c)))
		}},
		{"dead", false, func(t *testing.T, _ *Host, a *aged) {
			a.c.kill()
			if !a.c.gone(2 * time.Second) {
				t.Error("not dead")
			}
		}},
		{"old", false, func(_ *testing.T, _ *Host, a *aged) { a.born = a.born.Add(-maxArmedAge) }},
	} {
		h := openHost(t, 0)
		armed, err := h.arm(defaultKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		a := aged{armed, time.Now()}
		c.change(t, h, &a)
		h.pool.ready <- a
		r, err := h.Run(context.Background(), trueJob(t, h), Streams{})
		if err != nil || r.Verdict != api.OK || r.Warm != c.warm {
			t.Errorf("%s: warm %v, want %v; %v %s %s", c.name, r.Warm, c.warm, err, r.Verdict, r.Message)
		}
		if err := h.Close(); err != nil {
			t.Errorf("%s: close: %v", c.name, err)
		}
	}
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// distinct fails when two cells that live at once share an identity.
func distinct(t *testing.T, cells []*cell) {
	t.Helper()
	seen := map[string]int{}
	for i, c := range cells {
		ns, err := c.witness.Namespaces()
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{"group " + c.place.group.Name()}
		for name, id := range ns {
			if name != "user" { // the launcher's; what keeps cells apart in it is their uids
				ids = append(ids, id)
			}
		}
		if c.h.ids != nil {
			ids = append(ids, fmt.Sprintf("uid %d", c.uid))
		}
		for _, id := range ids {
			if j, ok := seen[id]; ok {
				t.Errorf("cells %d and %d share %s", j, i, id)
			}
			seen[id] = i
		}
	}
}

// Nothing that has an identity is shared by cells that live at once, fifty
// abreast and two hundred in a row: namespaces, group, and as root the uid.
//
// proves part of H-24 H-16
func TestCellsApart(t *testing.T) {
	h := openHost(t, 0)
	var cells []*cell
	for range 50 {
		c, err := h.arm(defaultKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	distinct(t, cells)
	for _, c := range cells {
		c.destroy()
	}
	names := map[string]bool{}
	var last *cell
	for range 200 {
		c, err := h.arm(defaultKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != nil {
			distinct(t, []*cell{last, c})
			last.destroy()
		}
		if names[c.place.group.Name()] {
			t.Errorf("group %s a second time", c.place.group.Name())
		}
		names[c.place.group.Name()] = true
		last = c
	}
	last.destroy()
	// Control: with the network namespace left out, all cells are in one.
	cfg := refuseConfig()
	cfg.Mode, cfg.ControlOff = Off, []string{"net"}
	o, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var net [2]string
	for i := range net {
		c, err := o.arm(defaultKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.destroy()
		ns, err := c.witness.Namespaces()
		if err != nil {
			t.Fatal(err)
		}
		net[i] = ns["net"]
	}
	if net[0] != net[1] {
		t.Errorf("control: %v differ", net)
	}
}

// The id of a cell that was not seen to end is given to no other: something may
// live under it.
//
// proves part of H-16
func TestIDOfALivingCellIsKept(t *testing.T) {
	h := &Host{log: slog.New(slog.DiscardHandler), ids: &idRange{next: 1, used: map[int]bool{}}}
	for message, kept := range map[cellproto.LaunchType]bool{cellproto.LaunchExited: false, cellproto.LaunchFailed: true} {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := h.ids.take()
		if err != nil {
			t.Fatal(err)
		}
		pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		s := &slot{l: &launcher{dead: make(chan struct{})}, ch: make(chan answer, 1)}
		s.ch <- answer{cellproto.Launch{Type: message}, -1}
		c := &cell{h: h, place: &place{slot: s}, pidfd: pidfd, uid: id}
		c.ashes()
		if h.ids.used[id] != kept {
			t.Errorf("after message %d: kept %v, want %v", message, h.ids.used[id], kept)
		}
	}
}
