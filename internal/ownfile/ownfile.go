// Package ownfile reads files that decide something: those that only root and the
// user who runs the program can have written.
package ownfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/units"
)

// Options say what else a file must be.
type Options struct {
	// MaxBytes is how long it may be. Zero means 64 KiB.
	MaxBytes int64
	// Secret says that nobody else may read it either. What root's own group may read of
	// root's files passes: so systemd hands over credentials.
	Secret bool
}

// Read returns the text of a regular file that belongs to root or to this user and
// that no other may write to. A link to one is one: what was opened is what is looked
// at. The error says what is wrong without the file's name, but for those of open(2).
func Read(path string, o Options) ([]byte, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 10
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not make this wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if err := judge(&st, os.Geteuid(), o); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, o.MaxBytes+1))
	if err == nil && int64(len(text)) > o.MaxBytes { // it has grown since
		return nil, tooLong(o)
	}
	return text, err
}

func judge(st *unix.Stat_t, user int, o Options) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("is not a regular file")
	case st.Uid != 0 && int(st.Uid) != user:
		return fmt.Errorf("belongs to user %d; must belong to root or to you", st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("may be written by others (mode %#o); chmod go-w it", st.Mode&0o777)
	case o.Secret && st.Mode&0o077 != 0 && !rootsOwn(st):
		return fmt.Errorf("may be read by others (mode %#o); chmod 600 it", st.Mode&0o777)
	case st.Size > o.MaxBytes:
		return tooLong(o)
	}
	return nil
}

// rootsOwn is true of a file that beside root only its group may read. An access
// control list that lets one user read shows as such: its mask stands in the place of
// the group's rights.
func rootsOwn(st *unix.Stat_t) bool {
	return st.Uid == 0 && st.Gid == 0 && st.Mode&0o077 == 0o040
}

func tooLong(o Options) error {
	return fmt.Errorf("must have at most %s", units.Size.Format(o.MaxBytes, " "))
}
