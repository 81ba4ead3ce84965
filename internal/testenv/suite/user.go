package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// userID is the user and group of the second half, the default of asuser.
const userID = 64901

const module = "github.com/glovebox-dev/glovebox"

// userHalf runs the tests as an ordinary user, in a copy of the tree that is
// his: where the checkout lies, and where Go keeps its modules, he may not be
// able to go. Root builds the test programs; each is run by asuser.
func (s *settings) userHalf(total *count) (err error) {
	dir, err := os.MkdirTemp("", "glovebox-suite-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	tree, asuser, cache := filepath.Join(dir, "tree"), filepath.Join(dir, "asuser"), filepath.Join(dir, "cache")
	if err := copyTree(tree); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "vendor", "-o", filepath.Join(tree, "vendor")},
		{"build", "-o", asuser, "./internal/testenv/asuser"},
	} {
		cmd := exec.Command("go", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	if err := errors.Join(os.Mkdir(cache, 0o755), chownTree(dir)); err != nil {
		return err
	}
	fmt.Printf("== as user %d with delegated control groups\n", userID)
	wrap := strings.Join([]string{asuser, "-copy", "-env", "GOCACHE=" + cache, "-env", "GOFLAGS=-buildvcs=false", "-env", "GOTOOLCHAIN=local"}, " ")
	env := []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}
	all, err := packages(s.packages)
	if err != nil {
		return err
	}
	// The paths of the tree are not in what is built, so that it need not be built
	// again for each tree.
	return s.goTest(total, "AsRoot", tree, env, []string{"-trimpath", "-exec", wrap}, twice(all))
}

// copyTree copies the checkout, with what was built and the filled caches of
// compilers, and without what git and the tools keep in it.
func copyTree(to string) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case name == ".cache": // of which the filled caches of compilers are wanted
			return nil
		case name == ".git" || filepath.Dir(name) == ".cache" && d.Name() != "warm":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, info.Mode().Perm())
	})
}

// twice are the packages of which both halves run the tests.
func twice(all []string) []string {
	var alone []string
	for _, o := range once {
		path := module + "/" + o.pkg
		if slices.Contains(all, path) {
			fmt.Printf("   as root alone: %s: %s\n", o.pkg, o.reason)
			alone = append(alone, path)
		}
	}
	_, both := split(all, alone)
	return both
}

func chownTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, userID, userID))
	})
}
