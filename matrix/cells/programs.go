//go:build linux

package cells

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/matrix"
	"github.com/glovebox-dev/glovebox/redteam"
)

// module is the import path of Glovebox.
const module = "github.com/glovebox-dev/glovebox"

// compilers are C's, by architecture.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// testPackages are the packages of the test programs.
var testPackages = map[string]string{
	"root": module, "asuser": module + "/internal/testenv/asuser", "cgroup": module + "/internal/cgroup",
	"seccomp": module + "/internal/seccomp", "landlock": module + "/internal/landlock", "redteam": module + "/redteam",
}

// precompiled is the build tag under which the battery has its programs in C
// with it.
const precompiled = "-tags=redteam_precompiled"

// programs are the files that machines of an architecture get, by their name in
// /opt: all of them static, and none of this host's.
type programs map[string]string

// build compiles those that these steps need.
func build(ctx context.Context, arch string, steps []step, logf func(string, ...any)) (programs, error) {
	cache, err := matrix.CacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "attacks-"+arch)
	logf("%s: the attacks in C", arch)
	overlay, err := attacks(ctx, arch, dir)
	if err != nil {
		return nil, err
	}
	p := programs{"sweep": filepath.Join(dir, "sweep")}
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	if err := cc(ctx, arch, root, "testdata/sweep/sweep.c", p["sweep"]); err != nil {
		return nil, err
	}
	logf("%s: the programs and tests", arch)
	for _, name := range []string{"glovebox", "glovebox-init"} {
		if p[name], err = matrix.BuildStatic(ctx, module+"/cmd/"+name, arch, precompiled, overlay); err != nil {
			return nil, err
		}
	}
	if p["asuser"], err = matrix.BuildStatic(ctx, testPackages["asuser"], arch); err != nil {
		return nil, err
	}
	for name, pkg := range testPackages {
		if !needed(name+".test", steps) {
			continue
		}
		var flags []string
		if name == "redteam" {
			flags = []string{precompiled, overlay}
		}
		if p[name+".test"], err = matrix.BuildTest(ctx, pkg, arch, flags...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// moduleRoot is the folder of the sources.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// attacks compiles the battery's programs in C into dir and returns the flag
// that lays them, packed, over the sources for the go command: the sources
// themselves stay as they are.
func attacks(ctx context.Context, arch, dir string) (string, error) {
	sources, err := redteam.Sources()
	if err != nil {
		return "", err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, s := range sources {
		if s.Arch != "" && s.Arch != arch {
			continue
		}
		packed := filepath.Join(dir, s.Name+".gz")
		if err := precompile(ctx, arch, s, packed); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, "redteam", redteam.PrecompiledFolder, s.Name+".gz")] = packed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return "-overlay=" + file, os.WriteFile(file, text, 0o644)
}

// precompile compiles one program, unless that was done before: its name is a
// digest of its text.
func precompile(ctx context.Context, arch string, s redteam.Source, packed string) (err error) {
	if _, err := os.Stat(packed); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(packed), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(packed), s.Name+".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for name, data := range s.Files {
		if err := os.WriteFile(filepath.Join(tmp, filepath.Base(name)), data, 0o644); err != nil {
			return err
		}
	}
	if err := cc(ctx, arch, tmp, s.Entry, filepath.Join(tmp, "prog")); err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(tmp, "prog"))
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(tmp, "prog.gz"))
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(program)
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), packed)
}

// cc compiles a program in C statically, with the flags of the battery's own
// compile step.
func cc(ctx context.Context, arch, dir, entry, out string) error {
	args := []string{"-std=gnu17", "-O1", "-w", "-pipe", "-pthread", "-static", "-s", "-I.", "-o", out, "./" + entry, "-lrt"}
	cmd := exec.CommandContext(ctx, compilers[arch], args...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %.500s", compilers[arch], entry, err, text)
	}
	return nil
}
