package cell

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/landlock"
)

// plan is the root that a host shows its cells: the launcher builds it once,
// each cell has a private copy of its mounts.
type plan struct {
	ops []cellproto.Op
	// shown are the mount points that show the host, for the check of mountinfo.
	shown []string
	// paths are the readable places of the root, for Landlock.
	paths []string

	stamp           string // which files of the host it shows
	mu              sync.Mutex
	looked, planned time.Time // at the host again
	// work says that the guest has folders that it may write to, and devices.
	work bool
	// policies in force in this root, made at the first use.
	policies map[kind]*policy
}

// devices of the root, with the numbers that they must have.
var devices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}}

// etcPaths are files and directories of the host's /etc that programs need and
// that say nothing of the host but what is installed.
var etcPaths = []string{"/etc/ld.so.cache", "/etc/alternatives"}

// newPlan looks at the host once. extra are absolute paths or patterns that
// languages need; those that do not exist are left out. folders are further ones,
// which were checked.
func newPlan(extra []string, folders []Folder) *plan {
	p := &plan{policies: map[kind]*policy{}, looked: time.Now(), planned: time.Now(), work: true}
	for _, d := range []string{"dev", "dev/shm", "proc", "tmp", "box", "prog", "etc"} {
		p.dir(d)
	}
	p.system()
	for _, d := range devices {
		p.device(d.name)
	}
	for _, l := range [][2]string{{"fd", ""}, {"stdin", "/0"}, {"stdout", "/1"}, {"stderr", "/2"}} {
		p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpSymlink, Path: "dev/" + l[0], Source: "/proc/self/fd" + l[1]})
	}
	p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpSymlink, Path: "etc/localtime", Source: "/usr/share/zoneinfo/UTC"})
	for _, name := range slices.Sorted(maps.Keys(etcFiles)) { // in order, for the policy's hash
		p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpFile, Path: "etc/" + name, Mode: 0o644, Data: []byte(etcFiles[name])})
	}
	p.named(append(etcPaths, extra...))
	for _, f := range folders {
		p.bindAt(f.Source, f.At)
	}
	// One rule for each tree: what is shown below these is what may be read there.
	trees := []string{"/etc", "/proc", "/usr"}
	p.paths = slices.DeleteFunc(p.paths, func(path string) bool {
		return slices.ContainsFunc(trees, func(t string) bool { return beneath(path, t) })
	})
	p.paths = append(p.paths, trees...)
	slices.Sort(p.paths)
	p.stamp = p.files()
	return p
}

// device shows one of the devices.
func (p *plan) device(name string) {
	for _, d := range devices {
		if d.name == name {
			p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpDevice, Path: "dev/" + name, Source: "/dev/" + name,
				Mode: unix.Mkdev(d.major, d.minor)})
			p.shown = append(p.shown, "/dev/"+name)
		}
	}
}

// How often the host is looked at again: whether the files that are shown are the
// same, and whether a plan made now would have the same steps, which takes longer.
const (
	lookEvery = 200 * time.Millisecond
	planEvery = 5 * time.Second
)

// stale tells whether a plan made now would be another: a file that the root shows
// was replaced, whose old content the mount would keep, or something else is
// installed. What lies in folders that are shown is always the present.
func (p *plan) stale(again func() *plan) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.looked) < lookEvery {
		return false
	}
	p.looked = now
	if p.files() != p.stamp {
		return true
	}
	if now.Sub(p.planned) < planEvery {
		return false
	}
	p.planned = now
	other := again()
	return other.stamp != p.stamp || !reflect.DeepEqual(other.ops, p.ops)
}

// files says which files of the host the steps show.
func (p *plan) files() string {
	d := sha256.New()
	for _, o := range p.ops {
		if o.Kind != cellproto.OpBind {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(o.Source, &st); err != nil {
			fmt.Fprintln(d, o.Source, err)
			continue
		}
		fmt.Fprintln(d, o.Source, st.Dev, st.Ino)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			fmt.Fprintln(d, st.Size, st.Mtim, st.Ctim)
		}
	}
	return string(d.Sum(nil))
}

// etcFiles are the made-up files of /etc that no cell differs in.
var etcFiles = map[string]string{
	"hosts":         "127.0.0.1 localhost " + Hostname + "\n::1 localhost\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"hostname":      Hostname + "\n",
	"timezone":      "UTC\n",
	"passwd":        "",
	"group":         "", // each cell shows its own in the place of these two
}

// identity are the two files that name the cell's own user.
func identity(uid, gid int) (passwd, group []byte) {
	passwd = fmt.Appendf(nil, "root:x:0:0:root:/:/usr/sbin/nologin\nguest:x:%d:%d:guest:/box:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", uid, gid)
	return passwd, fmt.Appendf(nil, "root:x:0:\nguest:x:%d:\nnogroup:x:65534:\n", gid)
}

// Hostname is what every cell calls its machine.
const Hostname = "glovebox"

func (p *plan) dir(path string) {
	p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpDir, Path: path, Mode: 0o755})
}

// usrDirs are what packages put into /usr. What an administrator puts there by
// hand, /usr/local and /usr/src, is shown only as far as a language asks for it.
var usrDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share", "include"}

// system shows the programs of the host: what packages have in /usr and, beside
// it, links to it on a merged system, directories of their own elsewhere.
func (p *plan) system() {
	p.dir("usr")
	for _, d := range usrDirs {
		p.show("usr/" + d)
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		p.show(d)
	}
}

// show shows a directory of the host as what it is there: a link or a directory.
func (p *plan) show(d string) {
	st, err := os.Lstat("/" + d)
	switch {
	case err != nil:
	case st.Mode()&os.ModeSymlink != 0:
		if to, err := os.Readlink("/" + d); err == nil {
			p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpSymlink, Path: d, Source: to})
		}
	case st.IsDir():
		p.bind("/" + d)
	}
}

// bind shows one path of the host at the same place. It may lie behind a link,
// which the launcher would refuse.
func (p *plan) bind(path string) {
	if p.has(path) {
		return
	}
	source := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		source = real
	}
	p.bindAt(source, path)
}

// has tells whether a path is shown already, or is one of the files made up for
// every cell.
func (p *plan) has(path string) bool {
	return slices.ContainsFunc(p.ops, func(o cellproto.Op) bool { return o.Kind != cellproto.OpDir && "/"+o.Path == path }) ||
		slices.ContainsFunc(p.shown, func(s string) bool { return beneath(path, s) })
}

// parents makes the folders that a path lies in.
func (p *plan) parents(path string) {
	rel := path[1:]
	for i, r := range rel {
		if r == '/' {
			p.dir(rel[:i])
		}
	}
}

// bindAt shows one path of the host, parents made as needed.
func (p *plan) bindAt(source, at string) {
	p.parents(at)
	p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpBind, Path: at[1:], Source: source})
	p.shown = append(p.shown, at)
	p.paths = append(p.paths, at)
}

// named shows what patterns name: files and folders as they are, and links as
// links, whose target is there only if it is shown too. A path through a link is
// left out: what it leads to has a name of its own.
func (p *plan) named(patterns []string) {
	for _, pat := range patterns {
		found, err := filepath.Glob(pat)
		if err != nil {
			continue
		}
		for _, f := range found {
			if first, _, _ := strings.Cut(f[1:], "/"); first == "proc" || first == "sys" { // never the host's
				continue
			}
			dir := filepath.Dir(f)
			if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
				continue
			}
			if to, err := os.Readlink(f); err == nil {
				p.link(f, to)
			} else {
				p.bind(f)
			}
		}
	}
}

// link shows a link of the host, unless what it lies in is shown anyway.
func (p *plan) link(path, to string) {
	if p.has(path) {
		return
	}
	p.parents(path)
	p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpSymlink, Path: path[1:], Source: to})
}

// workRights are those on the guest's own directories, without Execute: no
// devices, no sockets.
const workRights = landlock.WriteFile | landlock.ReadFile | landlock.ReadDir | landlock.RemoveDir | landlock.RemoveFile |
	landlock.MakeDir | landlock.MakeReg | landlock.MakeFifo | landlock.MakeSym | landlock.Refer | landlock.Truncate

// landlock makes the guest's ruleset and init's. The guest's signals and
// abstract sockets end at the edge of its domain; init's must reach the guest.
func (p *plan) landlock(abi int, loopback bool) (guest, init cellproto.Landlock) {
	if abi == 0 {
		return
	}
	fs := landlock.Handled(abi)
	var rules []cellproto.LandlockRule
	for _, path := range p.paths { // init leaves out what only folders have
		access := uint64(landlock.Execute | landlock.ReadFile | landlock.ReadDir)
		rules = append(rules, cellproto.LandlockRule{Path: path, Access: access & fs})
	}
	guest = cellproto.Landlock{HandledFS: fs, Rules: rules}
	rules = append(slices.Clone(rules), workRules(fs)...)
	init = cellproto.Landlock{HandledFS: fs, Rules: rules}
	if p.work {
		guest.Rules = rules
	} else {
		guest.Rules = append(slices.Clip(guest.Rules), cellproto.LandlockRule{Path: "/dev/urandom", Access: landlock.ReadFile})
	}
	if !loopback {
		guest.HandledNet = landlock.HandledNet(abi)
	}
	guest.Scoped = landlock.Scopes(abi)
	return guest, init
}

// workRules are those on what a guest writes to.
func workRules(fs uint64) []cellproto.LandlockRule {
	work := workRights & fs
	rules := []cellproto.LandlockRule{
		{Path: "/box", Access: work | landlock.Execute},
		{Path: "/tmp", Access: work | landlock.Execute},
		{Path: "/dev/shm", Access: work},
		{Path: ProductDir, Access: work | landlock.Execute}, // read-only by its mount where it must be
		{Path: "/dev", Access: landlock.ReadDir},
	}
	for _, d := range devices {
		rules = append(rules, cellproto.LandlockRule{Path: "/dev/" + d.name, Access: (landlock.ReadFile | landlock.WriteFile | landlock.Truncate) & fs})
	}
	return rules
}

// procKeep are the entries of /proc that show the cell and nothing else.
var procKeep = []string{"self", "thread-self", "mounts", "net"}

// commonStandIns are files of /proc that programs read to learn about their
// machine, and that tell every cell the same.
func commonStandIns() []cellproto.StandIn {
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	release := unix.ByteSliceToString(uts.Release[:])
	return []cellproto.StandIn{
		standIn("uptime", "0.00 0.00\n"),
		standIn("loadavg", "0.00 0.00 0.00 1/1 1\n"),
		standIn("version", "Linux version %s (glovebox) #1\n", release),
		standIn("cmdline", "\n"),
		standIn("filesystems", "nodev\ttmpfs\nnodev\tproc\n"),
		standIn("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
		standIn("sys/kernel/ostype", "Linux\n"),
		standIn("sys/kernel/osrelease", "%s\n", release),
		standIn("sys/kernel/hostname", "%s\n", Hostname),
		standIn("sys/kernel/pid_max", "32768\n"),
		standIn("sys/kernel/ngroups_max", "65536\n"),
		standIn("sys/kernel/cap_last_cap", "40\n"),
		standIn("sys/vm/overcommit_memory", "0\n"),
		standIn("sys/vm/max_map_count", "65530\n"),
		standIn("sys/net/core/somaxconn", "4096\n"),
	}
}

// procCommon are the entries of /proc that those files stand for.
var procCommon = []string{"uptime", "loadavg", "version", "cmdline", "filesystems", "swaps", "sys"}

// standIns are the files of /proc that show the limits of one cell, for which
// the machine is the cell.
func standIns(memory int64, cpus int) []cellproto.StandIn {
	kb := memory / 1024
	return []cellproto.StandIn{
		standIn("meminfo", "MemTotal: %14d kB\nMemFree: %15d kB\nMemAvailable: %10d kB\nBuffers: %15d kB\nCached: %16d kB\nSwapCached: %12d kB\nSwapTotal: %13d kB\nSwapFree: %14d kB\nShmem: %17d kB\n", kb, kb, kb, 0, 0, 0, 0, 0, 0),
		{Path: "cpuinfo", Data: cpuinfo(cpus)},
		{Path: "stat", Data: cpuStat(cpus)},
	}
}

func standIn(path, format string, args ...any) cellproto.StandIn {
	return cellproto.StandIn{Path: path, Data: fmt.Appendf(nil, format, args...)}
}

// CPUs is how many processors a share of per cents is.
func CPUs(percent int64) int {
	return max(1, min(int((percent+99)/100), runtime.NumCPU()))
}

func cpuinfo(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "processor\t: %d\nvendor_id\t: glovebox\nmodel name\t: glovebox\ncpu MHz\t\t: 1000.000\ncpu cores\t: %d\nsiblings\t: %d\n\n", i, n, n)
	}
	return []byte(b.String())
}

func cpuStat(n int) []byte {
	var b strings.Builder
	b.WriteString("cpu  0 0 0 0 0 0 0 0 0 0\n")
	for i := range n {
		fmt.Fprintf(&b, "cpu%d 0 0 0 0 0 0 0 0 0 0\n", i)
	}
	b.WriteString("intr 0\nctxt 0\nbtime 0\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n")
	return []byte(b.String())
}
