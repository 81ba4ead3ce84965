package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// flood has a client of each of many networks ask for a run, until one is refused, and
// says how many got in.
func flood(t *testing.T, a *Admission, most int) (in int, refused api.Code) {
	t.Helper()
	for i := range most {
		c := a.anonymous(peerOf(fmt.Sprintf("[2001:%x:%x::1]:1", i>>16, i&0xffff)))
		p, err := a.Admit(t.Context(), c, Request{ID: credential.Run.New()})
		if refused = code(t, err); refused != "" {
			return i, refused
		}
		p.Accepted()
		a.Done(p.r.ID)
	}
	return most, ""
}

// Addresses that fill the room for their counters are refused for want of it, and what
// was counted stays: nothing is dropped to make room. Keys have a room of their own.
//
// proves part of H-47
func TestFloodedAsRoot(t *testing.T) {
	inOneHour()
	small := newQueue(t, queue.Options{MaxBytes: 64 << 20})
	a := open(t, Options{Queue: small, Quotas: true})
	first := identify(t, a, "192.0.2.1:1")
	runs(t, a, first, 20)
	made, err := a.CreateKey(t.Context(), first)
	must(t, err)
	key := identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+made.Key)

	in, refused := flood(t, a, 50_000)
	t.Logf("%d clients got in, then %s", in, refused)
	if refused != api.CodeStorage {
		t.Error("the flood has no end:", refused)
	}
	if n, refused := runs(t, a, key, 5); n != 5 {
		t.Error("a key:", refused)
	}
	if r, _, err := a.Quotas(t.Context(), first); err != nil || r.Used != 20 {
		t.Errorf("what was counted is gone: %+v %v", r, err)
	}
	if _, _, refused := admit(t, a, first); refused != api.CodeQuota && refused != api.CodeStorage {
		t.Error(refused)
	}
	refusals := 0 // what is small may still find a place, where another counter is small
	for i := range 20 {
		if _, err := a.CreateKey(t.Context(), identify(t, a, fmt.Sprintf("198.51.%d.1:1", i))); err != nil {
			refusals++
			if code(t, err) != api.CodeStorage {
				t.Error("a key for one of them:", err)
			}
		}
	}
	if refusals == 0 {
		t.Error("keys for all of them")
	}
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
	if n, refused := flood(t, open(t, Options{Quotas: true}), in+1000); refused != "" {
		t.Errorf("control: with more room %d got in, then %s", n, refused)
	}
}

// A queue that is full gives the charge back, and the run that it has keeps its place.
//
// proves part of H-47
func TestFullQueue(t *testing.T) {
	inOneHour()
	a := open(t, Options{Queue: newQueue(t, queue.Options{MaxJobs: 2}), Quotas: true})
	c := identify(t, a, "192.0.2.1:1")
	var answers []string
	for range 4 {
		id := credential.Run.New()
		p, err := a.Admit(t.Context(), c, Request{ID: id})
		must(t, err)
		err = a.o.Queue.Submit(t.Context(), queue.Job{ID: id, Client: c.ID})
		p.Settle(t.Context(), err)
		answers = append(answers, fmt.Sprint(err))
	}
	r, _, err := a.Quotas(t.Context(), c)
	must(t, err)
	if h := a.Held(); r.Used != 2 || h.Runs != 2 || !strings.Contains(answers[2], "too many") || !strings.Contains(answers[3], "too many") {
		t.Errorf("%+v %+v %q", r, h, answers)
	}
}
