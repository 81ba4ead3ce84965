package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// asMain makes the test binary behave as the command.
const asMain = "GLOVEBOX_TEST_ASUSER"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		os.Exit(run(os.Args[1:]))
	}
	testenv.Deselect()
	os.Exit(m.Run())
}

func asuser(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	// Not t.TempDir, which lies in a directory that only its owner may enter.
	dir, err := os.MkdirTemp("", "asuser-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1", "TMPDIR="+dir)
	return cmd
}

// leftovers are the groups and directories of asuser runs that exist now. A run
// of somebody else at the same time has another number.
func leftovers(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, h := range hierarchies(string(mountinfo), string(own)) {
		dir := filepath.Join(h.own, parent, fmt.Sprintf("user-%d", cmd.Process.Pid))
		if _, err := os.Stat(dir); err == nil {
			found = append(found, dir)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(cmd.Env[len(cmd.Env)-1][len("TMPDIR="):], "glovebox-user-*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(found, dirs...)
}

func TestOtherUserAsRoot(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := asuser(t, "-env", "GREETING=hi", "sh", "-c",
		`id -u; id -g; id -G; echo $GREETING; touch $HOME/a $TMPDIR/b && echo wrote; cat "$1" 2>&1 >/dev/null | grep -c denied; exit 7`, "sh", secret)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended with %v, want exit status 7", err)
	}
	if want := "64901\n64901\n64901\nhi\nwrote\n1\n"; string(out) != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	if left := leftovers(t, cmd); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// The command is in its groups, may make one below and remove it, and may not
// change its own limits' parent.
func TestDelegatesAsRoot(t *testing.T) {
	cases := [][]string{nil}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil {
		t.Fatal(err)
	} else if strings.Contains(string(mounts), " - cgroup2 ") {
		cases = append(cases, []string{"-v2"})
	}
	for _, args := range cases {
		t.Run(strings.Join(args, ""), func(t *testing.T) {
			script := `grep -o '/glovebox/user-.*' /proc/self/cgroup | sort -u
				for d in $(find /sys/fs/cgroup -maxdepth 6 -type d -path "*/glovebox/user-$PPID" 2>/dev/null); do
					mkdir $d/cell && echo 0 > $d/cell/cgroup.procs && echo entered
					ls $d/cell | grep -qx -e memory.max -e memory.limit_in_bytes && echo limited
					mkdir $d/../other 2>/dev/null && echo escaped
				done; true`
			cmd := asuser(t, append(args, "sh", "-c", script)...)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			got := string(out)
			if !strings.HasPrefix(got, fmt.Sprintf("/glovebox/user-%d", cmd.Process.Pid)) || !strings.Contains(got, "entered") || strings.Contains(got, "escaped") {
				t.Errorf("printed %q", got)
			}
			if args == nil && !strings.Contains(got, "limited") {
				t.Errorf("no group below can limit memory: %q", got)
			}
			if left := leftovers(t, cmd); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A daemon that outlives the command is killed, and an interrupt takes
// everything back too.
func TestLeavesNothingAsRoot(t *testing.T) {
	t.Run("daemon", func(t *testing.T) {
		cmd := asuser(t, "sh", "-c", `setsid sleep 300 >/dev/null 2>&1 & echo $!`)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		// Its new parent may not have collected it yet.
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(out)) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("lives: %s", stat)
		}
		if left := leftovers(t, cmd); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("interrupt", func(t *testing.T) {
		cmd := asuser(t, "sh", "-c", `echo up; exec sleep 300`)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := pipe.Read(make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		if left := leftovers(t, cmd); len(left) < 2 {
			t.Errorf("while it runs only this was found: %v", left)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("ended with %v, want exit status 130", err)
		}
		if left := leftovers(t, cmd); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
}

// A program in a directory that only root may enter runs as a copy.
func TestCopyAsRoot(t *testing.T) {
	closed := t.TempDir()
	program := filepath.Join(closed, "hello")
	if err := copyProgram(program, "/bin/echo"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := asuser(t, program, "hello").CombinedOutput(); err == nil {
		t.Errorf("ran without -copy: %s", out)
	}
	if out, err := asuser(t, "-copy", program, "hello").CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("with -copy: %q, %v", out, err)
	}
}

func TestRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"-uid", "0", "true"}, {"-gid", "0", "true"}, {"-env", "A", "true"}, {"/nowhere/at/all"}} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asMain+"=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != failed || !strings.Contains(stderr.String(), "asuser:") && !strings.Contains(stderr.String(), "want K=V") {
			t.Errorf("%q: %v, %s", args, err, &stderr)
		}
	}
}

func TestHierarchies(t *testing.T) {
	const mounts = `25 30 0:23 / /sys rw - sysfs sysfs rw
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
36 31 0:33 / /elsewhere rw - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 /a/b /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	const own = `9:name=systemd:/
8:pids:/p
4:memory:/docker/x/y
2:cpu,cpuacct:/
0::/a
`
	var got []string
	for _, h := range hierarchies(mounts, own) {
		got = append(got, h.own)
	}
	slices.Sort(got)
	want := []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory/y", "/sys/fs/cgroup/pids/p", "/sys/fs/cgroup/systemd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("own groups (-want +got):\n%s", diff)
	}
}
