package wire

import (
	"hash/maphash"
	"math/bits"
)

// keySet finds keys that occur twice. Its hash is seeded at random for each
// process, so that nobody can prepare keys that collide.
// Should it happen all the same, looking ends: LimitError "collisions".
type keySet struct {
	slots []uint32
	hash  func(string) uint64 // of tests; nil is the seeded one
}

var keySeed = maphash.MakeSeed()

// few is up to how many keys comparing each with each is cheaper.
const few = 8

// slotsFor returns how many slots n keys need.
func slotsFor(n int) int {
	if n <= few {
		return 0
	}
	return 1 << bits.Len(uint(n+n/2))
}

// probes is how many slots are looked at for each key, on the average. Two are
// to be expected.
const probes = 16

// distinct reports whether no key occurs twice. The error is a LimitError.
func (s *keySet) distinct(keys []string) (bool, error) {
	if len(keys) <= few {
		for i, k := range keys {
			for _, l := range keys[:i] {
				if k == l {
					return false, nil
				}
			}
		}
		return true, nil
	}
	hash := s.hash
	if hash == nil {
		hash = func(k string) uint64 { return maphash.String(keySeed, k) }
	}
	n := slotsFor(len(keys))
	if len(s.slots) < n {
		s.slots = make([]uint32, n)
	} else {
		clear(s.slots[:n])
	}
	mask, patience := n-1, probes*len(keys)
	for i, k := range keys {
		at := int(hash(k)) & mask
		for ; s.slots[at] != 0; at = (at + 1) & mask {
			if keys[s.slots[at]-1] == k {
				return false, nil
			}
			if patience--; patience < 0 {
				return false, &LimitError{"collisions", probes * len(keys)}
			}
		}
		s.slots[at] = uint32(i + 1)
	}
	return true, nil
}
