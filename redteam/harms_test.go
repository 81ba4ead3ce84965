package redteam

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
)

// The state of a machine notices each kind of harm.
//
// proves part of H-20
func TestStateNoticesOnVM(t *testing.T) {
	machine(t)
	before := stateOf(t)
	for _, h := range harms {
		undo, err := h.do(t)
		if err != nil {
			t.Errorf("%s: %v", h.kind, err)
			continue
		}
		d := before.differ(stateOf(t))
		undo()
		if !slices.ContainsFunc(d, func(s string) bool { return strings.HasPrefix(s, h.kind+" ") }) {
			t.Errorf("%s: not noticed, only %q", h.kind, d)
		}
		if d := before.differ(stateOf(t)); len(d) > 0 {
			t.Errorf("%s: not undone: %q", h.kind, d)
		}
	}
}

// harms are what a program could do to a machine, one of each kind that the
// state has.
var harms = []struct {
	kind string
	do   func(t *testing.T) (undo func(), err error)
}{
	{"file", func(*testing.T) (func(), error) {
		return func() { os.Remove("/opt/harm") }, os.WriteFile("/opt/harm", []byte("x"), 0o600)
	}},
	{"file", func(*testing.T) (func(), error) { // a link beside another name
		return func() { os.Remove("/usr/lib/harm") }, os.Symlink("/etc", "/usr/lib/harm")
	}},
	{"file", func(*testing.T) (func(), error) {
		return func() { _ = os.Chmod("/etc", 0o755) }, os.Chmod("/etc", 0o777)
	}},
	{"process", func(t *testing.T) (func(), error) {
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
		return func() { _ = p.Kill(); _, _ = p.Wait() }, err
	}},
	{"process", func(*testing.T) (func(), error) {
		return func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 1, 0) }, unix.Setpriority(unix.PRIO_PROCESS, 1, 5)
	}},
	{"mount", func(*testing.T) (func(), error) {
		return func() { _ = unix.Unmount("/opt", unix.MNT_DETACH) }, unix.Mount("none", "/opt", "tmpfs", 0, "size=4k")
	}},
	{"setting", func(*testing.T) (func(), error) {
		const at = "/proc/sys/kernel/panic_on_oops"
		old, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		other := "1"
		if strings.TrimSpace(string(old)) == "1" {
			other = "0"
		}
		return func() { _ = os.WriteFile(at, old, 0) }, os.WriteFile(at, []byte(other), 0)
	}},
	{"setting", func(*testing.T) (func(), error) {
		old, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		return func() { _ = unix.Sethostname([]byte(old)) }, unix.Sethostname([]byte("harm"))
	}},
	{"ipc", func(*testing.T) (func(), error) {
		id, err := unix.SysvShmGet(0x676c6f77, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
		return func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }, err
	}},
	{"network", func(*testing.T) (func(), error) {
		s := newScene(api.Limits{}, map[string]string{})
		return s.close, s.listen("tcp", "127.0.0.1:0")
	}},
	{"network", func(*testing.T) (func(), error) {
		s := newScene(api.Limits{}, map[string]string{})
		return s.close, s.listen("abstract", "")
	}},
	{"group", func(*testing.T) (func(), error) {
		const at = "/sys/fs/cgroup/harm"
		return func() { _ = unix.Rmdir(at) }, os.Mkdir(at, 0o755)
	}},
	{"key", func(*testing.T) (func(), error) {
		id, err := unix.AddKey("user", "harm", []byte("x"), unix.KEY_SPEC_USER_KEYRING)
		return func() {
			_, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
		}, err
	}},
	{"clock", func(*testing.T) (func(), error) {
		move := func(d time.Duration) error {
			ts := unix.NsecToTimespec(time.Now().Add(d).UnixNano())
			return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
		}
		return func() { _ = move(-time.Hour) }, move(time.Hour)
	}},
}
