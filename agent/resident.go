package agent

import (
	"container/list"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// residents are the guests of sessions that were released: whoever takes the same
// session next needs no replay, if nobody else has had it. The one that was used
// longest ago goes first. It also remembers how long each session was, so that an
// older one is seen.
type residents struct {
	most int // guests

	mu     sync.Mutex
	byKey  map[store.Key]*list.Element // of *resident
	order  *list.List                  // the latest first
	guests int
	owners map[string]int64 // sessions that are out, by owner
	queue  int              // who waits for a worker
	closed bool
}

// resident is one session that was released. Without a guest it is a head alone.
type resident struct {
	key   store.Key
	head  journal.Head // where its journal ended
	rt    *js.Runtime  // nil: given up
	feed  *feed
	tools *ToolSet
	tool  string // hash of its catalog
	timer *time.Timer
}

// mostCounts is how many sessions are remembered.
const mostCounts = 100_000

// enter counts a session of an owner.
func (r *residents) enter(owner string, most int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners[owner] >= most {
		return sessionFailed(SessionBudget, "limits.per_owner, which is %d, has no room for another session of this owner", most)
	}
	r.owners[owner]++
	return nil
}

func (r *residents) leave(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners[owner]--; r.owners[owner] <= 0 {
		delete(r.owners, owner)
	}
}

// waits counts who waits for a worker, and says how many do. It is said before it
// is looked whether there is one: whoever keeps a guest looks at it first.
func (r *residents) waits(more int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue += more
	return r.queue
}

// put keeps the guest of a session for a while.
func (r *residents) put(s *Session, stay time.Duration) {
	head := s.w.Head()
	one := &resident{key: s.key, head: head, rt: s.rt, feed: s.feed, tools: s.tools, tool: s.catalog.hash}
	if s.rt == nil {
		one.feed, one.tools = nil, nil
	}
	r.mu.Lock()
	if old := r.remove(s.key); old != nil {
		go old.drop()
	}
	if r.closed {
		r.mu.Unlock()
		one.drop()
		return
	}
	r.byKey[s.key] = r.order.PushFront(one)
	if one.rt != nil {
		r.guests++
		one.timer = time.AfterFunc(stay, func() { r.evict(one) })
	}
	var gone []*resident
	for e := r.order.Back(); e != nil && r.guests > r.most; e = e.Prev() {
		if g := r.quit(e.Value.(*resident)); g != nil {
			gone = append(gone, g)
		}
	}
	for len(r.byKey) > mostCounts {
		gone = append(gone, r.remove(r.order.Back().Value.(*resident).key))
	}
	r.mu.Unlock()
	for _, g := range gone {
		g.drop()
	}
	if s.pool.short() {
		r.evict(one)
	}
}

// quit takes the guest of a resident away and returns what is to be dropped; its
// head stays.
func (r *residents) quit(one *resident) *resident {
	if one.rt == nil {
		return nil
	}
	gone := &resident{rt: one.rt, timer: one.timer}
	one.rt, one.feed, one.tools = nil, nil, nil
	r.guests--
	return gone
}

// evict ends a guest whose time is over.
func (r *residents) evict(one *resident) {
	r.mu.Lock()
	gone := r.quit(one)
	r.mu.Unlock()
	gone.drop()
}

// evictOne makes room for another worker; false if there is none to give up.
func (r *residents) evictOne() bool {
	r.mu.Lock()
	var gone *resident
	for e := r.order.Back(); e != nil && gone == nil; e = e.Prev() {
		gone = r.quit(e.Value.(*resident))
	}
	r.mu.Unlock()
	gone.drop()
	return gone != nil
}

// take returns what is known of a session, nil for nothing. The guest is the
// caller's from now on; how long the session was is not forgotten.
func (r *residents) take(k store.Key) *resident {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[k]
	if e == nil {
		return nil
	}
	one := e.Value.(*resident)
	taken := *one
	if r.quit(one) == nil {
		taken.rt = nil
	} else if taken.timer != nil {
		taken.timer.Stop()
	}
	return &taken
}

// remove forgets a session and returns what is to be dropped, for who has the lock.
func (r *residents) remove(k store.Key) *resident {
	e := r.byKey[k]
	if e == nil {
		return nil
	}
	delete(r.byKey, k)
	r.order.Remove(e)
	return r.quit(e.Value.(*resident)) // so that its timer finds nothing to count
}

// forget drops a session that was deleted.
func (r *residents) forget(k store.Key) {
	r.mu.Lock()
	one := r.remove(k)
	r.mu.Unlock()
	one.drop()
}

// close ends all guests.
func (r *residents) close() {
	r.mu.Lock()
	r.closed = true
	var all []*resident
	for k := range r.byKey {
		all = append(all, r.remove(k))
	}
	r.mu.Unlock()
	for _, one := range all {
		one.drop()
	}
}

// drop ends the guest.
func (one *resident) drop() {
	if one == nil {
		return
	}
	if one.timer != nil {
		one.timer.Stop()
	}
	if one.rt != nil {
		_ = one.rt.Close()
	}
}

// older tells whether a session ends before where it was when it was released here.
func (one *resident) older(h journal.Head) bool {
	return one != nil && h.Count < one.head.Count && h.Session == one.head.Session
}

// older is that of what is known of a session.
func (r *residents) older(k store.Key, h journal.Head) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[k]
	return e != nil && e.Value.(*resident).older(h)
}

// fits tells whether the guest is that of a session that was loaded.
func (one *resident) fits(s *Session) bool {
	return one != nil && one.rt != nil && one.rt.Alive() && one.head == s.w.Head() && one.tool == s.catalog.hash
}
