package glovebox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// On every kernel a compiler's product is read-only for the program, and artifacts
// come back through no link.
func TestKernelFiles(t *testing.T) {
	o := options()
	o.Sandbox = glovebox.Auto // an old kernel lacks Landlock
	o.Languages = []string{languageFile(t, `"name": "made", "run": ["{program}", "{out}/main.py"],
"compile": ["{program}", "-c", "import sys, shutil\nshutil.copy(sys.argv[1], sys.argv[2] + '/main.py')", "{sources}", "{out}"]`)}
	r := run(t, newBox(t, o), glovebox.Program{Language: "made", Artifacts: []string{"*"}, Source: `
import os
for what in [lambda: open("/prog/new", "w"), lambda: os.chmod("/prog/main.py", 0), lambda: os.unlink("/prog/main.py")]:
    try: what(); print("done")
    except OSError as e: print(e.strerror)
os.remove("main.x")
open("plain", "wb").write(b"bytes\xff")
os.symlink("/etc/passwd", "link"); os.mkfifo("fifo"); os.link("plain", "hard"); os.mkdir("folder"); open("folder/in", "w").write("deep")
`})
	if r.Verdict != api.OK || r.Stdout != "Read-only file system\nRead-only file system\nRead-only file system\n" {
		t.Errorf("%s %q %s %+v", r.Verdict, r.Stdout, r.Stderr, r.Compile)
	}
	if d := cmp.Diff(map[string]string{"folder/in": "deep"}, collected(t, r)); d != "" {
		t.Error(d)
	}
	want := map[string]string{"link": "is a symbolic link", "fifo": "is a FIFO", "hard": "has another name (a hard link)", "plain": "has another name (a hard link)"}
	if d := cmp.Diff(want, refusals(r)); d != "" {
		t.Error(d)
	}
}
