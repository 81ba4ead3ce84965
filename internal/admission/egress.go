package admission

import (
	"fmt"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
)

// maxEgress is how many clients' bytes are known at once: twice as many at most.
const maxEgress = 16 << 10

// egress counts what was sent in an hour, in memory: what is not known after a restart
// are bytes, of which the hour and all clients together have a bound. Clients that are
// not heard of while maxEgress others are drop out.
type egress struct {
	mu       sync.Mutex
	window   int64
	all      int64
	now, old map[string]int64
}

// Egress counts bytes that are about to be sent to a client, or refuses them: the error
// is an *api.ServiceError with the code quota, for all of the service busy. Without
// quotas, and for the operator, it does nothing.
func (a *Admission) Egress(c Client, bytes int64) error {
	if !a.o.Quotas || c.Kind == Operator || bytes <= 0 {
		return nil
	}
	limit := a.o.EgressPerHour
	if c.Kind == KeyHolder {
		limit = a.o.KeyEgressPerHour
	}
	e := &a.egress
	e.mu.Lock()
	defer e.mu.Unlock()
	now := a.o.Now()
	begin := now.Unix() / 3600
	if begin > e.window || begin < e.window-1 { // a clock that goes back a little gives nothing back
		e.window, e.all, e.now, e.old = begin, 0, nil, nil
	}
	left := (e.window+1)*3600_000 - now.UnixMilli()
	wait := min(max(left, 1000), hour.Milliseconds())
	used, known := e.now[c.ID]
	if !known {
		used = e.old[c.ID]
	}
	if bytes > limit-used {
		return &api.ServiceError{Code: api.CodeQuota, RetryAfterMS: wait, Message: fmt.Sprintf("a client may be sent %d bytes in an hour", limit)}
	}
	at := "" // the keys of an address have three quarters of all at most
	if c.Kind == KeyHolder {
		at = c.place()
	}
	usedAt, knownAt := e.now[at]
	if !knownAt {
		usedAt = e.old[at]
	}
	if most := a.o.EgressInAll / 4 * 3; at != "" && bytes > most-usedAt {
		return &api.ServiceError{Code: api.CodeQuota, RetryAfterMS: wait, Message: fmt.Sprintf("the keys of an address may be sent %d bytes in an hour", most)}
	}
	if bytes > a.o.EgressInAll-e.all {
		return &api.ServiceError{Code: api.CodeBusy, RetryAfterMS: wait, Message: "the service has sent as much as it may in an hour"}
	}
	if !(known && (knownAt || at == "")) && len(e.now) >= maxEgress {
		e.old, e.now = e.now, nil
	}
	if e.now == nil {
		e.now = map[string]int64{}
	}
	e.now[c.ID] = used + bytes
	if at != "" {
		e.now[at] = usedAt + bytes
	}
	e.all += bytes
	return nil
}
