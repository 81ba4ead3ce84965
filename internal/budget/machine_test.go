package budget

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// proves part of H-45
func TestMachine(t *testing.T) {
	a, err := Machine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", a)
	for _, r := range a.resources() {
		if r.n <= 0 || r.n == math.MaxInt64 {
			t.Errorf("%s: %d", r.name, r.n)
		}
	}
	if _, err := Machine("/nowhere/at/all"); err == nil {
		t.Error("a folder that is not there has room")
	}
}

const v1Mounts = `30 20 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
31 20 0:27 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory
32 20 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
`

// proves part of H-45
func TestMachineGroups(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		files             map[string]string
		memory, processes int64
	}{
		"none":            {map[string]string{}, 16 * gib, 4000},
		"v2":              {map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/pids.max": "100\n", "sys/fs/cgroup/a/pids.max": "max\n"}, gib, 100},
		"v2, own is less": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup/a/memory.max": "2147483648\n", "sys/fs/cgroup/a/b/memory.max": "1073741824\n"}, gib, 4000},
		"v2, namespace":   {map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, gib, 4000},
		"v2, bind":        {map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": "30 20 0:26 /a /c\\040g rw - cgroup2 cgroup2 rw\n", "c g/b/memory.max": "1073741824\n"}, gib, 4000},
		"v2, outside":     {map[string]string{"proc/self/cgroup": "0::/../x\n", "proc/self/mountinfo": "30 20 0:26 / /cg rw - cgroup2 cgroup2 rw\n", "cg/memory.max": "1073741824\n"}, gib, 4000},
		"v1":              {map[string]string{"proc/self/cgroup": "5:memory:/a\n4:pids:/p\n0::/\n", "proc/self/mountinfo": v1Mounts, "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/pids/p/pids.max": "77\n"}, gib, 77},
		"v1, joined":      {map[string]string{"proc/self/cgroup": "5:cpu,memory:/a\n", "proc/self/mountinfo": "31 20 0:27 / /m rw - cgroup cgroup rw,cpu,memory\n", "m/a/memory.limit_in_bytes": "1073741824\n"}, gib, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n", "proc/sys/kernel/threads-max": "5000\n",
				"proc/sys/kernel/pid_max": "4000\n", "proc/sys/fs/file-max": "9223372036854775807\n"}
			for file, text := range c.files {
				files[file] = text
			}
			for file, text := range files {
				file = filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := machine{root, func(what int) (int64, error) {
				if what == unix.RLIMIT_NOFILE {
					return 1024, nil
				}
				return math.MaxInt64, nil
			}}
			a, err := m.measure(root)
			if err != nil {
				t.Fatal(err)
			}
			if a.Memory != c.memory || a.Processes != c.processes || a.Descriptors != 1024 {
				t.Errorf("%+v", a)
			}
			if err := os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("nothing\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := m.measure(root); err == nil || !strings.Contains(err.Error(), "MemTotal") {
				t.Error(err)
			}
		})
	}
}

func TestPart(t *testing.T) {
	a := Amount{math.MaxInt64, 100, 7, 0}.Part(3, 4)
	if a.Memory != 6917529027641081855 || a.Processes != 75 || a.Descriptors != 5 || a.Disk != 0 {
		t.Errorf("%+v", a)
	}
}
