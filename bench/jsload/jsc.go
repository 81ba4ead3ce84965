package jsload

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// JSC is JavaScriptCore's command-line program.
type JSC struct {
	Path      string
	Version   string // of its Debian package, "" if unknown
	libraries string // where its library lies, "" for where the loader looks
}

// packages are those that have the program, in different releases of Debian.
var packages = []string{"libjavascriptcoregtk-6.0-bin", "libjavascriptcoregtk-4.1-bin", "libjavascriptcoregtk-4.0-bin", "libjavascriptcoregtk-bin"}

// FindJSC is the program as it is installed, or else Debian's, unpacked below a
// folder and not installed.
func FindJSC(ctx context.Context, cache string) (JSC, error) {
	if path, err := exec.LookPath("jsc"); err == nil {
		return JSC{Path: path}, nil
	}
	for _, pattern := range []string{"/usr/lib/*/javascriptcoregtk-*/jsc", "/usr/libexec/javascriptcoregtk-*/jsc", "/usr/lib/*/webkit*/jsc"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return JSC{Path: found[0]}, nil
		}
	}
	dir, err := filepath.Abs(cache)
	if err != nil {
		return JSC{}, err
	}
	if j, err := unpacked(dir); err == nil {
		return j, nil
	}
	if err := unpack(ctx, dir); err != nil {
		return JSC{}, err
	}
	return unpacked(dir)
}

// unpacked is what an earlier call left.
func unpacked(dir string) (JSC, error) {
	version, err := os.ReadFile(filepath.Join(dir, "version"))
	if err != nil {
		return JSC{}, err
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "root/usr/lib/*/libjavascriptcoregtk-*.so.*"))
	if err != nil || len(libraries) == 0 {
		return JSC{}, fmt.Errorf("no library below %s", dir)
	}
	return JSC{Path: filepath.Join(dir, "root/usr/bin/jsc"), Version: string(version), libraries: filepath.Dir(libraries[0])}, nil
}

// unpack gets the package and the library that it names, of the same version.
func unpack(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	run := func(argv ...string) (string, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	var failed error
	for _, name := range packages {
		if _, err := run("apt-get", "download", name); err != nil {
			failed = err
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
		if len(found) != 1 {
			return fmt.Errorf("%d files of %s in %s", len(found), name, dir)
		}
		needs, err := run("dpkg-deb", "-f", found[0], "Depends")
		if err != nil {
			return err
		}
		version, err := run("dpkg-deb", "-f", found[0], "Version")
		if err != nil {
			return err
		}
		all := found
		for need := range strings.SplitSeq(needs, ", ") {
			library, _, _ := strings.Cut(need, " ")
			if !strings.HasPrefix(library, "libjavascriptcoregtk-") {
				continue
			}
			if _, err := run("apt-get", "download", library+"="+version); err != nil {
				return err
			}
			more, _ := filepath.Glob(filepath.Join(dir, library+"_*.deb"))
			all = append(all, more...)
		}
		for _, f := range all {
			if _, err := run("dpkg-deb", "-x", f, "root"); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o644)
	}
	return failed
}
