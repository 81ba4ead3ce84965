package cellinit

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// writePiece writes some of a file of the program, whose directories it makes,
// following no link and never over something that exists.
func (c *cell) writePiece(p *cellproto.Piece) error {
	if c.piece < 0 {
		top := c.box
		if p.Place == cellproto.PlaceProduct {
			top = c.prog
		}
		fd, err := create(top, p.Name, uint32(p.Mode))
		if err != nil {
			return err
		}
		c.piece = fd
	}
	_, err := fdWriter(c.piece).Write(p.Data)
	if err != nil || !p.More {
		err = errors.Join(err, unix.Close(c.piece))
		c.piece = -1
	}
	return err
}

// create makes a new file below a directory.
func create(top int, path string, mode uint32) (int, error) {
	for i, r := range path {
		if r != '/' {
			continue
		}
		dir, name, err := parent(top, path[:i])
		if err != nil {
			return -1, err
		}
		err = unix.Mkdirat(dir, name, 0o755)
		unix.Close(dir)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
	}
	dir, name, err := parent(top, path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
}
