//go:build linux

package matrix

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Userlands are the Debian releases that FetchUserland knows, oldest first.
func Userlands() []string { return []string{"bullseye", "bookworm", "trixie"} }

// base are the packages that every userland has.
var base = []string{"base-files", "bash", "coreutils", "dash", "libc-bin", "mount", "util-linux"}

// ballast are folders that no program under test reads.
var ballast = []string{"usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian"}

// FetchUserland returns a folder with the files of a Debian release: a shell,
// the usual tools, and these packages with what they depend on. The packages
// are unpacked and not configured, so there is nothing that only their
// installation would make, such as accounts or alternatives.
//
//	dir, err := matrix.FetchUserland(ctx, "bullseye", "amd64", "python3-minimal")
//	err = tree.AddTree(dir, "/") // as the machine's root, or elsewhere in it
func FetchUserland(ctx context.Context, release, arch string, packages ...string) (string, error) {
	if !slices.Contains(Userlands(), release) {
		return "", fmt.Errorf("userland %q is unknown: there are %s", release, strings.Join(Userlands(), ", "))
	}
	if err := knownArch(arch); err != nil {
		return "", err
	}
	all := slices.Concat(base, packages)
	slices.Sort(all)
	all = slices.Compact(all)
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	dir := filepath.Join(cache, "userland", fmt.Sprintf("%s-%x%s", release, sum[:6], suffix(arch)))
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	m, err := findMirrors()
	if err == nil {
		err = unpackUserland(ctx, dir, release, arch, all, m)
	}
	if err != nil {
		return "", fmt.Errorf("userland %s is not available: %w", release, err)
	}
	return dir, nil
}

// unpackUserland makes dir from packages.
func unpackUserland(ctx context.Context, dir, release, arch string, packages []string, m mirrors) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), release+".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	a, err := newAPT(filepath.Join(tmp, "apt"), m.main, release, arch)
	if err != nil {
		return err
	}
	if _, err := a.run(ctx, tmp, "apt-get", "update"); err != nil {
		return err
	}
	options := []string{
		"-y", "--download-only", "--no-install-recommends", "-o", "APT::Keep-Downloaded-Packages=true", "install",
	}
	if _, err := a.run(ctx, tmp, "apt-get", append(options, packages...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(a.dir, "cache", "archives", "*.deb"))
	if err != nil || len(debs) < len(packages) {
		return fmt.Errorf("%d packages were downloaded for %d", len(debs), len(packages))
	}
	root := filepath.Join(tmp, "root")
	for _, deb := range debs {
		// One folder for each: a package may have a folder where another
		// has a symbolic link.
		part := filepath.Join(tmp, "part")
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, part).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb: %w: %s", err, lastLines(string(out), 4))
		}
		if err := merge(part, root); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(deb), err)
		}
	}
	for _, b := range ballast {
		if err := os.RemoveAll(filepath.Join(root, b)); err != nil {
			return err
		}
	}
	for _, d := range merged {
		if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil {
			return err
		}
	}
	sh := filepath.Join(root, "usr/bin/sh")
	if _, err := os.Lstat(sh); err != nil {
		if err := os.Symlink("dash", sh); err != nil {
			return err
		}
	}
	return os.Rename(root, dir)
}

// merge moves the files of an unpacked package into root, where the folders
// that lead into /usr are there already.
func merge(part, root string) error {
	err := filepath.WalkDir(part, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(part, p)
		if err != nil {
			return err
		}
		to := filepath.Join(root, place(rel))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		if slices.Contains(merged, rel) {
			return nil // the link itself
		}
		return os.Rename(p, to)
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(part)
}
