package telemetry

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

const (
	headName    = "head.json"
	lockName    = "lock"
	filePattern = "audit-%012d.log"
	purposeHead = "audit head"
)

var genesis = strings.Repeat("0", hashLength)

// head is where the log ends, kept beside it: without, nobody could see that its end was
// cut off.
type head struct {
	// Files are those that are kept, the last of which is written: the number of the first
	// line of each and the hash before it.
	Files []auditFile `json:"files"`
	// Last is the number of the last line, Hash its hash, and Offset where it ends.
	Last   int64  `json:"last"`
	Hash   string `json:"hash"`
	Offset int64  `json:"offset"`
	MAC    string `json:"mac,omitempty"`
}

type auditFile struct {
	First int64  `json:"first"`
	Prev  string `json:"prev"`
}

func (f auditFile) name() string { return fmt.Sprintf(filePattern, f.First) }

func (h *head) current() auditFile { return h.Files[len(h.Files)-1] }

func (h *head) mac(by Hasher) (string, error) {
	c := *h
	c.MAC = ""
	text, err := json.Marshal(c)
	return by.Hash(purposeHead, string(text)), err
}

// save replaces the head on the disk.
func (h *head) save(dir string, by Hasher) error {
	c := *h
	mac, err := h.mac(by)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	c.MAC = mac
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	tmp := filepath.Join(dir, headName+".new")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, headName))
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// loadHead reads the head. There is none in a new folder.
func loadHead(dir string, by Hasher) (*head, error) {
	path := filepath.Join(dir, headName)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	var h head
	if err := strictjson.Decode(text, &h, strictjson.Options{}); err != nil {
		return nil, &AuditError{File: headName, Line: 1, Reason: "is no head"}
	}
	if want, err := h.mac(by); err != nil || want != h.MAC || len(h.Files) == 0 {
		return nil, &AuditError{File: headName, Line: 1, Reason: "was not written with this key"}
	}
	return &h, nil
}

// open takes the folder, and finds the end of the log.
func (a *Audit) open() error {
	if err := a.takeFolder(); err != nil {
		return err
	}
	h, err := loadHead(a.o.Dir, a.o.Hasher)
	if err != nil {
		return err
	}
	if h == nil {
		if files, err := filepath.Glob(filepath.Join(a.o.Dir, "audit-*.log")); err != nil || len(files) > 0 && !onlyBegun(files) {
			return &AuditError{File: headName, Reason: "is missing, and there are files"}
		}
		a.head = head{Files: []auditFile{{1, genesis}}, Hash: genesis}
		a.dirty = true
		if a.f, err = a.create(a.head.current(), false); err != nil {
			return err
		}
	} else {
		a.head = *h
		if a.f, err = a.reopen(a.head.current()); err != nil {
			return err
		}
	}
	if err := a.goOn(); err != nil {
		return err
	}
	a.clear()
	return a.sync()
}

// onlyBegun tells whether the files are what a program leaves that was killed before it
// had written a head: the first one, and nothing in it.
func onlyBegun(files []string) bool {
	st, err := os.Lstat(files[0])
	return len(files) == 1 && filepath.Base(files[0]) == auditFile{First: 1}.name() && err == nil && st.Size() == 0
}

func (a *Audit) takeFolder() error {
	if err := os.MkdirAll(a.o.Dir, 0o700); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(a.o.Dir, &st); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("audit: %s: must be a folder of this user that nobody else may enter (chmod 700)", a.o.Dir)
	}
	f, err := os.OpenFile(filepath.Join(a.o.Dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	a.lock = f
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrAuditLocked
	}
	return nil
}

func (a *Audit) path(f auditFile) string { return filepath.Join(a.o.Dir, f.name()) }

// create makes a file, or with an old one takes what is there.
func (a *Audit) create(f auditFile, fresh bool) (*os.File, error) {
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW
	if fresh {
		flags |= os.O_EXCL
	}
	return os.OpenFile(a.path(f), flags, 0o600)
}

func (a *Audit) reopen(f auditFile) (*os.File, error) {
	got, err := os.OpenFile(a.path(f), os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &AuditError{File: f.name(), Reason: "cannot be opened: " + err.Error()}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(got.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = got.Close()
		return nil, &AuditError{File: f.name(), Reason: "is no plain file"}
	}
	return got, nil
}

// goOn reads the lines behind the head, which was written a second late, and in a file
// that was begun since.
func (a *Audit) goOn() error {
	for {
		err := a.goOnIn()
		if err != nil {
			return err
		}
		next := auditFile{a.head.Last + 1, a.head.Hash}
		if next.First == a.head.current().First {
			return nil // the file has no line yet
		}
		f, err := a.reopen(next)
		if err != nil {
			return nil // none
		}
		_ = a.f.Close()
		a.f, a.dirty = f, true
		a.head.Files = append(a.head.Files, next)
		a.head.Offset = 0
	}
}

// goOnIn reads lines of the file from the head's offset on, and cuts off what is none.
func (a *Audit) goOnIn() error {
	size, err := a.f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	file := a.head.current().name()
	if size < a.head.Offset {
		return &AuditError{File: file, Line: a.head.Last, Reason: "and what follows it is missing: the end was cut off"}
	}
	if _, err := a.f.Seek(a.head.Offset, io.SeekStart); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for r := bufio.NewReaderSize(a.f, maxLine); ; {
		text, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return a.f.Truncate(a.head.Offset)
		case err != nil && !errors.Is(err, bufio.ErrBufferFull): // which is no line either
			return fmt.Errorf("audit: %w", err)
		}
		hash, why := check(a.o.Hasher, string(text), a.head.Last+1, a.head.Hash)
		if why != "" {
			return &AuditError{File: file, Line: a.head.Last + 1, Reason: why}
		}
		a.head.Last, a.head.Hash, a.dirty = a.head.Last+1, hash, true
		a.head.Offset += int64(len(text))
	}
}

// look sees whether the file is still the one that was written.
func (a *Audit) look() {
	var mine, there unix.Stat_t
	err := errors.Join(unix.Fstat(int(a.f.Fd()), &mine), unix.Lstat(a.path(a.head.current()), &there))
	if err != nil || mine.Ino != there.Ino || mine.Dev != there.Dev {
		a.err = ErrAuditChanged
	}
}

// write adds a line.
func (a *Audit) write(e Entry, now time.Time) error {
	if errors.Is(a.err, ErrAuditChanged) {
		return a.err // for good: only who opens it again knows what is there
	}
	a.err = a.writeLine(e, now)
	return a.err
}

func (a *Audit) writeLine(e Entry, now time.Time) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(a.f.Fd()), &st); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	switch {
	case st.Nlink == 0 || st.Size < a.head.Offset || st.Size > a.head.Offset && a.err == nil:
		return ErrAuditChanged
	case st.Size > a.head.Offset: // half a line of a write that failed
		if err := a.f.Truncate(a.head.Offset); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	text, hash := line(a.o.Hasher, a.head.Last+1, a.head.Hash, now, e)
	if a.head.Offset > 0 && a.head.Offset+int64(len(text)) > a.o.MaxBytes {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	if _, err := a.f.WriteString(text); err != nil { // half of it may be there
		return fmt.Errorf("audit: %w", err)
	}
	a.head.Last, a.head.Hash, a.dirty = a.head.Last+1, hash, true
	a.head.Offset += int64(len(text))
	if a.o.FsyncAlways {
		if err := unix.Fdatasync(int(a.f.Fd())); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	return nil
}

// rotate begins the next file, and drops the oldest when there are too many: the head
// that no longer has it is on the disk before.
func (a *Audit) rotate() error {
	if err := a.sync(); err != nil {
		return err
	}
	next := auditFile{a.head.Last + 1, a.head.Hash}
	f, err := a.create(next, false)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if size, err := f.Seek(0, io.SeekEnd); err != nil || size != 0 {
		_ = f.Close()
		return ErrAuditChanged
	}
	h := a.head
	h.Files, h.Offset = append(slices.Clone(h.Files), next), 0
	h.Files = h.Files[max(0, len(h.Files)-a.o.MaxFiles):]
	if err := h.save(a.o.Dir, a.o.Hasher); err != nil {
		_ = f.Close()
		return err
	}
	_ = a.f.Close() // it was written through
	a.f, a.head = f, h
	a.clear()
	return nil
}

// clear removes files older than the oldest that is kept.
func (a *Audit) clear() {
	files, err := filepath.Glob(filepath.Join(a.o.Dir, "audit-*.log"))
	if err != nil {
		return
	}
	for _, f := range files {
		if filepath.Base(f) < a.head.Files[0].name() {
			_ = os.Remove(f) // the next rotation tries again
		}
	}
}
