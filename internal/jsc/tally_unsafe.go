package jsc

import (
	"errors"
	"math/rand/v2"
	"unsafe"
)

// TallySlots is how many objects one call hands to a Tally. TallySmall is the
// size up to which an object is a small one.
const (
	TallySlots = 32
	TallySmall = 1280
)

// Places in what a Tally shares with the script, behind the sizes.
const (
	tallyCount = TallySlots + iota // how many objects the call has; in Sweep's, whether to collect
	tallyTotal                     // bytes of all objects that may live
	tallyWords
)

// Tally adds up the bytes of objects for as long as each lives. It holds them
// weakly, so that it keeps none alive: what the language's own WeakRef cannot
// do within one job.
type Tally struct {
	c      *Context
	shared *Value
	words  []float64 // the memory of shared
	refs   []uintptr // the engine's weak references
	sizes  []float64
	total  float64
	next   int // entries at which the dead are looked for
}

// tallyFirst is the least number of entries among which the dead are looked for.
const tallyFirst = 1 << 12

// NewTally makes a Tally for the script of a realm.
func (r *Realm) NewTally() (*Tally, error) {
	shared, err := r.Array(Float64, make([]byte, 8*tallyWords))
	if err != nil {
		return nil, err
	}
	c := r.c
	data, _, err := c.memory(call(c.fn.objectTypedArrayBuffer, c.ref, shared.ref, 0))
	if err != nil || len(data) != 8*tallyWords {
		return nil, errors.Join(errors.New("jsc: no memory for a tally"), err)
	}
	words := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(data))), tallyWords)
	return &Tally{c: c, shared: shared, words: words, next: tallyFirst}, nil
}

// Shared is a Float64Array: first the sizes of the objects that the script hands
// to Add, TallySlots of them, then their number, then the total that Add and
// Sweep leave. Its memory must stay what it is: it never leaves the script.
func (t *Tally) Shared() *Value { return t.shared }

// Add is the Handler of the function that takes the objects whose sizes are in
// Shared. An object may come more than once, each time with a further size.
//
// A weak reference costs ten times what a small object does. So of the small
// ones of a call only one is held, chosen by chance with the weight of its size,
// and has the sizes of all: what lives of them is right on average, and a guest
// does not know whose death gives back what.
func (t *Tally) Add(k *Call) (*Value, error) {
	n := int(t.words[tallyCount])
	if n < 0 || n > TallySlots || n > k.argc {
		return nil, errors.New("jsc: a tally of other arguments")
	}
	refs, small, sum := unsafe.Slice((*uintptr)(pointer(k.argv)), n), 0, 0.0
	for i, ref := range refs {
		size := t.words[i]
		if size > TallySmall {
			if err := t.hold(ref, size); err != nil {
				return nil, err
			}
			continue
		}
		sum += size
		if rand.Float64()*sum < size { // the i-th stays with its share of the sum so far
			small = i
		}
	}
	if sum > 0 {
		if err := t.hold(refs[small], sum); err != nil {
			return nil, err
		}
	}
	if len(t.refs) >= t.next {
		t.forget()
	}
	t.words[tallyTotal] = t.total
	return nil, nil
}

// hold adds an entry.
func (t *Tally) hold(ref uintptr, size float64) error {
	weak := call(t.c.fn.weakCreate, t.c.group, ref)
	if weak == 0 {
		return errors.New("jsc: no weak reference")
	}
	t.refs, t.sizes = append(t.refs, weak), append(t.sizes, size)
	t.total += size
	return nil
}

// Sweep is the Handler of the function that takes away what is dead, after a
// full collection if the script's number in Shared is not 0.
func (t *Tally) Sweep(*Call) (*Value, error) {
	if t.words[tallyCount] != 0 {
		call(t.c.fn.garbageCollect, t.c.ref)
	}
	t.forget()
	t.words[tallyTotal] = t.total
	return nil, nil
}

// forget drops the entries of objects that the collector has taken.
func (t *Tally) forget() {
	live := 0
	t.total = 0 // added up anew, so that no error of rounding stays
	for i, weak := range t.refs {
		if call(t.c.fn.weakGetObject, weak) == 0 {
			call(t.c.fn.weakRelease, t.c.group, weak)
			continue
		}
		t.refs[live], t.sizes[live] = weak, t.sizes[i]
		t.total += t.sizes[i]
		live++
	}
	t.refs, t.sizes = t.refs[:live], t.sizes[:live]
	t.next = max(tallyFirst, 2*live)
}
