package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// readPy reads the files and lists the directories that its arguments name,
// in every way that does not need the file to exist for its errno.
const readPy = `import os, sys, errno
def say(name, f):
    try:
        v = f()
        print(name, "OK", flush=True)
        return v
    except OSError as e:
        print(name, e.errno, flush=True)
for path in sys.argv[1:]:
    base = os.path.basename(path)
    v = say("read-" + base, lambda: os.read(os.open(path, os.O_RDONLY), 4096))
    if v: print("content-" + base, v.decode(errors="replace").split("\n")[0].replace(" ", "_"))
    say("opath-" + base, lambda: os.open(path, os.O_PATH))
    say("stat-" + base, lambda: os.stat(path))
    say("list-" + base, lambda: os.listdir(path))
    say("write-" + base, lambda: os.write(os.open(path, os.O_WRONLY), b"guest was here"))
    say("climb-" + base, lambda: os.stat("../../../../../../.." + path))
    say("self-" + base, lambda: os.stat("/proc/self/root" + path))
    say("link-" + base, lambda: (os.path.lexists("/tmp/l") and os.unlink("/tmp/l"), os.symlink(path, "/tmp/l"), os.stat("/tmp/l")))
    say("beside-" + base, lambda: os.close(os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o666)))
`

// A file of the host that everybody may read and write does not exist for a
// guest, whatever way it takes there; nothing is written to it or made beside
// it. With the root alone left out Landlock refuses what it knows, and with
// both left out the secret comes out and the host finds it overwritten.
//
// proves O-17
// proves part of T-04
func TestWallFilesCanary(t *testing.T) {
	dir := openDir(t)
	path, secret := canary(t, dir)
	prog := python(readPy)
	prog.Args = []string{path}
	ways := []string{"read", "opath", "stat", "list", "write", "climb", "self", "link", "beside"}
	for _, c := range []struct {
		off  []string
		want []string // of each way
		file string   // the host's canary afterwards
	}{
		{nil, []string{"ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT"}, secret},
		{[]string{"landlock"}, []string{"ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT"}, secret},
		{[]string{"root"}, []string{"EACCES", "OK", "OK", "EACCES|ENOTDIR", "EACCES", "OK", "OK", "OK", "EACCES"}, secret},
		{[]string{"root", "landlock"}, []string{"OK", "OK", "OK", "ENOTDIR", "OK", "OK", "OK", "OK", "OK"}, "guest was here" + secret[len("guest was here"):]},
	} {
		b := box(t)
		if c.off != nil {
			b = without(t, c.off...)
		}
		r := run(t, b, prog)
		got := answers(r.Stdout)
		for i, way := range ways {
			if a := got[way+"-canary"]; a == "" || !strings.Contains("|"+c.want[i]+"|", "|"+a+"|") {
				t.Errorf("without %v: %s answered %q, want %s", c.off, way, a, c.want[i])
			}
		}
		if through := got["content-canary"] == secret; through != (len(c.off) == 2) {
			t.Errorf("without %v: content %q", c.off, got["content-canary"])
		}
		if now := readFile(t, path); now != c.file {
			t.Errorf("without %v: the host's file is %q, want %q", c.off, now, c.file)
		}
		if _, err := os.Stat(path + ".new"); (err == nil) != (len(c.off) == 2) {
			t.Errorf("without %v: the file beside it: %v", c.off, err)
		}
	}
}

// The places where secrets of a host are kept do not exist for a guest.
//
// proves part of T-06 O-02
func TestWallFilesOfTheHost(t *testing.T) {
	prog := python(readPy)
	prog.Args = []string{"/etc/shadow", "/root", "/home", "/var", "/run", "/boot", "/etc/machine-id", "/etc/ssh", "/sys", "/opt", "/srv", "/mnt"}
	r := run(t, box(t), prog)
	got := answers(r.Stdout)
	for _, path := range prog.Args {
		for _, way := range []string{"read", "stat", "list", "opath"} {
			if a := got[way+"-"+filepath.Base(path)]; a != "ENOENT" {
				t.Errorf("%s %s: %q", way, path, a)
			}
		}
	}
	// With root and Landlock off the names are there; what permission keeps is a
	// third layer.
	got = answers(run(t, without(t, "root", "landlock"), prog).Stdout)
	if got["stat-shadow"] != "OK" || got["list-var"] != "OK" {
		t.Errorf("control: stat shadow %q, list /var %q", got["stat-shadow"], got["list-var"])
	}
	if got["read-shadow"] != "EACCES" {
		t.Errorf("control: reading shadow %q: the own uid does not hold", got["read-shadow"])
	}
}

// writePy tries to make a file in every directory that it can see but those
// below its own; and, where there is one, to write to each kind of existing file.
const writePy = `import os
def say(name, f):
    try: f(); print(name, "OK", flush=True)
    except OSError as e: print(name, e.errno, flush=True)
def make(d): os.close(os.open(d + "/wall-guest", os.O_WRONLY | os.O_CREAT, 0o666))
for d in ["/", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/etc", "/proc", "/proc/sys", "/proc/self", "/dev", "/box", "/tmp", "/dev/shm"]:
    say("make:" + d, lambda: make(d))
    say("mkdir:" + d, lambda: os.mkdir(d + "/wall-dir"))
for f in ["/usr/bin/env", "/etc/passwd", "/etc/ld.so.cache", "/proc/self/comm", "/proc/self/oom_score_adj", "/proc/self/coredump_filter", "/proc/meminfo", "/proc/sys/kernel/hostname", "/proc/cmdline"]:
    say("write:" + f, lambda: os.open(f, os.O_WRONLY))
    say("chmod:" + f, lambda: os.chmod(f, 0o777))
for f in ["/usr/bin/env", "/etc/passwd"]:
    say("unlink:" + f, lambda: os.unlink(f))
    say("rename:" + f, lambda: os.rename(f, "/tmp/x"))
    say("link:" + f, lambda: os.link(f, "/tmp/y"))
for d in ["/dev/null", "/dev/zero", "/dev/full"]:
    say("write:" + d, lambda: os.open(d, os.O_WRONLY))
say("mknod", lambda: os.mknod("/tmp/n", 0o020666, os.makedev(1, 3)))
say("mksock", lambda: os.mknod("/tmp/s", 0o140666))
say("mkfifo", lambda: os.mkfifo("/tmp/f"))
`

// A guest can write in /box, /tmp and /dev/shm and nowhere else; no other
// answer than a refusal comes from any other place.
//
// proves part of O-25 H-13
func TestWallFilesWriting(t *testing.T) {
	r := run(t, box(t), python(writePy))
	got := answers(r.Stdout)
	if len(got) < 50 {
		t.Fatalf("%d answers: %s", len(got), r.Stderr)
	}
	for what, a := range got {
		op, path, _ := strings.Cut(what, ":")
		own := path == "/box" || path == "/tmp" || path == "/dev/shm"
		dev := op == "write" && strings.HasPrefix(path, "/dev/")
		switch {
		case (own || dev || op == "mkfifo") != (a == "OK"):
			t.Errorf("%s answered %s", what, a)
		case a != "OK" && !strings.Contains("EROFS EACCES EPERM ENOENT EXDEV", a):
			t.Errorf("%s answered %s, which is no refusal", what, a)
		}
	}
	// The mounts alone: Landlock off, and still nothing but EROFS and what the
	// kernel says before it looks at the mount.
	for what, a := range answers(run(t, without(t, "landlock"), python(writePy)).Stdout) {
		if strings.HasPrefix(what, "make:/usr") && a != "EROFS" {
			t.Errorf("without landlock: %s answered %s", what, a)
		}
	}
	for _, d := range []string{"/usr", "/usr/bin", "/etc"} {
		for _, name := range []string{"wall-guest", "wall-dir"} {
			if _, err := os.Stat(filepath.Join(d, name)); err == nil {
				t.Errorf("the host has %s/%s", d, name)
			}
		}
	}
}

// Every mount of a cell is private, nosuid, and read-only but for the three of
// its own disk; nodev but for the five device nodes. Read from outside.
//
// proves part of H-14
func TestWallFilesMounts(t *testing.T) {
	l := pause(t, box(t), cProgram(t, wallC+`int main(){ready();}`))
	info := readFile(t, fmt.Sprintf("/proc/%d/mountinfo", l.guest))
	l.release()
	seen := 0
	for line := range strings.Lines(info) {
		left, right, _ := strings.Cut(line, " - ")
		f, kind := strings.Fields(left), strings.Fields(right)[0]
		point, options := f[4], ","+f[5]+","
		own := point == "/box" || point == "/tmp" || point == "/dev/shm"
		device := strings.HasPrefix(point, "/dev/") && kind != "tmpfs"
		switch {
		case len(f) > 6:
			t.Errorf("%s propagates: %s", point, f[6])
		case !strings.Contains(options, ",nosuid,"):
			t.Errorf("%s is not nosuid", point)
		case !own && !strings.Contains(options, ",ro,"):
			t.Errorf("%s is writable", point)
		case !device && !strings.Contains(options, ",nodev,"):
			t.Errorf("%s is not nodev", point)
		}
		seen++
	}
	if seen < 20 {
		t.Errorf("only %d mounts seen:\n%s", seen, info)
	}
}

// below is a directory of /usr on which the tests of mounts below a bound path
// mount something, in a mount namespace of their own.
const below = "/usr/share"

// A writable file system mounted below a bound path is read-only and nosuid in
// a cell, and one mounted while the cell waits never arrives. With the
// recursion of the flags left out the witness of the mounts refuses the cell,
// and without this witness as well the write goes through.
//
// proves H-14
func TestWallFilesMountBelow(t *testing.T) {
	got := answers(asChild(t, "mountbelow", ownMounts()))
	for name, want := range map[string]string{
		"sealed": "EROFS", "host-sealed": "untouched", "later": "ENOENT", "warm": "true",
		"attest": "refused", "control": "OK", "host-control": "written",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func childMountBelow() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	early, later := below+"/doc", below+"/man"
	if err := syscall.Mount("wall", early, "tmpfs", 0, "mode=0777"); err != nil {
		return err
	}
	if err := os.WriteFile(early+"/file", nil, 0o666); err != nil {
		return err
	}
	if err := os.Chmod(early+"/file", 0o666); err != nil {
		return err
	}
	const src = `import os, sys
for name, f in [("write", lambda: os.write(os.open("%s/file", os.O_WRONLY), b"x")), ("later", lambda: os.stat("%s/later"))]:
    try: f(); print(name, "OK")
    except OSError as e: print(name, e.errno)
`
	prog := python(fmt.Sprintf(src, early, later))
	o := options()
	o.Armed = 1
	r, err := runArmed(o, prog, func() error { return mountLater(later) })
	if err != nil {
		return err
	}
	got := answers(r.Stdout)
	fmt.Println("sealed", got["write"])
	fmt.Println("later", got["later"])
	fmt.Println("warm", r.Warm)
	sayFile("host-sealed", early+"/file")
	o = glovebox.SandboxOffUnsafeForNegativeControlsOnly(options(), "recursive", "landlock")
	if _, err := childRun(o, prog, nil); err != nil && strings.Contains(err.Error(), "attest: mount "+early+" is ") {
		fmt.Println("attest refused")
	} else {
		fmt.Println("attest", err)
	}
	o = glovebox.SandboxOffUnsafeForNegativeControlsOnly(options(), "recursive", "landlock", "mountcheck")
	if r, err = childRun(o, prog, nil); err != nil {
		return err
	}
	fmt.Println("control", answers(r.Stdout)["write"])
	sayFile("host-control", early+"/file")
	return nil
}

// runArmed runs a program in the cell that was armed before something was done:
// the first of a Box that keeps one.
func runArmed(o glovebox.Options, p glovebox.Program, do func() error) (*glovebox.Result, error) {
	b, err := glovebox.New(o)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := do(); err != nil {
		return nil, err
	}
	for range 100 { // a cell that is made for the run does not take the armed one's place
		r, err := b.Run(context.Background(), p)
		if err != nil || r.Warm {
			return r, err
		}
	}
	return nil, errors.New("no armed cell was used")
}

// mountLater waits until a cell is sealed and then mounts something.
func mountLater(dir string) error {
	if err := sealedCell(); err != nil {
		return err
	}
	if err := syscall.Mount("wall", dir, "tmpfs", 0, "mode=0777"); err != nil {
		return err
	}
	return os.WriteFile(dir+"/later", nil, 0o666)
}

func sayFile(name, path string) {
	if b, err := os.ReadFile(path); err != nil || len(b) > 0 {
		fmt.Println(name, "written")
		return
	}
	fmt.Println(name, "untouched")
}
