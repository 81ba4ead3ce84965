package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// outDir is the folder of --out. It is held open from before the run, so that
// the files go where it was then. Nothing is written outside of it, whatever
// links lie in it, and nothing that is there already is changed.
type outDir struct {
	path string
	root *os.Root
	made bool // it was not there before

	written, failed int // files
}

// checkArtifacts refuses --artifact and --out that cannot be meant, and takes
// from a pattern the slash of a folder and the dot of the working directory.
func (f *runFlags) checkArtifacts() error {
	for i, pattern := range f.artifacts {
		f.artifacts[i] = strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/")
		if err := api.CheckPattern(f.artifacts[i]); err != nil {
			return usagef("--artifact %q: %s", pattern, err)
		}
	}
	switch {
	case f.given("out") && len(f.artifacts) == 0:
		return usagef("--out: says where files go; name them with --artifact")
	case f.given("out") && f.out == "":
		return usagef("--out: is empty")
	case len(f.artifacts) > 0 && !f.given("out") && f.json == "":
		return usagef("--artifact: give the folder for the files with --out, or --json to get them with the result")
	}
	return nil
}

// openOut opens the folder of --out, or makes it; nil without the flag.
func (f *runFlags) openOut() (*outDir, error) {
	if !f.given("out") {
		return nil, nil
	}
	o := &outDir{path: f.out}
	err := o.open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(f.out, 0o755); err == nil {
			o.made = true
			err = o.open()
		}
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, f.out, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		o.close()
		return nil, usagef("--out %s: %s", f.out, cause(err))
	}
	return o, nil
}

// open opens the folder. The dot makes what is no folder an error at once, where
// a FIFO would otherwise be waited for.
func (o *outDir) open() (err error) {
	o.root, err = os.OpenRoot(o.path + "/.")
	return err
}

// close lets go of the folder. One that was made and stayed empty is removed.
func (o *outDir) close() {
	if o == nil {
		return
	}
	if o.root != nil {
		o.root.Close()
	}
	if o.made && o.written == 0 {
		_ = unix.Rmdir(o.path) // fails if there is something in it
	}
}

// take writes the files of a result and returns the result without their
// content. A file that could not be written is among the refused ones then.
func (o *outDir) take(r *glovebox.Result) *glovebox.Result {
	out := *r
	out.Artifacts, out.RefusedArtifacts = nil, slices.Clone(r.RefusedArtifacts)
	for _, a := range r.Artifacts {
		if err := o.write(a); err != nil {
			o.failed++
			out.RefusedArtifacts = append(out.RefusedArtifacts, api.RefusedArtifact{Name: a.Name, Reason: "cannot be written: " + cause(err)})
			continue
		}
		o.written++
		a.Content = nil
		out.Artifacts = append(out.Artifacts, a)
	}
	return &out
}

// write makes the file of an artifact, with its permission bits less those of the
// umask. What was begun and could not be finished is removed.
func (o *outDir) write(a api.Artifact) error {
	if dir := path.Dir(a.Name); dir != "." {
		switch err := o.root.MkdirAll(dir, 0o755); {
		case errors.Is(err, fs.ErrExist): // and is no folder
			return unix.ENOTDIR
		case err != nil:
			return err
		}
	}
	f, err := o.root.OpenFile(a.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(a.Mode)&fs.ModePerm)
	if err != nil {
		return err
	}
	_, err = f.Write(a.Content)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = o.root.Remove(a.Name)
	}
	return err
}

// files is how many files were written and where, "" for none.
func (o *outDir) files() string {
	switch {
	case o == nil || o.written == 0:
		return ""
	case o.written == 1:
		return "1 file in " + o.path
	}
	return fmt.Sprintf("%d files in %s", o.written, o.path)
}
