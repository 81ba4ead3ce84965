// Command check holds every file of the repository, but what was built, against
// the rules of package house. It runs at the repository's root.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/internal/house"
)

func main() {
	broken, files := 0, 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name {
			case ".git", ".cache", "bin":
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == ".git" { // a file in a worktree
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		for _, sentence := range house.Check(filepath.ToSlash(name), src) {
			fmt.Println(sentence)
			broken++
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
	fmt.Printf("house rules: %d files, %d broken\n", files, broken)
	if broken > 0 || files == 0 {
		os.Exit(1)
	}
}
