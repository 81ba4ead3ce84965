//go:build linux

package cgroup

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEntries(t *testing.T) {
	got, err := parseEntries("9:name=systemd:/a:b\n4:cpu,cpuacct:/x\n3:memory:/\n0::/user.slice/a b.scope\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{key: "name=systemd", path: "/a:b"},
		{key: "cpu,cpuacct", controllers: []string{"cpu", "cpuacct"}, path: "/x"},
		{key: "memory", controllers: []string{"memory"}, path: "/"},
		{unified: true, path: "/user.slice/a b.scope"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"x\n", "1:memory\n", "1:memory:relative\n", "-1:memory:/\n", "one:memory:/\n", "\n"} {
		if got, err := parseEntries(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestParseMounts(t *testing.T) {
	text := `22 1 0:20 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - tmpfs tmpfs rw,mode=755
31 30 0:27 /docker/c1 /sys/fs/cgroup/memory ro,nosuid master:3 - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 /.. /mnt/my\040groups rw,relatime - cgroup2 cgroup2 rw,nsdelegate
34 30 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup ro,pids
35 30 0:31 / /sys/fs/cgroup/old rw - cgroup cgroup rw,freezer
36 30 0:32 / /sys/fs/cgroup/old rw - tmpfs tmpfs rw
short line
`
	want := []mount{
		{root: "/docker/c1", point: "/sys/fs/cgroup/memory", readOnly: true, controllers: []string{"rw", "memory"}},
		{root: "/", point: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{"rw", "cpu", "cpuacct"}},
		{unified: true, root: "/..", point: "/mnt/my groups"},
		{root: "/", point: "/sys/fs/cgroup/pids", readOnly: true, controllers: []string{"ro", "pids"}},
	}
	if d := cmp.Diff(want, parseMounts(text), cmp.AllowUnexported(mount{})); d != "" {
		t.Error(d)
	}
	covered := parseMounts("1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n2 0 0:2 / /sys rw - tmpfs tmpfs rw\n")
	if len(covered) != 0 {
		t.Errorf("a mount on top does not hide what lies below: %v", covered)
	}
}

func TestAncestors(t *testing.T) {
	tests := []struct {
		name, root, group string
		dirs, groups      []string
	}{
		{"plain", "/", "/a/b", []string{"/m/a/b", "/m/a", "/m"}, []string{"/a/b", "/a", "/"}},
		{"root group", "/", "/", []string{"/m"}, []string{"/"}},
		{"container without a namespace", "/docker/c1", "/docker/c1/x", []string{"/m/x", "/m"}, []string{"/docker/c1/x", "/docker/c1"}},
		{"another container's mount", "/docker/c1", "/docker/c11", nil, nil},
		{"outside the namespace", "/", "/../other", nil, nil},
		{"mount from above the namespace", "/..", "/../other", []string{"/m/other", "/m"}, []string{"/../other", "/.."}},
		{"own name unknown", "/..", "/", nil, nil},
		{"two above, one seen", "/..", "/../../other", nil, nil},
		{"far outside", "/../../a", "/../../a/b", []string{"/m/b", "/m"}, []string{"/../../a/b", "/../../a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dirs, groups := mount{root: tt.root, point: "/m"}.ancestors(tt.group)
			if !slices.Equal(dirs, tt.dirs) || !slices.Equal(groups, tt.groups) {
				t.Errorf("%q %q", dirs, groups)
			}
		})
	}
	deep := "/"
	for range 500 {
		deep = joinGroup(deep, "x")
	}
	if dirs, _ := (mount{root: "/", point: "/m"}).ancestors(deep); len(dirs) > maxDepth {
		t.Errorf("%d levels", len(dirs))
	}
}

func TestField(t *testing.T) {
	text := []byte("low 0\nmax 12\noom_kill 3\noom_kill_x 4\nbig 99999999999999999999\nodd -1")
	for key, want := range map[string]int64{"low": 0, "max": 12, "oom_kill": 3, "oom_kill_x": 4} {
		if v, ok := field(text, key); !ok || v != want {
			t.Errorf("%s: %d, %v", key, v, ok)
		}
	}
	for _, key := range []string{"oom", "big", "odd", "absent", ""} {
		if v, ok := field(text, key); ok {
			t.Errorf("%s: %d", key, v)
		}
	}
	if v, ok := field([]byte("4096\n"), ""); !ok || v != 4096 {
		t.Errorf("bare: %d, %v", v, ok)
	}
	if n := testing.AllocsPerRun(100, func() { field(text, "oom_kill") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestInstanceName(t *testing.T) {
	id := identity{pid: 42, start: "12345", pidns: "4026531836"}
	got, ok := parseInstance(instanceName(id, 7))
	if !ok || got != id {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, bad := range []string{"", "i", "i1-2-3", "i1-2-3-4-5", "i1-2-x-4", "i0-2-3-4", "j1-2-3-4", "i-1-2-3-4", "i99999999999999999999-2-3-4", "launcher"} {
		if got, ok := parseInstance(bad); ok {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

// FuzzParse feeds the parsers of /proc text anything: they end, and what they accept
// has the promised form.
func FuzzParse(f *testing.F) {
	f.Add("0::/\n", "1 0 0:1 / /c rw - cgroup2 cgroup2 rw\n")
	f.Add("3:memory:/../x\n", `1 0 0:1 /.. /c\040d rw - cgroup none rw,memory`)
	f.Fuzz(func(t *testing.T, groups, mounts string) {
		entries, err := parseEntries(groups)
		for _, m := range parseMounts(mounts) {
			for _, e := range entries {
				dirs, paths := m.ancestors(e.path)
				if len(dirs) != len(paths) || len(dirs) > maxDepth {
					t.Errorf("%q %q", dirs, paths)
				}
			}
		}
		if err == nil {
			for _, e := range entries {
				if e.path[0] != '/' {
					t.Errorf("path %q", e.path)
				}
			}
		}
	})
}
