// Package budget is the one ledger of what a service may use: memory, processes,
// descriptors and disk. Slots, warm cells, uploads, streams and caches all take from
// it, so that their sum never is more than the machine has. It knows nothing of
// what it is taken for.
package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Amount is how much of each resource: bytes of memory, processes (threads
// included), descriptors, bytes of disk. Zero is none of it.
type Amount struct {
	Memory, Processes, Descriptors, Disk int64
}

// resources are an amount's parts with their names and units, in the order in which
// they are looked at.
func (a Amount) resources() [4]resource {
	return [4]resource{
		{"memory", "bytes", a.Memory}, {"processes", "processes", a.Processes},
		{"descriptors", "descriptors", a.Descriptors}, {"disk", "bytes", a.Disk},
	}
}

type resource struct {
	name, unit string
	n          int64
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Memory + b.Memory, a.Processes + b.Processes, a.Descriptors + b.Descriptors, a.Disk + b.Disk}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Memory - b.Memory, a.Processes - b.Processes, a.Descriptors - b.Descriptors, a.Disk - b.Disk}
}

// max is the larger of two amounts, resource by resource.
func (a Amount) max(b Amount) Amount {
	return Amount{max(a.Memory, b.Memory), max(a.Processes, b.Processes), max(a.Descriptors, b.Descriptors), max(a.Disk, b.Disk)}
}

// short is the first resource of which an amount is more than what is left.
func (a Amount) short(left Amount) (resource, int64, bool) {
	l := left.resources()
	for i, r := range a.resources() {
		if r.n > l[i].n {
			return r, l[i].n, true
		}
	}
	return resource{}, 0, false
}

var (
	// ErrTooMuch says that a need is more than there is in all, so that waiting would
	// not help, or that it is negative.
	ErrTooMuch = errors.New("budget: more than there is")
	// ErrShort says that others have it, or wait for it.
	ErrShort = errors.New("budget: nothing left")
)

// Budget is a ledger. It is safe for concurrent use.
type Budget struct {
	mu      sync.Mutex
	total   Amount
	most    Amount // total without the reserve
	used    Amount
	peak    Amount
	waiting []*waiter
	pools   []func(Amount)
}

type waiter struct {
	need    Amount
	granted chan struct{}
}

// New makes a ledger of total, of which reserve is for [Budget.Control] alone. It
// panics if a part of reserve is negative or more than that of total.
func New(total, reserve Amount) *Budget {
	if _, _, more := reserve.short(total); more {
		panic(fmt.Sprintf("budget: a reserve of %+v in %+v", reserve, total))
	}
	if _, _, negative := (Amount{}).short(reserve); negative {
		panic(fmt.Sprintf("budget: a reserve of %+v", reserve))
	}
	return &Budget{total: total, most: total.minus(reserve)}
}

// Total is what there is in all, the reserve included.
func (b *Budget) Total() Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Split takes an amount out as a ledger of its own, until it is given back: what needs
// more than is left then is refused, and does not wait for it. The error is that of
// [Budget.Try].
func (b *Budget) Split(part Amount) (own *Budget, giveBack func(), err error) {
	if err := b.possible(part, false); err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, left, short := part.short(b.most.minus(b.used)); short {
		return nil, nil, tooShort(r, left)
	}
	b.total, b.most = b.total.minus(part), b.most.minus(part)
	return New(part, Amount{}), sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.total, b.most = b.total.plus(part), b.most.plus(part)
		b.grant()
	}), nil
}

// InUse is what is taken now.
func (b *Budget) InUse() Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Peak is the most of each resource that was taken at once.
func (b *Budget) Peak() Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Waiting is how many wait in Acquire.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// OnPressure names a function that gives up what is kept only to be fast, warm cells
// for example, up to the amount that is wanted. It is called before somebody has to
// wait or is refused, without any lock, by several at once. It returns when what it
// gave up has been released.
func (b *Budget) OnPressure(shrink func(wanted Amount)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pools = append(b.pools, shrink)
}

// Acquire takes an amount, and waits for it if it must: whoever came first gets it
// first, so that a large need is not overtaken for ever. release gives it back; it
// may be called more than once. The error wraps [ErrTooMuch] and names the resource,
// or is the context's cause; nothing was taken then.
func (b *Budget) Acquire(ctx context.Context, need Amount) (release func(), err error) {
	if err := b.possible(need, false); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if b.take(need) == nil || b.shrink(need) && b.take(need) == nil {
		return b.releaser(need), nil
	}
	b.mu.Lock()
	w := &waiter{need, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.grant() // something may have been given back meanwhile
	b.mu.Unlock()
	select {
	case <-w.granted:
		return b.releaser(need), nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.grant() // it may have been in the way of others
			return nil, context.Cause(ctx)
		}
	}
	b.put(need) // it was granted in the same moment
	return nil, context.Cause(ctx)
}

// Try is Acquire that does not wait: the error wraps [ErrShort] too, and names the
// resource. It does not overtake those who wait.
func (b *Budget) Try(need Amount) (release func(), err error) {
	if err := b.possible(need, false); err != nil {
		return nil, err
	}
	err = b.take(need)
	if err != nil && b.shrink(need) {
		err = b.take(need)
	}
	if err != nil {
		return nil, err
	}
	return b.releaser(need), nil
}

// Control is Try for what keeps the service in hand: cancelling, collecting, the
// operator's questions. It has the reserve too, and waits for nobody.
func (b *Budget) Control(need Amount) (release func(), err error) {
	if err := b.possible(need, true); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, left, short := need.short(b.total.minus(b.used)); short {
		return nil, tooShort(r, left)
	}
	b.add(need)
	return b.releaser(need), nil
}

func (b *Budget) possible(need Amount, reserve bool) error {
	b.mu.Lock()
	most := b.most
	if reserve {
		most = b.total
	}
	b.mu.Unlock()
	if r, _, negative := (Amount{}).short(need); negative {
		return fmt.Errorf("%w: %s: a negative need", ErrTooMuch, r.name)
	}
	if r, n, more := need.short(most); more {
		return fmt.Errorf("%w: %s: %d %s are needed, and there are %d in all", ErrTooMuch, r.name, r.n, r.unit, n)
	}
	return nil
}

func tooShort(r resource, left int64) error {
	return fmt.Errorf("%w: %s: %d %s are needed, and %d are left", ErrShort, r.name, r.n, r.unit, max(left, 0))
}

func (b *Budget) take(need Amount) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		return fmt.Errorf("%w: %d wait already", ErrShort, len(b.waiting))
	}
	if r, left, short := need.short(b.most.minus(b.used)); short {
		return tooShort(r, left)
	}
	b.add(need)
	return nil
}

// shrink asks the pools, and says whether there are any.
func (b *Budget) shrink(need Amount) bool {
	b.mu.Lock()
	pools := b.pools
	b.mu.Unlock()
	for _, p := range pools {
		p(need)
	}
	return len(pools) > 0
}

func (b *Budget) add(need Amount) {
	b.used = b.used.plus(need)
	b.peak = b.peak.max(b.used)
}

func (b *Budget) put(need Amount) {
	b.used = b.used.minus(need)
	b.grant()
}

// grant gives to those who wait, in their order, until one has to wait on.
func (b *Budget) grant() {
	for len(b.waiting) > 0 {
		w := b.waiting[0]
		if _, _, short := w.need.short(b.most.minus(b.used)); short {
			return
		}
		b.add(w.need)
		b.waiting = b.waiting[1:]
		close(w.granted)
	}
}

func (b *Budget) releaser(need Amount) func() {
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.put(need)
	})
}
