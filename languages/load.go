package languages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// maxFile is how many bytes the file of a language may have.
const maxFile = 64 << 10

// Load reads the file of a language and checks every field of it. The file
// decides what a cell shows of the host, so it must be a regular one, not a link,
// of at most 64 KiB, owned by root or by the user that runs this, and writable by
// nobody else. The error names the file and, where it is about one, the field.
func Load(file string) (*Language, error) {
	l, err := load(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return l, nil
}

func load(file string) (*Language, error) {
	// A FIFO must not make this wait, and what is checked must be what is read.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		if errors.Is(err, syscall.ELOOP) {
			err = errors.New("must be a regular file, not a link")
		}
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := trusted(st, uint32(os.Geteuid())); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("must have at most %d bytes", maxFile)
	}
	l, err := decode(b)
	if err != nil {
		return nil, err
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return l, nil
}

// trusted checks that nobody but root and the given user can have written a
// file.
func trusted(st fs.FileInfo, user uint32) error {
	if !st.Mode().IsRegular() {
		return errors.New("must be a regular file")
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner is not known")
	case sys.Uid != 0 && sys.Uid != user:
		return fmt.Errorf("must be owned by root or by user %d, not by user %d", user, sys.Uid)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("must not be writable by its group or by others (mode %#o)", st.Mode().Perm())
	}
	return nil
}

// decode reads the text of a language's file.
func decode(b []byte) (*Language, error) {
	l := &Language{}
	if err := strictjson.Decode(b, l, strictjson.Options{}); err != nil {
		return nil, err
	}
	return l, nil
}

// WithFiles returns the languages that come with Glovebox and those of the files.
func WithFiles(files []string) (Set, error) {
	var more []*Language
	for _, f := range files {
		l, err := Load(f)
		if err != nil {
			return nil, err
		}
		more = append(more, l)
	}
	return Builtin().With(more...)
}

// With returns a set that has further languages besides those of s, which is
// not changed; one of the same name takes the other's place. Each must be valid,
// and no extension or interpreter may be that of two languages. The error is an
// *[api.FieldError].
func (s Set) With(more ...*Language) (Set, error) {
	all := slices.Clone(s)
	for i, l := range more {
		if err := l.Validate(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(more[:i], func(o *Language) bool { return o.Name == l.Name }) {
			return nil, &api.FieldError{Field: "name", Value: l.Name, Reason: "is given twice"}
		}
		all = append(slices.DeleteFunc(all, func(o *Language) bool { return o.Name == l.Name }), l)
	}
	slices.SortFunc(all, func(a, b *Language) int { return strings.Compare(a.Name, b.Name) })
	for _, is := range []struct {
		field string
		of    func(*Language) []string
	}{
		{"extensions", func(l *Language) []string { return l.Extensions }},
		{"interpreters", func(l *Language) []string { return l.Interpreters }},
	} {
		of := map[string]string{}
		for _, l := range all {
			for _, v := range is.of(l) {
				if other := of[v]; other != "" {
					return nil, &api.FieldError{Field: is.field, Value: v, Reason: "is of " + other + " and of " + l.Name + "; files could not be told apart"}
				}
				of[v] = l.Name
			}
		}
	}
	return all, nil
}
