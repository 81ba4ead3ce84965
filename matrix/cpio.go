//go:build linux

package matrix

import (
	"fmt"
	"io"
)

// The file type bits of an archive entry, as in inode(7).
const (
	modeDir     = 0o040000
	modeRegular = 0o100000
	modeSymlink = 0o120000
	modeChar    = 0o020000
)

// header is what an archive says of one file.
type header struct {
	Name string // without a leading slash
	Mode uint32 // type and permission bits
	UID  int
	GID  int
	Size int64
	// RMajor and RMinor number a device.
	RMajor, RMinor int
}

// cpioWriter writes the "newc" archive format, the one that Linux unpacks at
// boot: an ASCII header, the name and the contents, each padded to 4 bytes.
type cpioWriter struct {
	w   io.Writer
	off int64
	ino int
}

func newCPIOWriter(w io.Writer) *cpioWriter { return &cpioWriter{w: w} }

// trailer is the name of the entry that ends an archive.
const trailer = "TRAILER!!!"

// Add writes one entry with the contents of body, which must have h.Size bytes
// and may be nil when that is 0.
func (c *cpioWriter) Add(h header, body io.Reader) error {
	if h.Size < 0 || h.Size > 0xffffffff {
		return fmt.Errorf("%s: %d bytes do not fit into an archive entry", h.Name, h.Size)
	}
	c.ino++
	links := 1
	if h.Mode&modeDir == modeDir {
		links = 2
	}
	fields := []int64{
		int64(c.ino), int64(h.Mode), int64(h.UID), int64(h.GID), int64(links),
		0, // time of change
		h.Size,
		0, 0, // device that holds the file
		int64(h.RMajor), int64(h.RMinor),
		int64(len(h.Name) + 1),
		0, // checksum, not used by this variant
	}
	text := []byte("070701")
	for _, f := range fields {
		text = fmt.Appendf(text, "%08X", f)
	}
	text = append(append(text, h.Name...), 0)
	if err := c.write(text); err != nil {
		return err
	}
	if err := c.pad(4); err != nil {
		return err
	}
	if h.Size > 0 {
		n, err := io.Copy(c.w, io.LimitReader(body, h.Size))
		c.off += n
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if n != h.Size {
			return fmt.Errorf("%s: %d bytes instead of %d", h.Name, n, h.Size)
		}
	}
	return c.pad(4)
}

// Close writes the end of the archive, not the underlying writer's.
func (c *cpioWriter) Close() error {
	c.ino = -1 // the trailer has number 0
	if err := c.Add(header{Name: trailer}, nil); err != nil {
		return err
	}
	return c.pad(512)
}

func (c *cpioWriter) write(p []byte) error {
	n, err := c.w.Write(p)
	c.off += int64(n)
	return err
}

// pad fills up to a multiple of n.
func (c *cpioWriter) pad(n int64) error {
	if over := c.off % n; over != 0 {
		return c.write(make([]byte, n-over))
	}
	return nil
}
