// Package strays finds files that programs in cells can read and that no package
// put there: what somebody left in a folder of packages, a key or a script with a
// password in it, is shown to every program with them.
package strays

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrUnknown says that this host keeps no list of what its packages own that
	// could be read here: it is not one of dpkg's.
	ErrUnknown = errors.New("what packages own is not known on this host: there is no list of dpkg's")
	// ErrTooMany says that a bound of the search was reached. What was found until
	// then is not given: it would look like the whole.
	ErrTooMany = errors.New("there is too much to look at")
)

// bounds of a search.
type bounds struct {
	// entries bounds what is looked at in the folders, and on its own the lines of
	// the packages' lists; bytes bounds those lines together.
	entries, bytes int
}

var usual = bounds{entries: 2_000_000, bytes: 512 << 20}

// Find returns the files at and below the shown paths, in order of name, that a
// program of this user's cells can read and that no package owns. Root's cells are
// anybody; an ordinary user's are that user to the host.
//
// The paths are absolute and have no link in them. They and the lists of packages
// are looked for below root; "/" is the host. Links are not followed, mounts are.
// However closed the folders above a shown path are, it counts: a cell has its own
// in their place. What packages' scripts generate is left out, see generated.
//
// None is an empty list; with an error there is no list. That wraps [ErrUnknown],
// [ErrTooMany], the context's, or that of a folder or list that could not be read.
// A name may hold any byte but "/" and NUL.
func Find(ctx context.Context, root string, shown []string) ([]string, error) {
	return find(ctx, root, shown, usual, caller())
}

func find(ctx context.Context, root string, shown []string, most bounds, as reader) ([]string, error) {
	root = strings.TrimSuffix(root, "/")
	owned, err := readOwned(ctx, root, most)
	if err != nil {
		return nil, err
	}
	s := &search{root: root, owned: owned, as: as, most: most.entries, found: []string{}}
	for _, path := range shown {
		info, err := os.Lstat(root + path)
		if err == nil {
			err = s.look(ctx, path, fs.FileInfoToDirEntry(info))
		}
		if err != nil && !gone(err) {
			return nil, err
		}
	}
	slices.Sort(s.found)
	return slices.Compact(s.found), nil
}

// search is one Find under way.
type search struct {
	root       string
	owned      owned
	as         reader
	seen, most int
	found      []string
}

// look looks at one entry, and at those below it.
func (s *search) look(ctx context.Context, path string, e fs.DirEntry) error {
	switch {
	case e.IsDir():
		return s.below(ctx, path, e)
	case !e.Type().IsRegular() || s.owned.has(path) || s.owned.generated(path):
		return nil
	}
	info, err := e.Info()
	if err == nil && s.as.may(info, read) {
		s.found = append(s.found, path)
	}
	return err
}

// below looks at what is in a folder, if programs can enter it.
func (s *search) below(ctx context.Context, path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil || !s.as.may(info, enter) {
		return err
	}
	folders, err := s.files(ctx, path)
	if err != nil {
		return err
	}
	for _, e := range folders {
		if err := s.look(ctx, path+"/"+e.Name(), e); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// files looks at the files in a folder and returns the folders in it, so that none
// stays open while those below it are looked at.
func (s *search) files(ctx context.Context, path string) (folders []fs.DirEntry, err error) {
	f, err := os.OpenFile(s.root+path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for ctx.Err() == nil {
		entries, err := f.ReadDir(1024)
		if err == io.EOF {
			return folders, nil
		}
		if err != nil {
			return nil, err
		}
		if s.seen += len(entries); s.seen > s.most {
			return nil, fmt.Errorf("%w: more than %d files", ErrTooMany, s.most)
		}
		for _, e := range entries {
			if e.IsDir() {
				folders = append(folders, e)
			} else if err := s.look(ctx, path+"/"+e.Name(), e); err != nil && !gone(err) {
				return nil, err
			}
		}
	}
	return nil, ctx.Err()
}

// gone tells whether something was removed while it was looked for.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Permissions, as the last three bits of a mode.
const (
	read  = 4
	enter = 1
)

// reader is who a program is to the host's files.
type reader struct {
	uid    int // -1 for one who owns nothing
	groups []int
}

// caller is who the programs of this process's cells are: as root an id that owns
// nothing, else this user.
func caller() reader {
	if os.Geteuid() == 0 {
		return reader{uid: -1}
	}
	groups, _ := os.Getgroups() // none are known: fewer files are found than can be read
	return reader{uid: os.Geteuid(), groups: append(groups, os.Getegid())}
}

// may tells whether the mode of a file gives the reader a permission; see
// path_resolution(7).
func (r reader) may(info fs.FileInfo, permission fs.FileMode) bool {
	mode := info.Mode()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case int(st.Uid) == r.uid:
			mode >>= 6
		case slices.Contains(r.groups, int(st.Gid)):
			mode >>= 3
		}
	}
	return mode&permission != 0
}
