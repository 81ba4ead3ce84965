package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// opened is the folder of --out, made for a test.
func opened(t *testing.T, path string) *outDir {
	t.Helper()
	f := &runFlags{out: path, given: func(string) bool { return true }}
	o, err := f.openOut()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o
}

// tree are the files below a folder: mode and content by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		out[name] = fmt.Sprintf("%v %s", st.Mode(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func artifact(name string, mode uint32, content string) api.Artifact {
	return api.Artifact{Name: name, Mode: mode, Content: []byte(content), Size: int64(len(content)), SHA256: "digest of " + name}
}

// What no honest cell sends does no harm either: only permission bits count, no
// name is written twice, and one below another is refused. The result tells all
// of it and keeps no content.
func TestOutHostile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	o := opened(t, dir)
	given := &glovebox.Result{Verdict: api.OK, RefusedArtifacts: []api.RefusedArtifact{{Name: "pipe", Reason: "is a FIFO"}}, Artifacts: []api.Artifact{
		artifact("a", 0o644, "first"), artifact("a", 0o644, "second"), artifact("a/b", 0o644, "below"), artifact("d/e", 0o7755, "bits"),
		artifact("d", 0o644, "on a folder"), artifact("none", 0, "dark"), artifact("../up", 0o644, "up"), artifact("/tmp/glovebox-abs", 0o644, "abs"), artifact("s", 0o400, ""),
	}}
	got := o.take(given)
	want := map[string]string{"a": "-rw-r--r-- first", "d/e": "-rwxr-xr-x bits", "none": "---------- dark", "s": "-r-------- "}
	if os.Geteuid() != 0 { // who reads them here may not read this one
		if err := os.Chmod(filepath.Join(dir, "none"), 0o400); err != nil {
			t.Fatal(err)
		}
		want["none"] = "-r-------- dark"
	}
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Error(d)
	}
	var lines []string
	for _, a := range got.Artifacts {
		if a.Content != nil || a.SHA256 != "digest of "+a.Name {
			t.Errorf("%s: content %q, digest %q", a.Name, a.Content, a.SHA256)
		}
		lines = append(lines, a.Name)
	}
	for _, a := range got.RefusedArtifacts {
		lines = append(lines, a.Name+": "+a.Reason)
	}
	if d := cmp.Diff([]string{"a", "d/e", "none", "s", "pipe: is a FIFO", "a: cannot be written: file exists", "a/b: cannot be written: not a directory",
		"d: cannot be written: file exists", "../up: cannot be written: path escapes from parent", "/tmp/glovebox-abs: cannot be written: path escapes from parent"}, lines); d != "" {
		t.Error(d)
	}
	if len(given.RefusedArtifacts) != 1 || given.Artifacts[0].Content == nil || o.failed != 5 || o.files() != "4 files in "+dir {
		t.Errorf("the result was changed: %+v; %d failed, %q", given, o.failed, o.files())
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "up")); !os.IsNotExist(err) {
		t.Errorf("a file outside: %v", err)
	}
}

// A file that does not fit is removed again; the next ones are written.
func TestOutNoRoom(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := opened(t, dir)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	got := o.take(&glovebox.Result{Artifacts: []api.Artifact{artifact("d/large", 0o644, strings.Repeat("x", 10_000)), artifact("fits", 0o644, strings.Repeat("y", 4096))}})
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"fits": "-rw-r--r-- " + strings.Repeat("y", 4096)}, tree(t, dir)); d != "" {
		t.Error(d)
	}
	if len(got.RefusedArtifacts) != 1 || got.RefusedArtifacts[0].Reason != "cannot be written: file too large" || o.failed != 1 || o.files() != "1 file in "+dir {
		t.Errorf("%+v, %d failed, %q", got.RefusedArtifacts, o.failed, o.files())
	}
}

// The umask holds, and a folder that is moved away during the run still gets the
// files: it is held, not looked up again.
func TestOutUmaskAndMove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	o := opened(t, dir)
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	was := unix.Umask(0o077)
	o.take(&glovebox.Result{Artifacts: []api.Artifact{artifact("f", 0o777, "x")}})
	unix.Umask(was)
	if d := cmp.Diff(map[string]string{"f": "-rwx------ x"}, tree(t, moved)); d != "" || len(tree(t, dir)) != 0 {
		t.Errorf("%s; in the other %v", d, tree(t, dir))
	}
}

// asUser makes a command one of an ordinary user without control groups, if this
// is root, and returns that user.
func asUser(p *process) int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64903, Gid: 64903}}
	return 64903
}

// Where an ordinary user may not write, he is told so before his program runs;
// and of a folder inside, when the files are written.
func TestOutReadOnly(t *testing.T) {
	dir := t.TempDir()
	reachable(t, dir)
	for _, name := range []string{"ro", "rw", "rw/sub"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ran := filepath.Join(dir, "ro")
	p := prepare(t, "run", "--sandbox", "auto", "--wall", "30s", "--artifact", "f", "--out", ran, "--", "sh", "-c", "echo ran; echo x >f")
	user := asUser(p)
	for name, mode := range map[string]os.FileMode{"ro": 0o555, "rw": 0o755, "rw/sub": 0o555} {
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, user, -1); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	p.Stdout = &out
	p.Dir = "/"
	p.begin(t).ends(t, exitUsage)
	if got, want := p.stderr.String(), "glovebox: --out "+ran+": permission denied\n"; got != want || out.Len() > 0 {
		t.Errorf("stderr %q, want %q; stdout %q", got, want, out.String())
	}

	p = prepare(t, "run", "--sandbox", "auto", "--wall", "30s", "--artifact", "f", "--artifact", "sub", "--out", filepath.Join(dir, "rw"), "--",
		"sh", "-c", "mkdir sub; echo x >f; echo x >sub/g")
	asUser(p)
	p.Dir = "/"
	p.begin(t).ends(t, exitFailed)
	if got, want := p.stderr.String(), "glovebox: artifact sub/g: cannot be written: permission denied\n"; !strings.HasSuffix(got, want) {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if d := cmp.Diff(map[string]string{"f": "-rw-r--r-- x\n"}, tree(t, filepath.Join(dir, "rw"))); d != "" {
		t.Error(d)
	}
}

// reachable lets everybody reach a folder of t.TempDir.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// A person is told where the files are, and no name is an order to the terminal.
func TestFilesOnTerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out\x1b]0;title\a")
	script := `printf 'x' >one; printf y >two; printf z >"$(printf 'a\033[2Jb')"; mkfifo pipe; printf 'no line end'`
	p, pty := terminal(t, 80, "run", "--wall", "30s", "--artifact", "*", "--out", dir, "--", "sh", "-c", script)
	p.ends(t, 0)
	shown := pty.Shown()
	head, tail, ok := strings.Cut(shown, "\nglovebox: ok after ")
	_, told, _ := strings.Cut(tail, "\n")
	want := "glovebox: artifact \"a\\x1b[2Jb\": its name has a control character\nglovebox: artifact pipe: is a FIFO\nglovebox: 2 files in " + strings.ReplaceAll(dir, "\x1b]0;title\a", "^[]0;title^G") + "\n"
	if !ok || head != "no line end" || told != want {
		t.Errorf("shown %q, want it to end in %q", shown, want)
	}
	p, pty = terminal(t, 80, "run", "--json", "--wall", "30s", "--artifact", "three", "--artifact", "none", "--out", dir, "--", "touch", "three")
	p.ends(t, 0)
	if got := pty.Shown(); !strings.HasSuffix(got, "}\nglovebox: artifact none: there is no such file\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("shown %q, want the object and what is missing", got)
	}
}

// What a compiler quotes of a hostile program reaches a terminal as text, and
// stays apart from what the program prints. The control: a pipe gets it as it is.
func TestCompilerOnTerminal(t *testing.T) {
	source := "#warning \x1b[2J\x1b]0;title\a \x1b[31mred\n#include <stdio.h>\nint main(void) { fputs(\"out\", stderr); return 0; }\n"
	path := filepath.Join(t.TempDir(), "main.c")
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	p, pty := terminal(t, 80, "run", "--wall", "30s", path)
	p.ends(t, 0)
	shown := pty.Shown()
	if !strings.Contains(shown, "warning: #warning ") || strings.Contains(shown, "\x1b]") || strings.Contains(shown, "\x1b[2J") || strings.Contains(shown, "\a") {
		t.Errorf("shown %q", shown)
	}
	if !strings.Contains(shown, "\x1b[31mred") || !strings.Contains(shown, "\x1b[0mout\nglovebox: ok after ") {
		t.Errorf("shown %q, want a colour that ends before the program's own words", shown)
	}
	p = prepare(t, "run", "--wall", "30s", path)
	p.begin(t).ends(t, 0)
	if got := p.stderr.String(); !strings.Contains(got, "\x1b]0;title\a") || !strings.HasSuffix(got, "\nout") {
		t.Errorf("a pipe gets %q", got)
	}
}

// Control-C ends a compiler as it ends a program; nothing is left of either, nor
// of the folder that was made for the files.
func TestControlCWhileCompiling(t *testing.T) {
	dir := t.TempDir()
	name := fmt.Sprintf("endless%d.c", os.Getpid())
	path, out := filepath.Join(dir, name), filepath.Join(dir, "out")
	text := fmt.Sprintf("#if __INCLUDE_LEVEL__ < 150\n#include %[1]q\n#include %[1]q\n#endif\n", name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, pty := terminal(t, 80, "run", "--compile-limit", "wall=60s", "--compile-limit", "cpu-time=60s", "--artifact", "*", "--out", out, path)
	for end := time.Now().Add(30 * time.Second); len(holding(t, name, "cc1")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the compiler does not run")
		}
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
	pty.Type(t, "\x03")
	p.ends(t, 130)
	if got, want := pty.Shown(), "glovebox: canceled: interrupted\n"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
	if left := holding(t, name, ""); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

// holding are the processes with a word in their arguments, of a program whose
// name ends so.
func holding(t *testing.T, word, program string) []int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range lines {
		text, _ := os.ReadFile(path) // of a process that is gone, nothing
		argv0, _, _ := strings.Cut(string(text), "\x00")
		if strings.Contains(string(text), word) && strings.HasSuffix(argv0, program) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, pid)
		}
	}
	return found
}

// A folder of the host can be read where it was asked for, at its own path by
// default, and not written.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	reachable(t, dir)
	sub := filepath.Join(dir, "data:set")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "f"), []byte("shown\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder, script string
		code           int
		stdout, stderr string
	}{
		{sub + ":/data/in", "cat /data/in/f; echo x >/data/in/f", 2, "shown\n", "Read-only file system\n"},
		{"data:set:/data/in", "cat /data/in/f", 0, "shown\n", ""},
		{sub, "true", exitUsage, "", "glovebox: --folder: " + sub + ": lies where a cell has files of its own\n"},
		{"/opt/none", "true", exitUsage, "", "glovebox: --folder: /opt/none: cannot be shown: lstat /opt/none: no such file or directory\n"},
		{"/proc:/data", "true", exitUsage, "", "glovebox: --folder: /proc: shows the kernel: proc is mounted at /proc\n"},
		{":/data", "true", exitUsage, "", "glovebox: --folder \":/data\": must be HOST or HOST:AT, where AT is an absolute path\n"},
		{"", "true", exitUsage, "", "glovebox: --folder \"\": must be HOST or HOST:AT, where AT is an absolute path\n"},
	} {
		p := prepare(t, "run", "--wall", "30s", "--folder", c.folder, "--", "sh", "-c", c.script)
		p.Dir = dir
		var out strings.Builder
		p.Stdout = &out
		p.begin(t).ends(t, c.code)
		if got := p.stderr.String(); out.String() != c.stdout || !strings.HasSuffix(got, c.stderr) || c.stderr == "" && got != "" {
			t.Errorf("%q: %q, stderr %q; want %q, %q", c.folder, out.String(), got, c.stdout, c.stderr)
		}
	}
}

func TestParseFolder(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string][2]string{
		"/a": {"/a", "/a"}, "/a/": {"/a", "/a"}, "/a:/b": {"/a", "/b"}, "/a:/b:/c": {"/a:/b", "/c"}, "/a:b": {"/a:b", "/a:b"}, "/a/b:c/d": {"/a/b:c/d", "/a/b:c/d"},
		"/a:": {"/a:", "/a:"}, ".": {here, here}, "x:/b": {here + "/x", "/b"}, "/a:/b/../c": {"/a", "/b/../c"}, "/a::/b": {"/a:", "/b"}, ":/b": {}, "": {},
	} {
		host, at, err := parseFolder(in)
		if host != want[0] || at != want[1] || (err != nil) != (want[0] == "") {
			t.Errorf("%q: %q at %q, %v; want %q", in, host, at, err, want)
		}
	}
}
