package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Memory keeps a journal in memory.
type Memory struct{ Bytes []byte }

// Append never fails.
func (m *Memory) Append(frame []byte, _ Head) error {
	m.Bytes = append(m.Bytes, frame...)
	return nil
}

// File keeps a journal in a file, which it holds against every other File of any
// process until it is closed. (It does not hold against a process that was
// stopped for long and a file system that several machines share: the numbers of
// leases are for that.)
type File struct {
	f *os.File
	// NoSync leaves the bytes to the kernel: they survive the end of this process,
	// and not that of the machine.
	NoSync bool
}

// ErrHeld is returned for a file that another File holds.
var ErrHeld = errors.New("journal: the file is in use")

// CreateFile makes a file of mode 0600 that was not there.
func CreateFile(path string) (*File, error) {
	f, err := openFile(path, os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenFile opens a file and reads it. What of it is no whole record must be cut
// off with Cut before anything is appended.
func OpenFile(path string) (*File, []byte, error) {
	f, err := openFile(path, 0)
	if err != nil {
		return nil, nil, err
	}
	data, err := f.read()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, data, nil
}

// openFile follows no link and waits for nobody.
func openFile(path string, flags int) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC|flags, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(ErrHeld, f.Close())
	case err != nil:
		return nil, errors.Join(err, f.Close())
	}
	return &File{f: f}, nil
}

func (f *File) read() ([]byte, error) {
	info, err := f.f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fail(NotOne, "it is no plain file")
	case info.Size() > MaxBytes:
		return nil, fail(TooLarge, "more than %d bytes", MaxBytes)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f.f, data); err != nil {
		return nil, err
	}
	return data, nil
}

// Cut leaves the first n bytes, for good.
func (f *File) Cut(n int) error {
	if err := f.f.Truncate(int64(n)); err != nil {
		return err
	}
	return f.f.Sync()
}

// Append writes a frame at the end and, unless NoSync is set, waits for the disk.
func (f *File) Append(frame []byte, _ Head) error {
	if _, err := f.f.Write(frame); err != nil {
		return err
	}
	if f.NoSync {
		return nil
	}
	return f.f.Sync()
}

// Close closes the file and lets others have it.
func (f *File) Close() error { return f.f.Close() }
