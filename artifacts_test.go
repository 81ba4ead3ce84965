package glovebox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// collected are the names and contents of a result's artifacts; every one must
// carry its own size and digest.
func collected(t testing.TB, r *glovebox.Result) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range r.Artifacts {
		sum := sha256.Sum256(a.Content)
		if a.Size != int64(len(a.Content)) || a.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: size %d, sha256 %s of %d bytes", a.Name, a.Size, a.SHA256, len(a.Content))
		}
		out[a.Name] = string(a.Content)
	}
	return out
}

// refusals are the names and reasons of what was not given.
func refusals(r *glovebox.Result) map[string]string {
	out := map[string]string{}
	for _, a := range r.RefusedArtifacts {
		out[a.Name] = a.Reason
	}
	return out
}

// shell makes a program of a script that asks for artifacts.
func shell(script string, patterns ...string) glovebox.Program {
	return glovebox.Program{Language: "bash", Source: script, Artifacts: patterns}
}

// Files come back as they were: directories, bytes that are no text, modes, the
// empty file, in order of their names; whatever the exit status.
func TestArtifacts(t *testing.T) {
	r := run(t, box(t), shell(`mkdir -p out/deep/er; printf 'a\0\377' >out/bin; printf x >out/deep/er/x; chmod 755 out/deep/er/x
: >empty; printf no >other; printf 1 >a.txt; printf 2 >b.txt; exit 3`, "out", "empty", "*.txt"))
	if r.Verdict != api.Error || *r.ExitCode != 3 || len(r.RefusedArtifacts) != 0 {
		t.Fatalf("%s, refused %v", r.Verdict, r.RefusedArtifacts)
	}
	want := map[string]string{"out/bin": "a\x00\xff", "out/deep/er/x": "x", "empty": "", "a.txt": "1", "b.txt": "2"}
	if d := cmp.Diff(want, collected(t, r)); d != "" {
		t.Error(d)
	}
	var names []string
	modes := map[string]uint32{}
	for _, a := range r.Artifacts {
		names, modes[a.Name] = append(names, a.Name), a.Mode
	}
	if !slices.IsSorted(names) || modes["out/deep/er/x"] != 0o755 || modes["a.txt"] != 0o644 {
		t.Errorf("order %v, modes %v", names, modes)
	}
	if r := run(t, box(t), shell("echo hi >f", "f", "missing", "no/*")); refusals(r)["missing"] != "there is no such file" || refusals(r)["no/*"] != "there is no such file" || len(r.Artifacts) != 1 {
		t.Errorf("missing: %+v", r.RefusedArtifacts)
	}
	// Nothing is given back of a program that did not exit.
	p := shell("echo hi >f; sleep 60", "f")
	p.Limits.WallMS = 300
	if r := run(t, box(t), p); r.Verdict != api.Timeout || len(r.Artifacts)+len(r.RefusedArtifacts) != 0 {
		t.Errorf("timeout: %s, %d artifacts", r.Verdict, len(r.Artifacts))
	}
}

// What is no plain file of the cell's own disk is refused, named, and the rest
// comes.
//
// proves H-4
func TestArtifactsRefused(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	secret := "canary-" + t.Name()
	if err := os.WriteFile(canary, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(canary), 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`ln -s %[1]s final; ln -s /etc/passwd passwd; ln -s %[2]s hop; ln -s .. up; mkdir d; ln -s / d/root
mkfifo pipe; echo one >one; ln one two; echo real >real; mkdir -p locked; echo l >locked/f; chmod 0 locked; echo u >unread; chmod 0 unread
mkdir swap; echo s >swap/f; (sleep 0.05; while :; do rm -rf swap; ln -s %[2]s swap; rm swap; mkdir swap; echo s >swap/f; done) >/dev/null 2>&1 &
disown; sleep 0.2; truncate -s 1T sparse || truncate -s 60M sparse`, canary, filepath.Dir(canary))
	p := shell(script, "*", "hop/canary", "up/etc/passwd", "d/root/etc/passwd", "swap/*")
	p.Limits.FileBytes = 50 << 20
	r := run(t, box(t), p)
	got := collected(t, r)
	for name, text := range got {
		if strings.Contains(text, secret) || strings.Contains(text, "root:") {
			t.Errorf("%s holds a file of the host: %q", name, text)
		}
	}
	want := map[string]string{
		"final": "is a symbolic link", "passwd": "is a symbolic link", "hop": "is a symbolic link", "up": "is a symbolic link",
		"d/root": "is a symbolic link", "pipe": "is a FIFO", "one": "has another name (a hard link)", "two": "has another name (a hard link)",
		"locked": "permission denied", "unread": "permission denied",
		"hop/canary": "there is no such file", "up/etc/passwd": "there is no such file", "d/root/etc/passwd": "there is no such file",
	}
	refused := refusals(r)
	for name, reason := range want {
		if refused[name] != reason {
			t.Errorf("%s: %q, want %q", name, refused[name], reason)
		}
	}
	if got["real"] != "real\n" || got["main.sh"] == "" {
		t.Errorf("the rest: %v, refused %v", slices.Collect(maps.Keys(got)), refused)
	}
}

// What no pattern names is not spoken of, though a folder in its place could have
// held something; a link could lead to one, and is.
func TestArtifactsUnnamedIsQuiet(t *testing.T) {
	r := run(t, box(t), shell("mkfifo pipe; echo x >f; ln f g; mkdir d; echo y >d/y.png; mkfifo d/pipe; ln -s d e", "**/*.png", "d/*/z", "pipe/*"))
	want := map[string]string{"e": "is a symbolic link", "d/*/z": "there is no such file", "pipe/*": "there is no such file"}
	if d := cmp.Diff(want, refusals(r)); d != "" || collected(t, r)["d/y.png"] != "y\n" {
		t.Error(d, collected(t, r))
	}
}

// A collector that opens what a name leads to gives back what it must not.
func TestArtifactsLinksControl(t *testing.T) {
	r := run(t, without(t, "links"), shell("ln -s /etc/passwd passwd", "passwd"))
	if got := collected(t, r)["passwd"]; !strings.Contains(got, "root:") {
		t.Errorf("the link was not followed: %q, %v", got, r.RefusedArtifacts)
	}
}

// Names that would mean something to a terminal, a shell or another system do not
// cross; they are told in a form that does no harm.
func TestArtifactsNames(t *testing.T) {
	r := run(t, box(t), glovebox.Program{Language: "python", Artifacts: []string{"**"}, Source: `
import os
os.mkdir(b"o"); os.mkdir(b"bad\ndir")
for n in [b"new\nline", b"\xff\xfe", b"-rf", b"@resp", "a\u202egpj.exe".encode(), b"back\\slash", b"esc\x1b[2J", b"o/fine", b"bad\ndir/f", "ünïcode".encode(), b"with space"]:
    open(n, "w").write("x")
os.remove("main.py")
`})
	if d := cmp.Diff(map[string]string{"o/fine": "x", "ünïcode": "x", "with space": "x"}, collected(t, r)); d != "" {
		t.Error(d)
	}
	want := map[string]string{
		`"new\nline"`: "its name has a control character", `"\xff\xfe"`: "its name is not UTF-8", `"-rf"`: "its name has a part that begins with - or @",
		`"@resp"`: "its name has a part that begins with - or @", `"a\u202egpj.exe"`: "its name has a character that turns the direction of writing",
		`"back\\slash"`: "its name has a backslash", `"esc\x1b[2J"`: "its name has a control character", `"bad\ndir"`: "its name has a control character",
	}
	if d := cmp.Diff(want, refusals(r)); d != "" {
		t.Error(d)
	}
}

// More than anyone can want ends at its bound, in time, and says so.
func TestArtifactsBounds(t *testing.T) {
	p := glovebox.Program{Language: "python", Artifacts: []string{"d/*", "e/**", "big"}, Limits: glovebox.Limits{DiskFiles: 100_000, FileBytes: 4 << 30, DiskBytes: 1 << 30, MemoryBytes: 1 << 30}, Source: `
import os
os.mkdir("d")
for i in range(1200): open(f"d/{i:04}", "w").write("x")
os.truncate(os.open("big", os.O_CREAT|os.O_RDWR), 3 << 30)
path = "e"
for i in range(20):
    os.mkdir(path); path += "/n"
`}
	r := run(t, box(t), p)
	if len(r.Artifacts) != api.MaxArtifacts || len(r.RefusedArtifacts) != 101 {
		t.Errorf("%d artifacts, %d refused", len(r.Artifacts), len(r.RefusedArtifacts))
	}
	if got := refusals(r)["d/1000"]; got != "there are more than 1000 files" {
		t.Errorf("d/1000: %q", got)
	}
	p.Artifacts = []string{"big", "e/**"}
	got := refusals(run(t, box(t), p))
	deep := "e" + strings.Repeat("/n", 15)
	if got["big"] != fmt.Sprintf("has more than %d bytes", api.MaxArtifactBytes) || got[deep] != "lies deeper than 16 directories" {
		t.Errorf("%v", got)
	}

	many := glovebox.Program{Language: "python", Artifacts: []string{"z", "**/zz"}, Limits: glovebox.Limits{DiskFiles: 200_000, MemoryBytes: 1 << 30, CPUMS: 60_000, WallMS: 60_000},
		Source: "open('a','w')\nfor i in range(150_000): open('f'+str(i),'w').close()\n"}
	begin := time.Now()
	r = run(t, box(t), many)
	if reason := refusals(r)["."]; !strings.HasPrefix(reason, "there are more than 20000 entries") {
		t.Errorf("150,000 names: %v", r.RefusedArtifacts)
	}
	if after := time.Since(begin) - time.Duration(r.WallMS)*time.Millisecond; after > 10*time.Second {
		t.Errorf("settled %v after the program", after)
	}
}

// However few descriptors a program may have, its files come back from any depth.
func TestArtifactsFewDescriptors(t *testing.T) {
	deep := strings.Repeat("d/", 15)
	p := shell("mkdir -p "+deep+"; echo x >"+deep+"f; mkdir -p e/closed e/open; echo y >e/open/f; chmod 0 e/closed", "d/**", "e/**")
	p.Limits.OpenFiles = 16
	r := run(t, box(t), p)
	if d := cmp.Diff(map[string]string{deep + "f": "x\n", "e/open/f": "y\n"}, collected(t, r)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"e/closed": "permission denied"}, refusals(r)); d != "" {
		t.Error(d)
	}
}

// The patterns are checked by name.
func TestArtifactsPatterns(t *testing.T) {
	for pattern, reason := range map[string]string{
		"": "is empty", "/etc/passwd": "must be relative", "../x": "has a part that is a dot or two", "a/[": "has a bracket that does not end", "a//b": "has an empty part",
	} {
		_, err := box(t).Run(context.Background(), shell("true", "ok", pattern))
		fe, ok := err.(*glovebox.FieldError)
		if !ok || fe.Field != "artifacts[1]" || fe.Reason != reason {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	_, err := box(t).Run(context.Background(), shell("true", slices.Repeat([]string{"a"}, 101)...))
	if fe, ok := err.(*glovebox.FieldError); !ok || fe.Field != "artifacts" {
		t.Error(err)
	}
}

// What looking for files costs is not the program's: one that is within its
// limits stays so, however dear its patterns are.
func TestCollectingIsNotCounted(t *testing.T) {
	dear := "*" + strings.Repeat("a", 120) + "b*"
	p := glovebox.Program{Limits: glovebox.Limits{CPUMS: 250},
		Command: []string{"/usr/bin/perl", "-e", `for (1..16) { mkdir "a" x 250 . "b"; chdir "a" x 250 . "b"; open F, ">", $_ for "aa".."ad"; close F }`}}
	for range api.MaxPatterns {
		p.Artifacts = append(p.Artifacts, strings.TrimSuffix(strings.Repeat("**/"+dear+"/", 8), "/"))
	}
	r := run(t, box(t), p)
	if r.Verdict != api.OK || r.CPUMS == nil || *r.CPUMS >= 250 {
		t.Errorf("%s %s, %v ms, refused %d", r.Verdict, r.Cause, *r.CPUMS, len(r.RefusedArtifacts))
	}
}
