package cell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Host ids that a host program started by root gives to its cells. The range
// lies above what systemd and subordinate ids use (systemd, UIDS-GIDS.md:
// 1879048192 to 2147483647 is unused), and never holds 65534.
const (
	idBase   = 1_900_000_000
	idBlock  = 4096 // ids of one host program; the first is launcher and init
	idBlocks = 1024
)

// idDir holds one lock file a block, so that two host programs never share one.
const idDir = "/run/glovebox/ids"

// idRange hands out the uids of live cells. It is safe for concurrent use.
type idRange struct {
	lock *os.File
	base int

	keepGroups bool // negative controls only

	mu   sync.Mutex
	next int
	used map[int]bool
}

// takeIDs locks a free block for as long as this process lives.
func takeIDs() (*idRange, error) {
	if err := os.MkdirAll(idDir, 0o700); err != nil {
		return nil, err
	}
	for n := range idBlocks {
		f, err := os.OpenFile(filepath.Join(idDir, fmt.Sprint(n)), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &idRange{lock: f, base: idBase + n*idBlock, next: 1, used: map[int]bool{}}, nil
		}
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
	}
	return nil, errors.New("every block of user ids is taken")
}

// take returns an id, as a number inside the launcher's namespace, that no live
// cell has and that was not given back recently.
func (r *idRange) take() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range idBlock {
		id := r.next
		if r.next++; r.next >= idBlock {
			r.next = 1
		}
		if !r.used[id] {
			r.used[id] = true
			return id, nil
		}
	}
	return 0, errors.New("every user id of this block is in use")
}

func (r *idRange) give(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.used, id)
}

func (r *idRange) close() { r.lock.Close() }
