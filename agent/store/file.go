package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/patience"
)

// FileOptions say how a folder keeps sessions. Zero values are the defaults.
type FileOptions struct {
	// NoSync leaves what was written to the kernel: it survives the end of every
	// process, and not that of the machine, after which sessions may be refused as
	// damaged.
	NoSync bool
	// TTL is how long a holder that shows no life keeps a session, as who waits
	// measures it: 10 s by default, 20 ms to 24 h. A process that ended keeps nothing.
	TTL time.Duration
}

// Bounds of FileOptions.TTL.
const (
	defaultTTL = 10 * time.Second
	minTTL     = 20 * time.Millisecond
	maxTTL     = 24 * time.Hour
)

// CheckTTL returns the TTL that stands for one that was asked for, or an
// *api.FieldError.
func CheckTTL(ttl time.Duration) (time.Duration, error) {
	switch {
	case ttl == 0:
		return defaultTTL, nil
	case ttl < minTTL || ttl > maxTTL:
		return 0, &api.FieldError{Field: "TTL", Value: ttl, Reason: fmt.Sprintf("must be %v to %v", minTTL, maxTTL)}
	}
	return ttl, nil
}

type fileStore struct {
	all, floor, tmp folder
	noSync          bool
	ttl             time.Duration
	bells           bells
	done, beaten    chan struct{}     // Close was called; the last beat is over
	use             sync.RWMutex      // held for reading while the folders are in use
	hook            func(step string) // of tests: called between steps that others may see

	mu     sync.Mutex
	closed bool
	leases map[*fileLease]bool
}

// NewFile keeps sessions in a folder, which is made if it is not there, for any
// number of processes of one user and one machine. It must be on a file system
// of that machine: a network's may keep no locks and no order. The folder has mode
// 0700 and its files 0600; one that others may enter is refused. Nothing in it is
// reached by a link.
//
// The error is an *api.FieldError or the system's.
func NewFile(dir string, o FileOptions) (Store, error) {
	ttl, err := CheckTTL(o.TTL)
	if err != nil {
		return nil, err
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.close()
	s := &fileStore{noSync: o.NoSync, ttl: ttl, done: make(chan struct{}), beaten: make(chan struct{}), leases: map[*fileLease]bool{}}
	s.all, s.floor, s.tmp = folder{-1}, folder{-1}, folder{-1}
	for name, to := range map[string]*folder{"s": &s.all, "floor": &s.floor, "tmp": &s.tmp} {
		if *to, err = root.sub(name, true); err != nil {
			s.closeFolders()
			return nil, err
		}
	}
	if !o.NoSync {
		err = root.sync()
	}
	if err = errors.Join(err, s.sweep()); err != nil {
		s.closeFolders()
		return nil, err
	}
	go s.beats()
	return s, nil
}

func openRoot(dir string) (folder, error) {
	if dir == "" {
		return folder{-1}, &api.FieldError{Field: "dir", Reason: "must not be empty"}
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		var parent folder
		if parent, err = openFolder(unix.AT_FDCWD, filepath.Dir(dir)); err == nil {
			err = parent.sync()
			parent.close()
		}
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return folder{-1}, err
	}
	root, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return root, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(root.fd, &st); err != nil {
		root.close()
		return root, err
	}
	if st.Mode&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		root.close()
		return root, &api.FieldError{Field: "dir", Value: dir, Reason: fmt.Sprintf("must be a folder of this user with mode 0700; it is of user %d with mode %#o", st.Uid, st.Mode&0o777)}
	}
	return root, nil
}

// at is where a test may stop this process.
func (s *fileStore) at(step string) {
	if s.hook != nil {
		s.hook(step)
	}
}

func (s *fileStore) closeFolders() {
	for _, d := range []folder{s.all, s.floor, s.tmp} {
		if d.fd >= 0 {
			d.close()
		}
	}
}

func (s *fileStore) Acquire(ctx context.Context, k Key, o AcquireOptions) (Lease, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p := waiter{Patience: patience.Patience[signs]{TTL: s.ttl}}
	for pause := time.Millisecond; ; pause = min(2*pause, s.ttl/8, 50*time.Millisecond) {
		rung, leave := s.bells.listen(k)
		l, err := s.try(k, o, &p)
		if l != nil || err != nil {
			leave()
			if err != nil {
				return nil, err
			}
			return l, nil
		}
		if o.NoWait {
			leave()
			return nil, busy(ctx, p.why())
		}
		timer := time.NewTimer(pause)
		select {
		case <-rung:
		case <-timer.C: // another process rings no bell here
		case <-s.done:
		case <-ctx.Done():
			err = busy(ctx, p.why())
		}
		timer.Stop()
		leave()
		if err != nil {
			return nil, err
		}
	}
}

// signs of a holder's life: any that changes is one.
type signs struct {
	generation, beat uint64
	size             int64
}

type waiter struct {
	patience.Patience[signs]
	held bool // somebody was seen
}

func (w *waiter) why() string {
	if !w.held {
		return "it is being removed"
	}
	return fmt.Sprintf("its holder lives, or did %v ago", w.Quiet().Round(time.Millisecond))
}

// try returns neither lease nor error where somebody holds the session.
func (s *fileStore) try(k Key, o AcquireOptions, p *waiter) (*fileLease, error) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.isClosed() {
		return nil, ErrClosed
	}
	d, err := s.session(k, o.Create)
	if d == nil {
		return nil, err
	}
	for range 1000 {
		l, again, err := s.tryFolder(k, d, o, p)
		switch {
		case l != nil:
			return s.took(l)
		case err != nil || !again:
			s.leave(k, d, true)
			return nil, err
		}
	}
	s.leave(k, d, false)
	return nil, errors.New("generations of the session come and go")
}

func (s *fileStore) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// took makes a lease one of the store's. Close cannot come between: use is held.
func (s *fileStore) took(l *fileLease) (*fileLease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[l] = true
	return l, nil
}

// tryFolder looks at the newest generation.
func (s *fileStore) tryFolder(k Key, d *folder, o AcquireOptions, p *waiter) (l *fileLease, again bool, err error) {
	n, err := d.newest()
	if err != nil {
		return nil, false, err
	}
	if n == 0 {
		return s.begin(k, d, 0, 0, o)
	}
	f, err := d.open(generation(n), unix.O_RDWR)
	if err != nil {
		return nil, errors.Is(err, unix.ENOENT), ignoreMissing(err)
	}
	first, err := scan(f, 1)
	switch {
	case err != nil:
	case first.key != k:
		err = damaged("it is another session's file")
	case first.deleted:
		if err = claim(f); err != nil {
			break
		}
		_ = f.Close()
		return s.begin(k, d, n, first.fence, o)
	}
	locked := false
	if err == nil {
		locked, err = lock(f)
	}
	switch {
	case err != nil:
		_ = f.Close()
		return nil, false, err
	case locked:
		l, again, err = s.goOn(k, d, n, f, o)
	default:
		var stalled bool
		if stalled, err = p.see(n, f); err == nil && (stalled || o.Takeover) {
			l, again, err = s.replaceHolder(k, d, n, f, o)
		}
	}
	if l == nil || l.file.Load() != f {
		if locked {
			unlock(f)
		}
		_ = f.Close()
	}
	if l != nil {
		d.tidy(l.n)
	}
	return l, again, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// see looks for signs of life in a generation that is held.
func (p *waiter) see(n uint64, f *os.File) (bool, error) {
	var b [8]byte
	if _, err := f.ReadAt(b[:], atBeat); err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	p.held = true
	return p.Look(signs{n, binary.LittleEndian.Uint64(b[:]), info.Size()}), nil
}

// begin makes the first generation of a session after the n that were.
func (s *fileStore) begin(k Key, d *folder, n, fence uint64, o AcquireOptions) (*fileLease, bool, error) {
	if !o.Create {
		return nil, false, ErrNotFound
	}
	floor, err := s.floorNumber()
	if err != nil {
		return nil, false, err
	}
	fence = max(fence, floor) + 1
	// Nothing was committed: there is nothing yet to bring to the disk.
	return s.next(k, d, n, fence, nil, false)
}

// next makes generation n+1, with what was committed before.
func (s *fileStore) next(k Key, d *folder, n, fence uint64, r *Record, settled bool) (*fileLease, bool, error) {
	w, err := s.draft()
	if err != nil {
		return nil, false, err
	}
	l := &fileLease{s: s, key: k, fence: fence, d: d, n: n + 1, lost: make(chan struct{})}
	if l.slot, err = w.fill(k, fence, false, settled, r); err == nil {
		s.at("drafted")
		var ok bool
		if ok, err = w.follow(*d, n, r != nil && !s.noSync); ok {
			l.file.Store(w.f)
			return l, false, nil
		}
	}
	w.drop()
	return nil, err == nil, err
}

// goOn takes a generation that nobody holds.
func (s *fileStore) goOn(k Key, d *folder, n uint64, f *os.File, o AcquireOptions) (*fileLease, bool, error) {
	now, err := d.newest()
	if err != nil || now != n {
		return nil, err == nil, err
	}
	st, err := scan(f, math.MaxUint64)
	switch {
	case err != nil:
		return nil, false, err
	case !st.committed && !o.Create:
		// Its maker ended before it was a session.
		w, err := s.draft()
		if err != nil {
			return nil, false, err
		}
		defer w.drop()
		if _, err = w.fill(k, st.fence, true, false, nil); err == nil {
			_, err = w.follow(*d, n, false)
		}
		return nil, err == nil, err
	case st.claimed, st.end > 4*(st.journal+uint64(len(st.head)))+1<<20:
		return s.replaceHolder(k, d, n, f, o)
	}
	l := &fileLease{s: s, key: k, fence: st.fence + 1, d: d, n: n, slot: st.slot, cache: st, lost: make(chan struct{})}
	l.beat.Store(st.beat)
	if err := f.Truncate(int64(st.end)); err != nil { // what was torn
		return nil, false, err
	}
	b := binary.LittleEndian.AppendUint64(nil, l.fence)
	if _, err := f.WriteAt(append(entryHead(nil, entryTake, st.seq+1, nil, b), b...), int64(st.end)); err != nil {
		return nil, false, errors.Join(err, f.Truncate(int64(st.end)))
	}
	if !s.noSync && st.committed {
		if err := f.Sync(); err != nil {
			return nil, false, err
		}
	}
	s.at("taken")
	if claimed, err := readClaim(f); claimed || err != nil {
		return nil, err == nil, err
	}
	l.seq, l.end = st.seq+1, st.end+sizeEntry+8
	_ = l.slot.write(f)
	l.file.Store(f)
	return l, false, nil
}

// replaceHolder ends a generation, which its holder may be writing to, and goes on in
// a new one. First it is claimed: whoever writes looks for that after each write.
// Then what is there is read, and its end agreed on, by link(2), with the holder if
// he should wake. What he wrote before that end is committed, and he is told so;
// what he wrote behind it nobody reads.
func (s *fileStore) replaceHolder(k Key, d *folder, n uint64, f *os.File, o AcquireOptions) (*fileLease, bool, error) {
	if err := claim(f); err != nil {
		return nil, false, err
	}
	s.at("claimed")
	st, err := scan(f, math.MaxUint64)
	if err != nil {
		return nil, false, err
	}
	s.at("read")
	end, err := s.agree(*d, n, st.seq)
	s.at("agreed")
	if err != nil {
		return nil, errors.Is(err, unix.ENOENT), ignoreMissing(err)
	}
	if end != st.seq {
		if st, err = scan(f, end); err != nil {
			return nil, false, err
		}
		if st.seq != end {
			return nil, false, damaged("generation %d ends at entry %d and was to end at %d", n, st.seq, end)
		}
	}
	var r *Record
	if st.committed {
		r = &Record{st.body, st.head}
	} else if !o.Create {
		return nil, false, ErrNotFound
	}
	return s.next(k, d, n, st.fence+1, r, st.settled)
}

// claim says that a generation is gone on from.
func claim(f *os.File) error {
	_, err := f.WriteAt([]byte{1, 0, 0, 0}, atClaim)
	return err
}

func readClaim(f *os.File) (bool, error) {
	var b [4]byte
	_, err := f.ReadAt(b[:], atClaim)
	return isClaimed(b[:]), err
}

// fill writes a draft's contents.
func (d *draft) fill(k Key, fence uint64, deleted, settled bool, r *Record) (slot, error) {
	start, sl := newGeneration(k, fence, deleted, settled, r)
	_, err := d.f.WriteAt(start, 0)
	if err == nil && r != nil {
		_, err = d.f.WriteAt(r.Journal, int64(len(start)))
	}
	return sl, err
}

func (s *fileStore) List(ctx context.Context, owner string) ([]Info, error) {
	if err := CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.use.RLock()
	defer s.use.RUnlock()
	if s.isClosed() {
		return nil, ErrClosed
	}
	o, err := s.all.sub(OwnerName(owner), false)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer o.close()
	names, err := o.names()
	if err != nil {
		return nil, err
	}
	var all []Info
	var bad error
	for _, name := range names {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		info, err := listOne(o, name)
		bad = errors.Join(bad, ignoreMissing(err))
		if err == nil && info != nil && info.Key.Owner == owner {
			all = append(all, *info)
		}
	}
	return all, bad
}

// listOne tells of one session, and nothing of one that is none.
func listOne(o folder, name string) (*Info, error) {
	d, err := o.sub(name, false)
	if err != nil {
		return nil, err
	}
	defer d.close()
	n, err := d.newest()
	if err != nil || n == 0 {
		return nil, err
	}
	f, err := d.open(generation(n), unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := scan(f, 1)
	if err != nil || st.deleted {
		return nil, err
	}
	header := make([]byte, sizeHeader)
	if _, err := f.ReadAt(header, 0); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	at := bestSlot(header)
	if at.end != uint64(info.Size()) {
		whole, err := scan(f, math.MaxUint64)
		if err != nil {
			return nil, err
		}
		at = whole.slot
	}
	if !at.committed {
		return nil, nil
	}
	return &Info{Key: st.key, Bytes: int64(at.journal), Held: isLocked(f)}, nil
}

func (s *fileStore) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.beaten
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	<-s.beaten
	s.use.Lock() // those who try have ended, and no others begin
	defer s.use.Unlock()
	var err error
	for _, l := range s.held() {
		err = errors.Join(err, l.give(ErrClosed))
	}
	s.closeFolders()
	return err
}

// held are the leases that hold.
func (s *fileStore) held() []*fileLease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.leases))
}

// beats shows that this process lives, for each lease.
func (s *fileStore) beats() {
	defer close(s.beaten)
	tick := time.NewTicker(s.ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.done:
			return
		}
		for _, l := range s.held() {
			l.show()
		}
	}
}
