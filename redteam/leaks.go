package redteam

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// leaks are descriptors that the runner holds open, on purpose without
// close-on-exec, from before the first cell on: a program that embeds Glovebox
// may have such. They are a folder and a file in it, both made for this.
type leaks struct {
	dir    string
	fds    []int
	values map[string]string
}

// leakedFrom is the lowest number that they get.
const leakedFrom = 150

// leak opens them: {leaked} is the content of the file.
func leak() (*leaks, error) {
	dir, err := os.MkdirTemp("/var/tmp", folderPrefix())
	if err != nil {
		return nil, err
	}
	secret := fmt.Sprintf("leaked-%d", time.Now().UnixNano())
	l := &leaks{dir: dir, values: map[string]string{"leaked": secret}}
	path := filepath.Join(dir, "leaked")
	if err := os.WriteFile(path, []byte(secret), 0o644); err != nil {
		l.close()
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		l.close()
		return nil, err
	}
	for _, p := range []string{dir, path} {
		fd, err := unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			l.close()
			return nil, err
		}
		high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, leakedFrom)
		unix.Close(fd)
		if err != nil {
			l.close()
			return nil, err
		}
		l.fds = append(l.fds, high)
	}
	return l, nil
}

func (l *leaks) close() {
	for _, fd := range l.fds {
		unix.Close(fd)
	}
	os.RemoveAll(l.dir)
}
