package cell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
)

// reserved are the names at the top of a cell's root that are its own.
var reserved = []string{"box", "tmp", "prog", "dev", "proc", "sys", "etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "warm"}

// kernelFS are file systems that show the kernel or its devices and not files.
var kernelFS = []string{"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf",
	"mqueue", "binfmt_misc", "configfs", "efivarfs", "fusectl", "pstore", "selinuxfs", "nsfs", "hugetlbfs", "rpc_pipefs",
	"resctrl", "nfsd", "xenfs", "binder", "smackfs", "cpuset", "ocfs2_dlmfs", "dax", "guestmemfd", "secretmem"}

// CheckFolders refuses folders that a cell cannot or must not show, by name. The
// error is a *api.FieldError.
func CheckFolders(folders []Folder) error {
	if len(folders) > 64 {
		return &api.FieldError{Field: "folders", Value: len(folders), Reason: "must be at most 64"}
	}
	for i, f := range folders {
		bad := func(value, reason string) error {
			return &api.FieldError{Field: fmt.Sprintf("folders[%d]", i), Value: value, Reason: reason}
		}
		if reason := badTarget(f.At, folders[:i]); reason != "" {
			return bad(f.At, reason)
		}
		if !filepath.IsAbs(f.Source) || filepath.Clean(f.Source) != f.Source {
			return bad(f.Source, "must be an absolute path without dots or doubled slashes")
		}
		real, err := filepath.EvalSymlinks(f.Source)
		if err != nil {
			return bad(f.Source, "cannot be shown: "+err.Error())
		}
		if real != f.Source {
			return bad(f.Source, "has a symbolic link in it; give "+real)
		}
		if st, err := os.Stat(real); err != nil || !st.IsDir() {
			return bad(f.Source, "is not a folder")
		}
		if err := files(real); err != nil {
			return bad(f.Source, err.Error())
		}
		if err := Reachable(real); err != nil {
			return bad(f.Source, err.Error())
		}
	}
	return nil
}

// Reachable wants a folder that the launcher can open. Root's has an id of its own
// and no capability outside, so that it is anybody.
func Reachable(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for dir := folder; ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if st.Mode()&0o001 == 0 {
			return fmt.Errorf("cannot be shown: %s is closed to other users (mode %#o), and root's cells are such; chmod o+x it", dir, st.Mode().Perm())
		}
		if dir == "/" {
			return nil
		}
	}
}

// badTarget is why a cell cannot show something at a path, "" if it can.
func badTarget(at string, before []Folder) string {
	top, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	switch {
	case !filepath.IsAbs(at) || filepath.Clean(at) != at || strings.ContainsAny(at, "\n\\"):
		return "must be an absolute path without dots, doubled slashes, backslashes or line ends"
	case at == "/":
		return "must not be the root"
	case slices.Contains(reserved, top) || strings.HasPrefix(top, "."):
		return "lies where a cell has files of its own"
	case slices.ContainsFunc(before, func(f Folder) bool { return beneath(at, f.At) || beneath(f.At, at) }):
		return "overlaps another folder"
	}
	return ""
}

func beneath(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// files wants a folder, and all that is mounted below it, to be of files.
func files(folder string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var on attest.Mount // what the folder lies on: of several mounts at one point, the last
	for line := range strings.Lines(string(text)) {
		m, err := attest.ParseMount(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		if beneath(folder, m.Point) && len(m.Point) >= len(on.Point) {
			on = m
		}
		if beneath(m.Point, folder) && slices.Contains(kernelFS, m.Type) {
			return fmt.Errorf("shows the kernel: %s is mounted at %s", m.Type, m.Point)
		}
	}
	if slices.Contains(kernelFS, on.Type) {
		return fmt.Errorf("shows the kernel: it lies on %s", on.Type)
	}
	return nil
}

// apart runs a job that sees folders of the host with a launcher of its own, so
// that they are in no other cell's root.
func (h *Host) apart(ctx context.Context, job *Job, s Streams) (*api.Result, error) {
	cfg := h.cfg
	cfg.Folders, cfg.Once, cfg.Armed, cfg.Reserve, cfg.MaxCells = slices.Concat(h.cfg.Folders, job.Folders), true, 0, 0, 1
	inner, err := Open(cfg)
	if err != nil {
		failed := &api.Result{Verdict: api.SetupFailed, Stage: "folders", Message: err.Error(), APIVersion: api.Version}
		s.finished(failed)
		return failed, nil
	}
	defer inner.Close()
	defer context.AfterFunc(h.ctx, func() { _ = inner.Close() })()
	alone := *job
	alone.Folders = nil
	r, err := inner.Run(ctx, &alone, s)
	if err != nil && h.ctx.Err() != nil {
		return nil, api.ErrClosed
	}
	return r, err
}
