package server

import (
	"sync"

	"github.com/glovebox-dev/glovebox/internal/budget"
)

// room is the memory of bodies and answers: a part of the budget of their own, so that
// they keep no run waiting and no run keeps them out, and of which one client has three
// quarters at most, whatever keys it shows.
type room struct {
	all  *budget.Budget
	most int64 // of one client
	give func()

	mu   sync.Mutex
	held map[string]int64
}

// newRoom takes an eighth of a budget, or as much as two of the longest bodies need.
func newRoom(b *budget.Budget, maxBody int64) (*room, error) {
	total := b.Total().Memory
	part := min(max(total/8, 2*bodyCost*maxBody), total/2)
	own, give, err := b.Split(budget.Amount{Memory: part})
	if err != nil {
		return nil, err
	}
	return &room{all: own, most: part / 4 * 3, give: give, held: map[string]int64{}}, nil
}

// take takes memory for a client, and says whether there was so much.
func (m *room) take(client string, bytes int64) (release func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes > m.most-m.held[client] {
		return nil, false
	}
	give, err := m.all.Try(budget.Amount{Memory: bytes})
	if err != nil {
		return nil, false
	}
	m.held[client] += bytes
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		give()
		if m.held[client] -= bytes; m.held[client] == 0 {
			delete(m.held, client)
		}
	}), true
}

// hold takes memory for a request until it is answered, and says whether there was so
// much.
func (s *Server) hold(r *request, bytes int64) bool {
	if bytes == 0 {
		return true
	}
	release, ok := s.room.take(r.client.Net, bytes)
	if ok {
		r.release = append(r.release, release)
	}
	return ok
}
