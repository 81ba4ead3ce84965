package cellinit

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// Bounds of one collection beside those of the job.
const (
	maxVisits  = 20_000 // directory entries looked at
	maxRefused = 100    // refusals reported
)

// collector sends the files that the guest left. Nothing of the guest lives any
// more, so that what is seen once stays as it is; still every open is beneath
// the folder, through no link, on no other mount, and never waits. It runs on the
// sealed thread: with the guest's own rights.
type collector struct {
	c       *cell
	top     int // every path is opened from here: a guest's limit of descriptors is ours
	want    *cellproto.Collect
	end     time.Time
	dev     uint64
	buf     []byte
	left    uint64 // bytes
	sent    uint64 // files
	visits  int
	refused int
	matched []bool // patterns that stood for something
}

// errOver ends a collection early; what was sent stands.
var errOver = errors.New("the rest is not looked at")

// collect sends what the patterns name, then says that there is no more.
func (c *cell) collect(want *cellproto.Collect, alone bool) {
	w := &collector{c: c, want: want, end: time.Now().Add(time.Duration(want.MS) * time.Millisecond), left: want.Bytes,
		buf: make([]byte, cellproto.MaxPiece), matched: make([]bool, len(want.Patterns))}
	top := c.box
	if want.Place == cellproto.PlaceProduct {
		top = c.prog
	}
	w.top = top
	if alone {
		w.all()
	} else {
		w.refuse(".", "a process of the program could not be ended")
	}
	c.send(cellproto.TypeCollected, nil)
}

// all walks the whole folder, and names the patterns that stood for nothing.
func (w *collector) all() {
	var st unix.Stat_t
	if err := unix.Fstat(w.top, &st); err != nil {
		w.refuse(".", err.Error())
		return
	}
	w.dev = st.Dev
	if w.dir(".", 0) != nil {
		return // not all was looked at
	}
	for i, p := range w.want.Patterns {
		if !w.matched[i] {
			w.refuse(p, "there is no such file")
		}
	}
}

// open opens a path below the folder.
func (w *collector) open(path string, flags uint64) (int, error) {
	return unix.Openat2(w.top, path, &unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// refuse reports what gives nothing. A name that is none is quoted.
func (w *collector) refuse(name, reason string) {
	w.refused++
	switch {
	case w.refused > maxRefused+1:
		return
	case w.refused > maxRefused:
		name, reason = "…", "more than was refused before is not listed"
	}
	if name != "." && api.CheckPattern(name) != nil {
		name = strconv.QuoteToASCII(name)
	}
	w.c.send(cellproto.TypeRefused, cellproto.Refused{Name: name, Reason: reason}.Encode())
}

// dir looks at each entry of a directory, in order of their names.
func (w *collector) dir(where string, depth int) error {
	names, err := w.list(where)
	if err != nil {
		w.refuse(where, err.Error())
		return err
	}
	for _, name := range names {
		full := path.Join(where, name)
		if time.Now().After(w.end) {
			w.refuse(full, "the time for collecting was over")
			return errOver
		}
		if err := w.entry(full, name, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *collector) list(where string) ([]string, error) {
	fd, err := w.open(where, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return w.names(fd)
}

func (w *collector) names(fd int) ([]string, error) {
	var names []string
	raw := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, raw)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			slices.Sort(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(raw[:n], -1, names)
		if w.visits+len(names) > maxVisits {
			return nil, fmt.Errorf("there are more than %d entries to look at; %w", maxVisits, errOver)
		}
	}
}

// entry decides about one name. The error is errOver, or why a directory cannot
// be read to its end.
func (w *collector) entry(full, name string, depth int) error {
	w.visits++
	is, below := w.match(full)
	if !is && !below {
		return nil
	}
	if w.c.off("links") { // a negative control's collector, which looks at what a name leads to
		return w.naive(full)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(w.top, full, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.refuse(full, err.Error())
		return nil
	}
	kind := st.Mode & unix.S_IFMT
	if !is && kind != unix.S_IFDIR && kind != unix.S_IFLNK { // nothing can lie below it
		return nil
	}
	if reason := w.objection(name, full, &st, depth); reason != "" {
		w.refuse(full, reason)
		return nil
	}
	if kind == unix.S_IFDIR {
		if err := w.dir(full, depth+1); !errors.Is(err, unix.EACCES) { // which was told
			return err
		}
		return nil
	}
	fd, err := w.open(full, unix.O_RDONLY)
	if err != nil {
		w.refuse(full, err.Error())
		return nil
	}
	defer unix.Close(fd)
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil || now.Dev != st.Dev || now.Ino != st.Ino || now.Mode != st.Mode || now.Nlink != st.Nlink {
		w.refuse(full, "changed while it was looked at")
		return nil
	}
	return w.file(fd, full, &now)
}

// naive is the collector that H-4 warns of.
func (w *collector) naive(full string) error {
	fd, err := unix.Openat(w.top, full, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	return w.file(fd, full, &st)
}

// match asks every pattern, and remembers those that stood for something.
func (w *collector) match(name string) (is, below bool) {
	for i, p := range w.want.Patterns {
		a, b := api.MatchPattern(p, name)
		w.matched[i] = w.matched[i] || a
		is, below = is || a, below || b
	}
	return is, below
}

// objection is why a file or directory is refused unopened.
func (w *collector) objection(name, full string, st *unix.Stat_t, depth int) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink != 1 {
			return "has another name (a hard link)"
		}
	case unix.S_IFDIR:
		if depth+1 >= api.MaxNameParts {
			return fmt.Sprintf("lies deeper than %d directories", api.MaxNameParts)
		}
	case unix.S_IFLNK:
		return "is a symbolic link"
	case unix.S_IFIFO:
		return "is a FIFO"
	default:
		return "is not a regular file"
	}
	if st.Dev != w.dev {
		return "lies on another file system"
	}
	if err := api.CheckFileName(name); err != nil {
		return "its name " + err.Error()
	}
	if err := api.CheckFileName(full); err != nil {
		return "its name " + err.Error()
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return ""
	}
	switch size := uint64(st.Size); {
	case w.sent >= w.want.Files:
		return fmt.Sprintf("there are more than %d files", w.want.Files)
	case size > w.want.FileBytes:
		return fmt.Sprintf("has more than %d bytes", w.want.FileBytes)
	case size > w.left:
		return fmt.Sprintf("the files have more than %d bytes together", w.want.Bytes)
	}
	return ""
}

// file sends one file piece by piece, at most as many bytes as it said to have.
func (w *collector) file(fd int, name string, st *unix.Stat_t) error {
	piece := cellproto.Piece{Name: name, Mode: uint64(st.Mode & 0o777), Size: uint64(st.Size), More: true}
	for left := uint64(st.Size); piece.More; {
		n, err := fdReader(fd).Read(w.buf[:min(left, uint64(len(w.buf)))])
		if err != nil || time.Now().After(w.end) {
			if err == nil {
				err = errors.New("the time for collecting was over")
			}
			w.refuse(name, err.Error())
			return nil
		}
		left -= uint64(n)
		w.left -= uint64(n)
		piece.Data, piece.More = w.buf[:n], left > 0
		w.c.sendPiece(&piece)
	}
	w.sent++
	return nil
}
