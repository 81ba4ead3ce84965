package glovebox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// idsC says who it is and tries to become somebody else.
const idsC = wallC + `
#include <grp.h>
#include <sys/fsuid.h>
int main(void) {
	uid_t r, e, s;
	gid_t g[64], gr, ge, gs;
	getresuid(&r, &e, &s); getresgid(&gr, &ge, &gs);
	printf("uid %u/%u/%u\ngid %u/%u/%u\ngroups %d\n", r, e, s, gr, ge, gs, getgroups(64, g));
	printf("secure %lu\n", getauxval(AT_SECURE));
	printf("nnp %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	say("setuid-own", setresuid(r, r, r));
	say("setgid-own", setresgid(gr, gr, gr));
	say("setuid-0", setuid(0));
	say("setresuid-other", setresuid(r + 1, r + 1, r + 1));
	say("setresgid-0", setresgid(0, 0, 0));
	say("setgroups", setgroups(0, 0));
	say("setgroups-one", setgroups(1, &gr));
	say("chown-other", (close(open("/tmp/f", O_CREAT | O_WRONLY, 0644)), chown("/tmp/f", r + 1, -1)));
	say("capset", syscall(SYS_capset, (int[]){0x20080522, 0}, (int[]){1, 1, 0, 0, 0, 0}));
	say("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
	say("setfsuid", setfsuid(r + 1) == r && setfsuid(-1) == r ? 0 : -1);
	ready();
}`

// A guest has no capability in any set, cannot become anybody else, and has no
// group beside its own. As root the host sees an id of the cell's own, of the
// range for cells, that no two live cells share; as an ordinary user, his.
//
// proves O-08
// proves part of H-16 H-17 O-22
func TestWallIdentity(t *testing.T) {
	prog := cProgram(t, idsC)
	var hosts []string
	var lives []*live
	for range 2 {
		lives = append(lives, pause(t, box(t), prog))
	}
	for _, l := range lives {
		for _, field := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if v := l.field(l.guest, field); strings.Trim(v, "0") != "" {
				t.Errorf("%s is %s", field, v)
			}
		}
		uid, gid := strings.Fields(l.field(l.guest, "Uid")), strings.Fields(l.field(l.guest, "Gid"))
		if len(slices.Compact(slices.Clone(uid))) != 1 || len(slices.Compact(slices.Clone(gid))) != 1 {
			t.Errorf("ids differ: %v %v", uid, gid)
		}
		hosts = append(hosts, uid[0]+":"+gid[0])
		if groups := l.field(l.guest, "Groups"); groups != ownGroups() {
			t.Errorf("groups %q, want %q", groups, ownGroups())
		}
	}
	if asRoot {
		for _, h := range hosts {
			n, _ := strconv.Atoi(strings.Split(h, ":")[0])
			if n < 1_900_000_000 || n >= 1_900_000_000+1024*4096 || h != fmt.Sprintf("%d:%d", n, n) {
				t.Errorf("ids %s are not of the range", h)
			}
		}
		if hosts[0] == hosts[1] {
			t.Errorf("two cells share the ids %s", hosts[0])
		}
	} else if want := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()); hosts[0] != want || hosts[1] != want {
		t.Errorf("ids %v, want %s", hosts, want)
	}
	for i, l := range lives {
		r := l.release()
		got := answers(r.Stdout)
		said := "shared uid "
		if asRoot {
			said = "own uid "
		}
		said += strings.Split(hosts[i], ":")[0]
		if !slices.ContainsFunc(r.Evidence.Layers, func(l glovebox.Layer) bool { return l.Name == "privileges" && strings.Contains(l.Detail, said) }) {
			t.Errorf("the evidence does not say %q: %+v", said, r.Evidence.Layers)
		}
		for name, want := range map[string]string{"secure": "0", "nnp": "EPERM", // the number 1
			"setuid-own": "OK", "setgid-own": "OK", "setuid-0": "EPERM|EINVAL", "setresuid-other": "EPERM|EINVAL",
			"setresgid-0": "EPERM|EINVAL", "setgroups": "EPERM", "setgroups-one": "EPERM", "chown-other": "EPERM|EINVAL",
			"capset": "EPERM", "ambient": "EPERM", "setfsuid": "OK"} {
			if !slices.Contains(strings.Split(want, "|"), got[name]) {
				t.Errorf("%s: %q, want %s", name, got[name], want)
			}
		}
		if asRoot && got["groups"] != "0" {
			t.Errorf("groups inside: %s", got["groups"])
		}
	}
}

// ownGroups are the groups that a guest may have: none as root, those of the
// user, who cannot drop them, otherwise.
func ownGroups() string {
	if asRoot {
		return ""
	}
	status, _ := os.ReadFile("/proc/self/status")
	return statusField(string(status), "Groups")
}

// The groups of the embedding process are not the guest's. A file that only a
// group of its may read stays closed, where root and Landlock are off; it opens
// where the dropping of groups is left out as well.
//
// proves part of H-17
func TestWallIdentityGroupsAsRoot(t *testing.T) {
	dir := openDir(t)
	path, secret := canary(t, dir)
	if err := os.Chown(path, 0, 64999); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o040); err != nil {
		t.Fatal(err)
	}
	got := answers(asChild(t, "groups", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 0, Gid: 0, Groups: []uint32{0, 64999}}}, "WALL_CANARY="+path))
	for name, want := range map[string]string{"host": "0,64999", "sealed-groups": "none", "sealed-read": "ENOENT",
		"bare-groups": "none", "bare-read": "EACCES", "control-groups": "65534,65534", "control-read": secret} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func childGroups() error {
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Println("host", strings.ReplaceAll(statusField(string(status), "Groups"), " ", ","))
	prog := python(`import sys
print("groups", ",".join(open("/proc/self/status").read().split("Groups:")[1].split("\n")[0].split()) or "none")
try: print("read", open(sys.argv[1]).read())
except OSError as e: print("read", e.errno)
`)
	prog.Args = []string{os.Getenv("WALL_CANARY")}
	for _, c := range []struct {
		name string
		off  []string
	}{{"sealed", nil}, {"bare", []string{"root", "landlock"}}, {"control", []string{"root", "landlock", "groups"}}} {
		o := options()
		if c.off != nil {
			o = glovebox.SandboxOffUnsafeForNegativeControlsOnly(o, c.off...)
		}
		r, err := childRun(o, prog, nil)
		if err != nil {
			return err
		}
		for _, line := range strings.Split(strings.TrimSpace(r.Stdout), "\n") {
			fmt.Println(c.name + "-" + line)
		}
	}
	return nil
}

// An ordinary user cannot drop his groups, since the kernel forbids it in his
// namespace; the evidence of his runs lists them.
//
// proves part of H-17 O-11
func TestWallIdentityGroupsOfAUserAsRoot(t *testing.T) {
	dir := openDir(t)
	program, err := os.ReadFile(testenv.Init())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "glovebox-init")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	got := answers(asChild(t, "usergroups", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64902, Gid: 64902, Groups: []uint32{6, 64902, 64998}}}, // 6 is disk on Debian
		"GLOVEBOX_TEST_INIT="+path))
	if got["warned"] != "disk" {
		t.Errorf("no warning of a powerful group: %v", got)
	}
	if got["kept"] != "[6_64902_64998]" || got["uid"] != "64902" {
		t.Errorf("got %v", got)
	}
}

func childUserGroups() error {
	o := options()
	o.Sandbox = glovebox.Auto // this user has no control groups
	for _, w := range glovebox.CheckHost(o).Warnings {
		if _, group, ok := strings.Cut(w, "guests keep this user's group "); ok {
			fmt.Println("warned", strings.TrimSuffix(strings.Fields(group)[0], ":"))
		}
	}
	r, err := childRun(o, glovebox.Program{Command: []string{"/bin/true"}}, nil)
	if err != nil {
		return err
	}
	for _, l := range r.Evidence.Layers {
		if _, kept, ok := strings.Cut(l.Detail, "groups kept "); ok && l.Name == "privileges" {
			fmt.Println("kept", strings.ReplaceAll(kept[:strings.Index(kept, "]")+1], " ", "_"))
		}
		if _, uid, ok := strings.Cut(l.Detail, "shared uid "); ok {
			fmt.Println("uid", strings.Trim(strings.Fields(uid)[0], ",;"))
		}
	}
	return nil
}

// A set-user-id program gains nothing: neither the host's root, nor another id
// of the cell's own range. With nosuid and the privileges left out the latter
// takes effect.
//
// proves part of O-08 H-14
func TestWallIdentitySetuidAsRoot(t *testing.T) {
	got := answers(asChild(t, "setuid", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}))
	for name, want := range map[string]string{
		"sealed-root": "own", "sealed-other": "own", "nosuid-root": "own", "nosuid-other": "own",
		"control-root": "own", "control-other": "other",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %s", name, got[name], want)
		}
	}
}

// childSetuid puts copies of id(1) with the set-user-id bit on a file system
// below /usr, in a mount namespace of its own, and has guests run them.
func childSetuid() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	dir := below + "/doc"
	if err := syscall.Mount("wall", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		off  []string
	}{{"sealed", nil}, {"nosuid", []string{"nosuid", "mountcheck"}}, {"control", []string{"nosuid", "mountcheck", "privileges"}}} {
		o := options()
		if c.off != nil {
			o = glovebox.SandboxOffUnsafeForNegativeControlsOnly(o, c.off...)
		}
		base := 1_900_000_000 + 4096*ownBlock()
		for name, uid := range map[string]int{"root": 0, "other": base + 4000} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, id, 0o755); err != nil {
				return err
			}
			if err := os.Chown(path, uid, uid); err != nil {
				return err
			}
			if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
				return err
			}
			r, err := childRun(o, glovebox.Program{Command: []string{"/bin/sh", "-c", "id -u; " + path + " -u"}}, nil)
			if err != nil {
				return err
			}
			real, effective, _ := strings.Cut(strings.TrimSpace(r.Stdout), "\n")
			who := map[bool]string{true: "own", false: "changed"}[real == effective]
			if effective == "4000" {
				who = "other"
			}
			fmt.Println(c.name+"-"+name, who)
		}
	}
	return nil
}

// ownBlock is the first free block of ids, which the next Box takes.
func ownBlock() int {
	for n := range 1024 {
		f, err := os.OpenFile(fmt.Sprintf("/run/glovebox/ids/%d", n), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return 0
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		f.Close()
		if err == nil {
			return n
		}
	}
	return 0
}

// pipesC makes as many pipes as its argument says and shows the size of one
// more. The kernel counts the pages of all pipes of a host user.
const pipesC = wallC + `
int main(int argc, char **argv) {
	int p[2];
	for (int i = atoi(argv[1]); i > 0; i--) if (pipe(p)) return 1;
	if (pipe(p)) return 1;
	printf("size s%d\n", fcntl(p[0], F_GETPIPE_SZ));
	ready();
	return 0;
}`

// What the kernel counts for each user of the host, here the pages of pipes,
// one cell cannot use up for another as root, where each is a user of its own.
// An ordinary user's cells share it: theirs shrink, and the evidence says that
// the id is shared.
//
// proves part of H-16
func TestWallIdentityPipePages(t *testing.T) {
	greedy, modest := cProgram(t, pipesC), cProgram(t, pipesC)
	greedy.Args, greedy.Limits.OpenFiles = []string{"1500"}, 4096
	modest.Args = []string{"1"}
	before := answers(run(t, box(t), modest).Stdout)["size"]
	l := pause(t, box(t), greedy)
	during := answers(run(t, box(t), modest).Stdout)["size"]
	if got := answers(l.release().Stdout)["size"]; got != "s8192" && got != "s4096" {
		t.Errorf("the greedy one's own pipes have %s", got)
	}
	if before != "s65536" || asRoot && during != "s65536" || !asRoot && during != "s8192" && during != "s4096" {
		t.Errorf("pipes of %s before and %s during", before, during)
	}
}

// Each cell has namespaces of its own of every kind but the user namespace,
// which the cells of one Box share and the host does not; seen from outside,
// while six of them live. With some left out two cells share these.
//
// proves part of H-24
func TestWallIdentityNamespaces(t *testing.T) {
	prog := cProgram(t, wallC+`int main(){ready();}`)
	kinds := []string{"net", "ipc", "uts", "pid", "mnt", "cgroup", "time"}
	own := func(pid string, kind string) string {
		to, err := os.Readlink("/proc/" + pid + "/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	var lives []*live
	for range min(6, 4*runtime.NumCPU()) {
		lives = append(lives, pause(t, box(t), prog))
	}
	for _, kind := range kinds {
		seen := map[string]bool{own("self", kind): true}
		for _, l := range lives {
			id := own(fmt.Sprint(l.guest), kind)
			if seen[id] {
				t.Errorf("%s is shared", id)
			}
			seen[id] = true
		}
	}
	user := own(fmt.Sprint(lives[0].guest), "user")
	for _, l := range lives {
		if u := own(fmt.Sprint(l.guest), "user"); u != user || u == own("self", "user") {
			t.Errorf("user namespaces %s and %s, the host's %s", user, u, own("self", "user"))
		}
		l.release()
	}
	shared := []string{"net", "ipc", "uts"}
	b := without(t, shared...)
	one, two := pause(t, b, prog), pause(t, b, prog)
	for _, kind := range shared {
		if a, b := own(fmt.Sprint(one.guest), kind), own(fmt.Sprint(two.guest), kind); a != b {
			t.Errorf("control: %s and %s differ", a, b)
		}
	}
	one.release()
	two.release()
}

// Where the kernel refuses a new proc, because the visible one has covered
// paths, there is no cell in any mode, and the error says what mends it: no
// proc of the host is ever shown in its place.
//
// proves H-13
func TestWallIdentityMaskedProc(t *testing.T) {
	got := asChild(t, "maskedproc", ownMounts())
	for _, mode := range []string{"require", "auto"} {
		want := regexp.MustCompile("(?m)^" + mode + " unavailable: .*proc does not hold .*systempaths=unconfined")
		if !want.MatchString(got) {
			t.Errorf("%s: %q", mode, got)
		}
	}
	if !strings.Contains(got, "uncovered ok") {
		t.Errorf("control: %q", got)
	}
	l := pause(t, box(t), cProgram(t, wallC+`int main(){ready();}`))
	defer l.release()
	var guest, host unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root/proc", l.guest), &guest); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat("/proc", &host); err != nil {
		t.Fatal(err)
	}
	if guest.Dev == host.Dev {
		t.Error("the guest's proc is the host's")
	}
}

func childMaskedProc() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("wall", "/proc/fs", "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, mode := range []glovebox.Sandbox{glovebox.Require, glovebox.Auto} {
		o := options()
		o.Sandbox = mode
		_, err := childRun(o, glovebox.Program{Command: []string{"/bin/true"}}, nil)
		if errors.Is(err, glovebox.ErrSandboxUnavailable) {
			fmt.Println(mode, "unavailable:", err)
		} else {
			fmt.Println(mode, err)
		}
	}
	if err := syscall.Unmount("/proc/fs", 0); err != nil {
		return err
	}
	r, err := childRun(options(), glovebox.Program{Command: []string{"/bin/true"}}, nil)
	if err != nil {
		return err
	}
	fmt.Println("uncovered", r.Verdict)
	return nil
}
