package cell

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// renewed is a host whose cells show one file that is going to be replaced.
type renewed struct {
	*testing.T
	h    *Host
	file string
}

func newRenewed(t *testing.T) *renewed {
	dir, err := os.MkdirTemp("/var/tmp", "glovebox-renew-") // not /tmp, which is a cell's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := &renewed{T: t, file: filepath.Join(dir, "library")}
	r.replace("old")
	r.h, err = Open(Config{Mode: Require, InitPath: testenv.Init(), Armed: 2, Reserve: 2, MaxCells: 4, MaxWaiting: 100, Paths: []string{r.file},
		Max: api.MaxLimits(runtime.NumCPU(), 8<<30)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.h.Close() })
	return r
}

// replace does what an update does.
func (r *renewed) replace(text string) {
	r.Helper()
	if err := os.WriteFile(r.file+".new", []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
	if err := os.Rename(r.file+".new", r.file); err != nil {
		r.Fatal(err)
	}
}

func (r *renewed) job(argv ...string) *Job {
	return &Job{Profile: DefaultProfile, Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Limits: api.DefaultLimits()}
}

// seen is the file as a run sees it.
func (r *renewed) seen() string {
	r.Helper()
	res, err := r.h.Run(context.Background(), r.job("cat", r.file), Streams{})
	if err != nil || res.Verdict != api.OK {
		r.Fatalf("%v: %+v", err, res)
	}
	return res.Stdout
}

// long starts a run that reads the file when release is called; it returns once it
// runs.
func (r *renewed) long() (end <-chan *api.Result, release func()) {
	r.Helper()
	ends, up := make(chan *api.Result, 1), make(chan struct{})
	reader, writer, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	go func() {
		defer reader.Close()
		res, _ := r.h.Run(context.Background(), r.job("sh", "-c", "echo up; read x; cat "+r.file), Streams{Stdin: reader, Event: func(e api.Event) {
			if strings.HasPrefix(e.Data, "up") {
				close(up)
			}
		}})
		ends <- res
	}()
	<-up
	return ends, func() { writer.Close() }
}

// A file of the host that cells show and that was replaced, as an update does, is
// never shown to a later run as it was: idle cells go, running ones end in peace,
// and the former launcher ends with its last cell.
//
// proves part of H-31 H-21
func TestReplacedFile(t *testing.T) {
	r := newRenewed(t)
	if got := r.seen(); got != "old" {
		t.Fatalf("%q", got)
	}
	r.h.launching.Lock()
	former := r.h.launcher
	r.h.launching.Unlock()
	end, release := r.long()
	r.replace("new")
	last := ""
	for stop := time.Now().Add(20 * time.Second); last != "new" && time.Now().Before(stop); {
		last = r.seen()
	}
	for range 4 { // none of the idle cells shows the old one
		if got := r.seen(); got != "new" {
			t.Errorf("%q", got)
		}
	}
	if former.ended() {
		t.Error("the former launcher ended before its last cell")
	}
	release()
	if res := <-end; res == nil || res.Verdict != api.OK || res.Stdout != "up\nold" {
		t.Errorf("the one that ran on: %+v", res)
	}
	select {
	case <-former.dead:
	case <-time.After(20 * time.Second):
		t.Error("the former launcher lives on")
	}
}

// A file of the host that goes away while a launcher is about to show it, or before
// a kind of cell is made for the first time, keeps nobody's program from running.
//
// proves part of H-31
func TestFileGoes(t *testing.T) {
	r := newRenewed(t)
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	r.h.launching.Lock()
	plan := r.h.launcher.plan
	r.h.launching.Unlock()
	plan.mu.Lock()
	plan.looked = time.Now() // the host is not looked at again just now
	plan.mu.Unlock()
	job := r.job("true")
	job.Loopback = true
	if res, err := r.h.Run(t.Context(), job, Streams{}); err != nil || res.Verdict != api.OK {
		t.Errorf("a new kind: %v %+v", err, res)
	}
	r.replace("again")
	h, err := Open(Config{Mode: Require, InitPath: testenv.Init(), MaxCells: 1, Paths: []string{r.file}, Max: api.MaxLimits(runtime.NumCPU(), 8<<30),
		patience: armTimeout, start: func(init *os.File, ids *idRange, env []string) (*launcher, error) {
			_ = os.Remove(r.file) // after the plan, before the root
			return startLauncher(init, ids, env)
		}})
	if err != nil {
		t.Fatalf("a new launcher: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// A link that a pattern names is shown as a link, and leads to what is shown; what
// lies behind a link has a name of its own.
func TestPlanLinks(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "glovebox-links-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"python3": "python3.11", "out": "/etc/shadow", "folder": "real"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"python3.11", "real/file"} {
		if err := os.WriteFile(at(f), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, o := range newPlan([]string{at("python3*"), at("out"), at("folder/*"), at("python3")}, nil).ops {
		if strings.HasPrefix("/"+o.Path, dir+"/") {
			got[strings.TrimPrefix("/"+o.Path, dir+"/")] = map[bool]string{true: "link to ", false: "as "}[o.Kind == cellproto.OpSymlink] + o.Source
		}
	}
	want := map[string]string{"python3.11": "as " + at("python3.11"), "python3": "link to python3.11", "out": "link to /etc/shadow"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A language that names a file which cells have of their own gets that one.
func TestPlanMadeUp(t *testing.T) {
	made := []string{"/etc/localtime", "/etc/hosts", "/etc/passwd", "/etc/group", "/etc/hostname", "/etc/timezone", "/etc/nsswitch.conf"}
	seen := map[string]int{}
	for _, o := range newPlan(made, nil).ops {
		if o.Kind != cellproto.OpDir {
			seen["/"+o.Path]++
		}
		if o.Kind == cellproto.OpBind && strings.HasPrefix(o.Path, "etc/") && seen["/"+o.Path] > 1 {
			t.Errorf("/%s is the host's", o.Path)
		}
	}
	for _, path := range made {
		if seen[path] != 1 {
			t.Errorf("%s is there %d times", path, seen[path])
		}
	}
	h, err := Open(Config{Mode: Require, InitPath: testenv.Init(), MaxCells: 1, Paths: made, Max: api.MaxLimits(runtime.NumCPU(), 8<<30)})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
