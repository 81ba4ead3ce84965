package cellinit

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// FuzzObjection gives the collector files of any name and kind: it opens none but plain
// ones with one name, of the same file system, below the bounds, whose name is one in
// the grammar.
//
// proves part of H-4 T-13
func FuzzObjection(f *testing.F) {
	f.Add("a", "f", uint32(unix.S_IFREG|0o644), uint64(1), uint64(7), int64(10), 0, uint64(0))
	f.Add("a/b", "l", uint32(unix.S_IFLNK|0o777), uint64(1), uint64(7), int64(10), 1, uint64(0))
	f.Add("a", "f", uint32(unix.S_IFREG|0o4755), uint64(2), uint64(8), int64(1<<40), 16, uint64(5))
	f.Add("a", "-x\n\xff", uint32(unix.S_IFCHR), uint64(1), uint64(7), int64(-1), 15, uint64(4))
	f.Add("a", "other", uint32(unix.S_IFREG|0o644), uint64(1), uint64(8), int64(10), 0, uint64(0))
	f.Add("a", "deep", uint32(unix.S_IFDIR|0o755), uint64(2), uint64(7), int64(0), 15, uint64(0))
	f.Add("a", "tty", uint32(unix.S_IFCHR|0o644), uint64(1), uint64(7), int64(0), 0, uint64(0))
	f.Add("-a", "x", uint32(unix.S_IFREG|0o644), uint64(1), uint64(7), int64(10), 0, uint64(0))
	f.Fuzz(func(t *testing.T, dir, name string, mode uint32, links, dev uint64, size int64, depth int, sent uint64) {
		if strings.Contains(name, "/") || depth < 0 || depth > api.MaxNameParts {
			return // what a directory cannot hold, and no walk comes to
		}
		want := &cellproto.Collect{FileBytes: 100, Bytes: 1000, Files: 5}
		w := &collector{want: want, dev: 7, left: 50, sent: sent}
		var st unix.Stat_t
		st.Mode, st.Dev, st.Size = mode, dev, size
		setLinks(&st.Nlink, links)
		links = uint64(st.Nlink)
		full := dir + "/" + name
		reason := w.objection(name, full, &st, depth)
		if reason != "" {
			if len(reason) > 200 || strings.Contains(reason, "\n") {
				t.Fatalf("a reason: %q", reason)
			}
			return
		}
		plain, folder := mode&unix.S_IFMT == unix.S_IFREG, mode&unix.S_IFMT == unix.S_IFDIR
		if !plain && !folder || dev != 7 || api.CheckFileName(full) != nil || api.CheckFileName(name) != nil ||
			plain && (links != 1 || sent >= want.Files || uint64(size) > want.FileBytes || uint64(size) > w.left) || folder && depth+1 >= api.MaxNameParts {
			t.Fatalf("%q (%o, %d links, device %d, %d bytes, %d deep, %d sent) is opened", full, mode, links, dev, size, depth, sent)
		}
	})
}

// setLinks sets a number that has 32 or 64 bits, as the machine has it.
func setLinks[T uint32 | uint64](to *T, links uint64) { *to = T(links) }
