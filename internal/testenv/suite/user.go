package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// userID is the user and group of the second half, the default of asuser.
const userID = 64901

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
	return s.goTest(total, "AsRoot", tree, env, []string{"-exec", wrap}, s.packages)
}

// copyTree copies the checkout, with what was built and without what git and the
// tools keep in it.
func copyTree(to string) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ".git" || name == ".cache" {
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

func chownTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, userID, userID))
	})
}
