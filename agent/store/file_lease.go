package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
)

type fileLease struct {
	s     *fileStore
	key   Key
	fence uint64
	lost  chan struct{}
	file  atomic.Pointer[os.File] // locked; changed under mu
	beat  atomic.Uint64

	mu    sync.Mutex
	over  error // why it holds no longer
	d     *folder
	n     uint64    // the generation
	slot            // how far it goes
	cache *logState // what was read when it was taken, until something is written
	buf   []byte
}

func (l *fileLease) Key() Key              { return l.key }
func (l *fileLease) Fence() uint64         { return l.fence }
func (l *fileLease) Lost() <-chan struct{} { return l.lost }

// enter locks the lease, if it holds.
func (l *fileLease) enter(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return l.over
	}
	return nil
}

// finish ends the lease and lets others have the session, with mu held.
func (l *fileLease) finish(why error, maybeEmpty bool) {
	l.over = why
	close(l.lost)
	give(l.file.Load())
	l.s.leave(l.key, l.d, maybeEmpty)
	l.cache, l.buf = nil, nil
	l.s.mu.Lock()
	delete(l.s.leases, l)
	l.s.mu.Unlock()
	l.s.bells.ring(l.key)
}

// fenced ends a lease that another has taken.
func (l *fileLease) fenced() error {
	l.finish(ErrFenced, true)
	return ErrFenced
}

// broken ends a lease of which it is not known what is on the disk.
func (l *fileLease) broken(err error) error {
	l.finish(fmt.Errorf("the lease ended by an error: %w", err), false)
	return err
}

// show moves the counter that those who wait look at, and looks for a claim.
func (l *fileLease) show() {
	f := l.file.Load()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], l.beat.Add(1))
	_, _ = f.WriteAt(b[:], atBeat) // closed, or a disk that the next commit will tell of
	if claimed, err := readClaim(f); !claimed || err != nil {
		return
	}
	if !l.mu.TryLock() {
		return // whoever writes sees it himself
	}
	defer l.mu.Unlock()
	if l.over == nil && l.file.Load() == f {
		_ = l.fenced()
	}
}

func (l *fileLease) Load(ctx context.Context) (Record, error) {
	if err := l.enter(ctx); err != nil {
		return Record{}, err
	}
	defer l.mu.Unlock()
	f, st := l.file.Load(), l.cache
	l.cache = nil
	if st == nil {
		var err error
		if st, err = scan(f, l.seq); err != nil {
			return Record{}, err
		}
	}
	switch claimed, err := readClaim(f); {
	case err != nil:
		return Record{}, err
	case claimed:
		return Record{}, l.fenced()
	}
	return Record{st.body, st.head}, nil
}

// oneWrite is the largest body that is copied to be written with its beginning.
const oneWrite = 64 << 10

func (l *fileLease) Append(ctx context.Context, frames, head []byte) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := bounds(int(l.journal), len(frames), len(head)); err != nil {
		return err
	}
	if l.seq == math.MaxUint64 {
		return ErrTooLarge
	}
	f := l.file.Load()
	l.s.at("append")
	if err := l.write(f, frames, head); err != nil {
		// What is there is no whole entry, which nobody takes for one.
		if cut := f.Truncate(int64(l.end)); cut != nil {
			return l.broken(errors.Join(err, cut))
		}
		return err
	}
	if !l.s.noSync {
		if err := l.sync(f); err != nil {
			return l.broken(err)
		}
	}
	l.s.at("written")
	size := sizeEntry + uint64(len(head)+len(frames))
	switch claimed, err := readClaim(f); {
	case err != nil:
		return l.broken(err)
	case claimed:
		return l.wasClaimed()
	}
	l.cache = nil
	l.seq, l.end, l.journal, l.committed = l.seq+1, l.end+size, l.journal+uint64(len(frames)), true
	_ = l.slot.write(f) // it is committed: the slot is for those who cut files
	return nil
}

func (l *fileLease) write(f *os.File, frames, head []byte) error {
	b := entryHead(l.buf[:0], entryCommit, l.seq+1, head, frames)
	at := int64(l.end)
	if len(frames) <= oneWrite {
		b, frames = append(b, frames...), nil
	}
	l.buf = b
	_, err := f.WriteAt(b, at)
	if err == nil && len(frames) > 0 {
		_, err = f.WriteAt(frames, at+int64(len(b)))
	}
	return err
}

// sync brings an entry to the disk, and the first one with the folders above.
func (l *fileLease) sync(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if l.settled {
		return nil
	}
	if err := l.s.settle(l.key, l.d); err != nil {
		return err
	}
	l.settled = true
	return nil
}

// wasClaimed ends the lease of one who has just written an entry, and finds out
// whether that is before the agreed end.
func (l *fileLease) wasClaimed() error {
	l.s.at("fenced")
	end, err := l.s.agree(*l.d, l.n, l.seq+1)
	if err != nil {
		err = fmt.Errorf("it is not known whether the last record was taken over: %w", err)
	} else if end < l.seq+1 {
		err = ErrFenced
	}
	l.finish(ErrFenced, true)
	return err
}

func (l *fileLease) Replace(ctx context.Context, journal, head []byte) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := bounds(0, len(journal), len(head)); err != nil {
		return err
	}
	w, err := l.s.draft()
	if err != nil {
		return err
	}
	sl, err := w.fill(l.key, l.fence, false, !l.s.noSync, &Record{journal, head})
	if err == nil && !l.s.noSync && !l.settled {
		err = l.s.settle(l.key, l.d)
	}
	if err != nil {
		w.drop()
		return err
	}
	l.s.at("replacement")
	if err := l.follow(w, !l.s.noSync); err != nil {
		return err
	}
	old := l.file.Swap(w.f)
	l.n, l.slot, l.cache = l.n+1, sl, nil
	give(old)
	l.d.tidy(l.n)
	return nil
}

// follow makes a draft the next generation, or ends the lease and the draft.
func (l *fileLease) follow(w *draft, sync bool) error {
	claimed, err := readClaim(l.file.Load())
	if err != nil || claimed {
		w.drop()
		if err != nil {
			return err
		}
		return l.fenced()
	}
	l.s.at("unclaimed")
	switch ok, err := w.follow(*l.d, l.n, sync); {
	case err != nil:
		w.drop()
		return l.broken(err) // it may be there
	case !ok:
		w.drop()
		return l.fenced()
	}
	return nil
}

func (l *fileLease) Delete(ctx context.Context) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	return l.remove(ErrReleased)
}

// remove deletes the session: a generation that says so, and then the folder.
func (l *fileLease) remove(why error) error {
	w, err := l.s.draft()
	if err != nil {
		return err
	}
	if _, err := w.fill(l.key, l.fence, true, false, nil); err != nil {
		w.drop()
		return err
	}
	l.s.at("tombstone")
	if err := l.follow(w, l.committed && !l.s.noSync); err != nil {
		return err
	}
	w.drop() // it has its place
	l.s.at("deleted")
	l.finish(why, true)
	return nil
}

func (l *fileLease) Release(context.Context) error { return l.give(ErrReleased) }

// give lets others have the session, for good or not.
func (l *fileLease) give(why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return nil
	}
	if l.committed {
		claimed, _ := readClaim(l.file.Load()) // then what came after may be gone too
		l.finish(why, claimed)
		return nil
	}
	err := l.remove(why)
	if l.over == nil {
		l.finish(why, false)
	}
	if errors.Is(err, ErrFenced) {
		return nil
	}
	return err
}
