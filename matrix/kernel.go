//go:build linux

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CacheVariable is the environment variable that moves the cache of kernels,
// which else is .cache/matrix in the checkout.
const CacheVariable = "GLOVEBOX_MATRIX_CACHE"

// Architectures are those that machines can have, as Go and Debian name them.
func Architectures() []string { return []string{"amd64", "arm64"} }

// metapackage depends on the newest kernel of a suite, in the variant for
// virtual machines, which has fewer drivers and boots sooner.
const metapackage = "linux-image-cloud-"

// Kernel is a kernel that can be booted.
type Kernel struct {
	Name    string // as asked for: "5.10", "6.1" or "6.12"
	Arch    string // of Architectures
	Image   string // path of the boot image
	Modules string // folder of its modules
	Release string // what uname -r says in it
	Package string // package and version that it came from
}

// suites are the places that have a kernel series, the best one first.
var suites = map[string][]string{
	"5.10": {"bullseye-security", "bullseye"},
	"6.1":  {"bookworm", "bookworm-security"},
	"6.12": {"trixie", "trixie-security", "bookworm-backports"},
}

// Names are the kernels that Fetch knows, oldest first.
func Names() []string { return []string{"5.10", "6.1", "6.12"} }

// ErrUnavailable is in the error of a kernel that no reachable suite has.
var ErrUnavailable = errors.New("kernel is not available")

// CacheDir is where kernels and the guest program are kept.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".cache", "matrix"), nil
}

// moduleRoot is the folder with go.mod at or above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod at or above the working folder")
		}
		dir = up
	}
}

// Fetch returns the kernel of that series and architecture from the cache, or
// gets it from the Debian mirror of this machine. When no suite gives it the
// error is ErrUnavailable with what every suite answered.
func Fetch(ctx context.Context, name, arch string) (Kernel, error) {
	if _, ok := suites[name]; !ok {
		return Kernel{}, fmt.Errorf("kernel %q is unknown: there are %s", name, strings.Join(Names(), ", "))
	}
	if err := knownArch(arch); err != nil {
		return Kernel{}, err
	}
	cache, err := CacheDir()
	if err != nil {
		return Kernel{}, err
	}
	dir := filepath.Join(cache, name+suffix(arch))
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	if k, err := loadKernel(dir); err == nil {
		return k, nil
	}
	m, err := findMirrors()
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel %s: %w: %w", name, ErrUnavailable, err)
	}
	return fetchNew(ctx, dir, name, arch, m)
}

// fetchNew gets a kernel from the first suite that has it.
func fetchNew(ctx context.Context, dir, name, arch string, m mirrors) (Kernel, error) {
	var tried []error
	for _, suite := range suites[name] {
		k, err := fetchFrom(ctx, dir, name, arch, suite, m)
		if err == nil {
			return k, nil
		}
		tried = append(tried, fmt.Errorf("%s: %w", suite, err))
		if ctx.Err() != nil {
			break
		}
	}
	return Kernel{}, fmt.Errorf("kernel %s: %w: %w", name, ErrUnavailable, errors.Join(tried...))
}

// fetchFrom unpacks the kernel of one suite into dir.
func fetchFrom(ctx context.Context, dir, name, arch, suite string, m mirrors) (Kernel, error) {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), name+".new-")
	if err != nil {
		return Kernel{}, err
	}
	defer os.RemoveAll(tmp)
	src := m.main
	if strings.HasSuffix(suite, "-security") {
		src = m.security
	}
	a, err := newAPT(filepath.Join(tmp, "apt"), src, suite, arch)
	if err != nil {
		return Kernel{}, err
	}
	if _, err := a.run(ctx, tmp, "apt-get", "update"); err != nil {
		return Kernel{}, err
	}
	pkg, err := a.imageOf(ctx, metapackage+arch)
	if err != nil {
		return Kernel{}, err
	}
	if !strings.HasPrefix(pkg, "linux-image-"+name+".") {
		return Kernel{}, fmt.Errorf("the suite has %s", pkg)
	}
	if _, err := a.run(ctx, tmp, "apt-get", "download", pkg); err != nil {
		return Kernel{}, err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return Kernel{}, fmt.Errorf("%d packages were downloaded instead of 1", len(debs))
	}
	root := filepath.Join(tmp, "root")
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", debs[0], root).CombinedOutput(); err != nil {
		return Kernel{}, fmt.Errorf("dpkg-deb: %w: %s", err, lastLines(string(out), 4))
	}
	return install(dir, root, name, arch, strings.TrimSuffix(filepath.Base(debs[0]), ".deb"))
}

// install moves an unpacked kernel package to dir and describes it there.
func install(dir, root, name, arch, pkg string) (Kernel, error) {
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return Kernel{}, fmt.Errorf("%s has %d boot images instead of 1", pkg, len(images))
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	modules := ""
	for _, m := range []string{"lib/modules", "usr/lib/modules"} {
		if _, err := os.Stat(filepath.Join(root, m, release)); err == nil {
			modules = filepath.Join(m, release)
		}
	}
	if modules == "" {
		return Kernel{}, fmt.Errorf("%s has no modules", pkg)
	}
	k := Kernel{Name: name, Arch: arch, Image: filepath.Join("boot", filepath.Base(images[0])), Modules: modules, Release: release, Package: pkg}
	if err := bootable(filepath.Join(root, k.Image)); err != nil {
		return Kernel{}, fmt.Errorf("%s: %w", pkg, err)
	}
	text, err := json.MarshalIndent(k, "", "\t")
	if err != nil {
		return Kernel{}, err
	}
	if err := os.WriteFile(filepath.Join(root, kernelFile), text, 0o644); err != nil {
		return Kernel{}, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return Kernel{}, err
	}
	if err := os.Rename(root, dir); err != nil {
		return Kernel{}, err
	}
	return loadKernel(dir)
}

// kernelFile describes a kernel in its cache folder, with relative paths.
const kernelFile = "kernel.json"

// loadKernel reads a kernel from its cache folder.
func loadKernel(dir string) (Kernel, error) {
	text, err := os.ReadFile(filepath.Join(dir, kernelFile))
	if err != nil {
		return Kernel{}, err
	}
	var k Kernel
	if err := json.Unmarshal(text, &k); err != nil {
		return Kernel{}, err
	}
	if k.Arch == "" {
		k.Arch = "amd64" // kept before there were others
	}
	k.Image, k.Modules = filepath.Join(dir, k.Image), filepath.Join(dir, k.Modules)
	for _, p := range []string{k.Image, k.Modules} {
		if _, err := os.Stat(p); err != nil {
			return Kernel{}, err
		}
	}
	return k, nil
}

// lock takes an advisory lock, so that packages tested at the same time fetch
// a kernel once. It waits no longer than ctx.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !slices.Contains([]error{unix.EWOULDBLOCK, unix.EINTR}, err) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
