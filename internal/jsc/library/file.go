package library

import (
	"io"

	"golang.org/x/sys/unix"
)

// plainFile reads a file by plain system calls. The runtime's poller, which
// an os.File starts, would want calls that a sealed process may not make.
type plainFile int

func openPlain(path string) (plainFile, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return plainFile(fd), err
}

// ReadAt is io.ReaderAt's.
func (f plainFile) ReadAt(p []byte, at int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pread(int(f), p[done:], at+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

func (f plainFile) close() { unix.Close(int(f)) }
