package redteam

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// state is what a machine is like: "KIND WHAT" to how it is.
type state map[string]string

// stateOf reads all of it. What lives for a moment and is nobody's, such as a
// connection that waits for its end, is not part of it.
func stateOf(t *testing.T) state {
	t.Helper()
	s := state{}
	s.processes()
	s.files(t)
	s.settings()
	s.texts("mount", "/proc/self/mountinfo", "/proc/swaps")
	s.texts("ipc", "/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
	s.texts("key", "/proc/keys")
	s.texts("module", "/proc/modules", "/proc/filesystems", "/proc/locks")
	s.network(t)
	s.groups()
	var real, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &real) == nil && unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) == nil {
		// The moment of the boot by the clock, to ten seconds.
		s["clock boot"] = fmt.Sprint(time.Duration(real.Nano() - boot.Nano()).Round(10 * time.Second))
	}
	return s
}

// String says how much there is of each kind.
func (s state) String() string {
	n := map[string]int{}
	for k := range s {
		kind, _, _ := strings.Cut(k, " ")
		n[kind]++
	}
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprint(n[kind], " ", kind))
	}
	return strings.Join(out, ", ")
}

// differ says what is otherwise now.
func (s state) differ(now state) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if v, ok := now[k]; !ok {
			out = append(out, k+" is gone")
		} else if v != s[k] {
			out = append(out, fmt.Sprintf("%s was %.200q and is %.200q", k, s[k], v))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if _, ok := s[k]; !ok {
			out = append(out, fmt.Sprintf("%s is new: %.200q", k, now[k]))
		}
	}
	return out
}

// processes are those that are not the kernel's own threads, with what others
// could have done to them: priority, owner, limits.
func (s state) processes() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat := readText(dir + "/stat")
		i := strings.LastIndexByte(stat, ')')
		if i < 0 {
			continue
		}
		f := strings.Fields(stat[i+1:])
		// Without the kernel's own, children of number 2, and those that are over.
		if len(f) < 20 || f[0] == "Z" || f[1] == "2" || filepath.Base(dir) == "2" {
			continue
		}
		name := strings.TrimSpace(readText(dir + "/comm"))
		var ids []string
		for line := range strings.Lines(readText(dir + "/status")) {
			if strings.HasPrefix(line, "Uid:") || strings.HasPrefix(line, "Gid:") || strings.HasPrefix(line, "CapEff:") {
				ids = append(ids, strings.Join(strings.Fields(line), " "))
			}
		}
		// Priority, nice value, policy; then the limits.
		s["process "+filepath.Base(dir)+" "+name] = fmt.Sprint(f[15:17], ids, readText(dir+"/oom_score_adj"), readText(dir+"/limits"))
	}
}

// files are all of the root's own file system and of /dev: kind, mode, owner,
// size and, of plain files, the time and digest. The time of a folder says that
// something was made and is gone, as every attack's canary is.
func (s state) files(t *testing.T) {
	t.Helper()
	skip := []string{"/proc", "/sys"}
	err := filepath.WalkDir("/", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(skip, name) {
			return filepath.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		text := fmt.Sprintf("%o %d:%d device %d", st.Mode, st.Uid, st.Gid, st.Rdev)
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFREG:
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d bytes %x links %d at %d", len(b), sha256.Sum256(b), st.Nlink, st.Mtim.Nano())
		case syscall.S_IFLNK:
			to, _ := os.Readlink(name)
			text += " to " + to
		}
		s["file "+name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// moving are settings that the kernel itself changes all the time.
var moving = []string{
	"/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/fs/inode-state", "/proc/sys/fs/aio-nr",
	"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/entropy_avail", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/pty/nr",
	"/proc/sys/fs/quota/syncs",
}

// settings are those of sysctl(8) that can be read, the names of the host, and
// who its users are (files of /etc are among the files).
func (s state) settings() {
	_ = filepath.WalkDir("/proc/sys", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(moving, name) {
			return nil
		}
		if b, err := os.ReadFile(name); err == nil {
			s["setting "+name] = string(b)
		}
		return nil
	})
}

// texts are files of the kernel, a line each; a figure of use at its end is not
// part of it.
func (s state) texts(kind string, names ...string) {
	for _, name := range names {
		for i, line := range strings.Split(readText(name), "\n") {
			if i == 0 && strings.Contains(line, "perms") {
				continue
			}
			f := strings.Fields(line)
			if name == "/proc/modules" && len(f) > 3 {
				f = f[:2] // behind it stands who uses it just now
			}
			if name == "/proc/keys" && len(f) > 3 {
				f = append(f[:1], f[4:]...) // flags, uses and time left move
			}
			if len(f) > 0 {
				s[kind+" "+name+" "+strings.Join(f, " ")] = ""
			}
		}
	}
}

// network are interfaces with their addresses, routes, and what listens or is
// connected.
func (s state) network(t *testing.T) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		addrs, _ := i.Addrs()
		s["network interface "+i.Name] = fmt.Sprint(i.Flags, i.MTU, i.HardwareAddr, addrs)
	}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "packet", "unix", "route", "ipv6_route", "arp"} {
		for i, line := range strings.Split(readText("/proc/net/"+name), "\n") {
			f := strings.Fields(line)
			switch {
			case i == 0 || len(f) < 4:
				continue
			case name == "unix":
				f = f[7:] // its path; without one it is a pair of somebody's
			case strings.HasPrefix(name, "tcp"):
				if f[3] == "06" { // TIME_WAIT: over, and nobody's
					continue
				}
				f = f[1:4]
			case strings.HasPrefix(name, "udp"):
				f = f[1:4]
			case strings.Contains(name, "route"):
				f = f[:3]
			}
			if len(f) > 0 {
				s["network "+name+" "+strings.Join(f, " ")] = ""
			}
		}
	}
}

// noSetting are files of a control group that can be written to and hold figures
// of use or who is in it, the kernel's own threads among them.
var noSetting = regexp.MustCompile(`\.(pressure|reclaim|peak|procs|threads)$`)

// groups are the control groups with all that can be set in them.
func (s state) groups() {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() {
			s["group "+name] = ""
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(name, &st) != nil || st.Mode&0o600 != 0o600 || noSetting.MatchString(name) {
			return nil
		}
		if b, err := os.ReadFile(name); err == nil {
			s["group "+name] = string(b)
		}
		return nil
	})
}
