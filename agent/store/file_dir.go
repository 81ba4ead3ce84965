package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The folder of a store has
//
//	s/OWNER/SESSION/g.N   generations of a session: the largest N counts
//	s/OWNER/SESSION/e.N   where generation N was agreed to end
//	floor/N               the largest number of a lease whose session was deleted
//	tmp/RANDOM            files that are being made; each is locked by its maker
//
// A name that may be there once only decides between processes: whoever links it
// first has won. Whoever has a session's folder open holds it by a shared
// flock(2), so that it goes away only while nobody can still link into it.

// folder is an open folder.
type folder struct{ fd int }

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// again calls f until no signal interrupts it.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR { //nolint:errorlint // system calls return it bare
			return err
		}
	}
}

func openFolder(at int, name string) (d folder, err error) {
	err = again(func() error { d.fd, err = unix.Openat(at, name, dirFlags, 0); return err })
	if err != nil {
		return folder{-1}, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	return d, nil
}

// sub opens a folder below, and makes it first if asked to.
func (d folder) sub(name string, create bool) (folder, error) {
	if create {
		if err := unix.Mkdirat(d.fd, name, 0o700); err != nil && err != unix.EEXIST { //nolint:errorlint // bare
			return folder{-1}, &os.PathError{Op: "mkdirat", Path: name, Err: err}
		}
	}
	return openFolder(d.fd, name)
}

func (d folder) close() { _ = unix.Close(d.fd) }

func (d folder) sync() error { return again(func() error { return unix.Fsync(d.fd) }) }

func (d folder) names() ([]string, error) {
	fresh, err := openFolder(d.fd, ".") // a position of its own
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fresh.fd), "folder")
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

func (d folder) open(name string, flags int) (f *os.File, err error) {
	var fd int
	err = again(func() error {
		fd, err = unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (d folder) remove(name string) { _ = unix.Unlinkat(d.fd, name, 0) }

// flock takes or changes the lock on the folder itself; false where others have it.
func (d folder) flock(how int) (bool, error) {
	err := again(func() error { return unix.Flock(d.fd, how|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK { //nolint:errorlint // bare
		return false, nil
	}
	return err == nil, err
}

// is says whether a name is this folder still.
func (d folder) is(parent folder, name string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(d.fd, &a) == nil && unix.Fstatat(parent.fd, name, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Ino == b.Ino && a.Dev == b.Dev
}

// newest is the largest N of names g.N, and 0 if there is none.
func (d folder) newest() (uint64, error) {
	names, err := d.names()
	if err != nil {
		return 0, err
	}
	return largest(names, "g."), nil
}

func largest(names []string, prefix string) (most uint64) {
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
				most = max(most, n)
			}
		}
	}
	return most
}

func generation(n uint64) string { return "g." + strconv.FormatUint(n, 10) }
func ending(n uint64) string     { return "e." + strconv.FormatUint(n, 10) }

// lock takes a file for this open of it, until unlock; false where another has
// it. The kernel gives it back when the process ends.
func lock(f *os.File) (bool, error) {
	err := fcntl(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// unlock is said before Close, since a child that is just being started may have
// the same open file for a moment.
func unlock(f *os.File) { _ = fcntl(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}) }

// isLocked asks, and takes nothing.
func isLocked(f *os.File) bool {
	q := unix.Flock_t{Type: unix.F_WRLCK}
	return fcntl(f, unix.F_OFD_GETLK, &q) == nil && q.Type != unix.F_UNLCK
}

func fcntl(f *os.File, cmd int, q *unix.Flock_t) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = c.Control(func(fd uintptr) { inner = again(func() error { return unix.FcntlFlock(fd, cmd, q) }) })
	return errors.Join(err, inner)
}

func give(f *os.File) {
	unlock(f)
	_ = f.Close()
}

// links is how many names a file has.
func links(f *os.File) uint64 {
	var st unix.Stat_t
	c, err := f.SyscallConn()
	if err == nil {
		_ = c.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) })
	}
	if err != nil {
		return 0
	}
	return uint64(st.Nlink) //nolint:unconvert // of another width elsewhere
}

// draft is a file in tmp, locked, that has no place yet.
type draft struct {
	s    *fileStore
	f    *os.File
	name string
}

func (s *fileStore) draft() (*draft, error) {
	for range 100 {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		d := &draft{s: s, name: hex.EncodeToString(b[:])}
		var err error
		if d.f, err = s.tmp.open(d.name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR); err != nil {
			return nil, err
		}
		ok, err := lock(d.f)
		if err != nil {
			d.drop()
			return nil, err
		}
		if ok && links(d.f) > 0 {
			return d, nil
		}
		_ = d.f.Close() // a sweeper was faster
	}
	return nil, errors.New("every new file was swept away")
}

// place gives the draft a name, which must be free: false where it is not. The
// file stays locked.
func (d *draft) place(in folder, name string, sync bool) (bool, error) {
	if sync {
		if err := d.f.Sync(); err != nil {
			return false, err
		}
	}
	err := again(func() error { return unix.Linkat(d.s.tmp.fd, d.name, in.fd, name, 0) })
	if err == unix.EEXIST { //nolint:errorlint // bare
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "linkat", Path: name, Err: err}
	}
	d.s.tmp.remove(d.name)
	d.name = ""
	if !sync {
		return true, nil
	}
	return true, in.sync()
}

// follow makes the draft the generation after n, unless there is one or was one.
func (d *draft) follow(in folder, n uint64, sync bool) (bool, error) {
	name := generation(n + 1)
	if ok, err := d.place(in, name, sync); !ok || err != nil {
		return false, err
	}
	d.s.at("linked")
	// The name is free too when it was taken before, and what came of it has been gone
	// on from. Whoever has gone on from this one has claimed it.
	now, err := in.newest()
	if err != nil || now == n+1 {
		return err == nil, err
	}
	claimed, err := readClaim(d.f)
	if !claimed {
		in.remove(name)
	}
	return claimed, err
}

// agree settles at which entry generation n ends, once for all: seq, or what
// somebody has said before.
func (s *fileStore) agree(in folder, n, seq uint64) (uint64, error) {
	said, err := readEnding(in, n)
	if !errors.Is(err, unix.ENOENT) {
		return said, err
	}
	d, err := s.draft()
	if err != nil {
		return 0, err
	}
	defer d.drop()
	b := binary.LittleEndian.AppendUint64(nil, seq)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := d.f.Write(b); err != nil {
		return 0, err
	}
	if ok, err := d.place(in, ending(n), !s.noSync); ok || err != nil {
		return seq, err
	}
	return readEnding(in, n)
}

func readEnding(in folder, n uint64) (uint64, error) {
	f, err := in.open(ending(n), unix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	b := make([]byte, 13)
	got, err := f.Read(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	if got != 12 || crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, damaged("where a generation ends is not what was written")
	}
	return binary.LittleEndian.Uint64(b), nil
}

// tidy removes generations before n whose holders are gone. One who is stopped
// keeps his, where he can see how it ended.
func (d folder) tidy(n uint64) {
	names, err := d.names()
	if err != nil {
		return
	}
	for _, name := range names {
		old, err := strconv.ParseUint(strings.TrimPrefix(name, "g."), 10, 64)
		if err != nil || old >= n || !strings.HasPrefix(name, "g.") {
			continue
		}
		f, err := d.open(name, unix.O_RDWR)
		if err != nil {
			continue
		}
		if ok, _ := lock(f); ok {
			d.remove(name)
			d.remove(ending(old))
		}
		give(f)
	}
}

// drop throws away a draft; what has a place keeps it.
func (d *draft) drop() {
	if d.name != "" {
		d.s.tmp.remove(d.name)
	}
	give(d.f)
}

// sweep removes drafts of processes that ended.
func (s *fileStore) sweep() error {
	names, err := s.tmp.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := s.tmp.open(name, unix.O_RDWR)
		if err != nil {
			continue
		}
		if ok, _ := lock(f); ok {
			s.tmp.remove(name)
		}
		give(f)
	}
	return nil
}

// session opens the folder of a session and holds it. Neither folder nor error
// means that somebody is just removing it.
func (s *fileStore) session(k Key, create bool) (*folder, error) {
	owner, name := k.Names()
	for range 1000 {
		d, again, err := s.openSession(owner, name, create)
		if !again {
			return d, err
		}
	}
	return nil, fmt.Errorf("the folder of the session comes and goes")
}

func (s *fileStore) openSession(owner, name string, create bool) (d *folder, again bool, err error) {
	missing := func(err error) (*folder, bool, error) {
		if !errors.Is(err, unix.ENOENT) {
			return nil, false, err
		}
		if create {
			return nil, true, nil // removed between two steps
		}
		return nil, false, ErrNotFound
	}
	o, err := s.all.sub(owner, create)
	if err != nil {
		return missing(err)
	}
	defer o.close()
	f, err := o.sub(name, create)
	if err != nil {
		return missing(err)
	}
	switch ok, err := f.flock(unix.LOCK_SH); {
	case !ok:
		f.close()
		return nil, false, err
	case !f.is(o, name):
		f.close()
		return nil, true, nil
	}
	return &f, false, nil
}

// settle brings the names of a session's folder and of its parents to the disk.
func (s *fileStore) settle(k Key, d *folder) error {
	owner, _ := k.Names()
	o, err := s.all.sub(owner, false)
	if err != nil {
		return err
	}
	defer o.close()
	return errors.Join(d.sync(), o.sync(), s.all.sync())
}

// leave closes a session's folder, and removes it if there is no session in it and
// nobody else has it open. While it does, which is a few system calls, nobody can
// open it: a process that is stopped just there keeps others from the name of a
// session that was deleted, until it goes on or ends.
func (s *fileStore) leave(k Key, d *folder, maybeEmpty bool) {
	defer d.close()
	defer func() { _, _ = d.flock(unix.LOCK_UN) }()
	if !maybeEmpty {
		return
	}
	if dead, _, _ := d.isDead(); !dead {
		return // and others are not kept from a session that is one
	}
	if ok, _ := d.flock(unix.LOCK_EX); !ok {
		return
	}
	owner, name := k.Names()
	o, err := s.all.sub(owner, false)
	if err != nil {
		return
	}
	defer o.close()
	dead, fence, names := d.isDead()
	if !dead || !d.is(o, name) || s.setFloor(fence) != nil {
		return
	}
	for _, name := range names {
		d.remove(name)
	}
	_ = unix.Unlinkat(o.fd, name, unix.AT_REMOVEDIR)
	_ = unix.Unlinkat(s.all.fd, owner, unix.AT_REMOVEDIR) // if it was the last
}

// isDead says whether there is no session in a folder, and which lease was its last.
func (d folder) isDead() (dead bool, fence uint64, names []string) {
	names, err := d.names()
	if err != nil {
		return false, 0, nil
	}
	n := largest(names, "g.")
	if n == 0 {
		return true, 0, names
	}
	f, err := d.open(generation(n), unix.O_RDONLY)
	if err != nil {
		return false, 0, nil
	}
	defer f.Close()
	st, err := scan(f, 1)
	if err != nil || !st.deleted {
		return false, 0, nil
	}
	return true, st.fence, names
}

// floorNumber is the largest number of a lease of a session that is no more.
func (s *fileStore) floorNumber() (uint64, error) {
	names, err := s.floor.names()
	return largest(names, ""), err
}

func (s *fileStore) setFloor(n uint64) error {
	names, err := s.floor.names()
	if err != nil || largest(names, "") >= n {
		return err
	}
	f, err := s.floor.open(strconv.FormatUint(n, 10), unix.O_CREAT|unix.O_RDWR)
	if err != nil {
		return err
	}
	_ = f.Close()
	if !s.noSync {
		if err := s.floor.sync(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if old, err := strconv.ParseUint(name, 10, 64); err == nil && old < n {
			s.floor.remove(name)
		}
	}
	return nil
}
