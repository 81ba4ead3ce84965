package journal

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// State is what the records of a journal come to. Only what a session can do in
// turn is in order.
type State struct {
	Header Header
	Feed   uint64 // the last one
	Open   bool   // it has no outcome
	Call   uint64 // the last one
	// InDoubt are calls that a tool was started for and that have no answer, in
	// order: their effect may have happened. Waiting are calls that wait for the
	// host's own answer.
	InDoubt, Waiting []Call
	Spent            Spent
	Tools            map[string]int64 // calls charged, by tool
	Checkpoint       *Checkpoint      // the journal was compacted
	Seed             uint64
	Clock            int64 // of the last feed

	records uint64 // in the bytes
	open    map[uint64]openCall
}

type openCall struct {
	call  Call
	asked bool
}

// Count is the number of records, those a compacted journal stands for among
// them. It only grows.
func (s *State) Count() uint64 { return s.Header.Base + s.records }

func newState(h Header) *State {
	return &State{Header: h, Tools: map[string]int64{}, open: map[uint64]openCall{}, records: 1}
}

// maxOpen is how many calls may wait for their answers.
const maxOpen = 100_000

// check says why a record cannot come next, or nil.
func (s *State) check(r *Record) error {
	if s.records >= MaxRecords {
		return fail(TooLarge, "more than %d records", MaxRecords)
	}
	odd := func(format string, args ...any) error { return fail(Odd, format, args...) }
	switch m := r.Meta.(type) {
	case *Feed:
		if s.Open || m.Feed != s.Feed+1 {
			return odd("feed %d after feed %d", m.Feed, s.Feed)
		}
		if m.Source < 0 || m.Source > len(r.Blob) {
			return odd("a source of %d bytes in a blob of %d", m.Source, len(r.Blob))
		}
	case *Call:
		if m.Call != s.Call+1 || m.Feed == 0 || m.Feed != s.Feed {
			return odd("call %d of feed %d after call %d of feed %d", m.Call, m.Feed, s.Call, s.Feed)
		}
		if m.Tool == "" || len(m.Tool) > 256 || len(m.Key) != 32 || len(s.open) >= maxOpen {
			return odd("call %d has no tool or no key, or too many are open", m.Call)
		}
	case *Answer:
		if _, open := s.open[m.Call]; !open {
			return odd("an answer to call %d, which waits for none", m.Call)
		}
		if m.Failure != nil && len(r.Blob) > 0 {
			return odd("an answer with a value and a failure")
		}
	case *Refused:
		if !s.Open || m.Feed != s.Feed || m.Tool == "" || len(m.Tool) > 256 || m.Failure == nil {
			return odd("a refused call of feed %d, which is not open", m.Feed)
		}
	case *Run:
		if c, open := s.open[m.Call]; !open || !c.asked {
			return odd("a run for call %d, which does not wait", m.Call)
		}
	case *Outcome:
		if !s.Open || m.Feed != s.Feed || m.Kind == "" || !m.Used.valid() {
			return odd("an outcome of feed %d, which is not open", m.Feed)
		}
	case *Checkpoint:
		if s.records != 1 || s.Header.Base == 0 || !m.Spent.valid() || m.Feed == 0 {
			return odd("a checkpoint that is not the second record of a compacted journal")
		}
		for tool, n := range m.Tools {
			if tool == "" || n < 0 {
				return odd("a checkpoint with %d calls of a tool", n)
			}
		}
	case *Budget:
		if !m.Used.valid() {
			return odd("a budget that gives back")
		}
	default:
		return odd("a second first record")
	}
	if _, first := r.Meta.(*Checkpoint); !first && s.records == 1 && s.Header.Base > 0 {
		return odd("a compacted journal without its checkpoint")
	}
	return nil
}

func (s Spent) valid() bool { return s.Calls >= 0 && s.MS >= 0 && s.Bytes >= 0 && s.Refused >= 0 }

// add adds up, and stays at the largest number.
func (s *Spent) add(o Spent) {
	for _, p := range [][2]*int64{{&s.Calls, &o.Calls}, {&s.MS, &o.MS}, {&s.Bytes, &o.Bytes}, {&s.Refused, &o.Refused}} {
		if *p[0] += *p[1]; *p[0] < 0 {
			*p[0] = 1<<63 - 1
		}
	}
}

// apply takes a record that check has passed.
func (s *State) apply(r *Record) {
	s.records++
	switch m := r.Meta.(type) {
	case *Feed:
		s.Feed, s.Open, s.Clock = m.Feed, true, m.Clock
		if s.Feed == 1 {
			s.Seed = m.Seed
		}
	case *Call:
		s.Call = m.Call
		s.open[m.Call] = openCall{*m, r.Type == TypeAsk}
		s.Tools[m.Tool]++
		s.Spent.add(Spent{Calls: 1})
	case *Answer:
		delete(s.open, m.Call)
		s.Clock = max(s.Clock, m.Clock)
	case *Refused:
		s.Spent.add(Spent{Refused: 1})
	case *Run:
		s.open[m.Call] = openCall{call: s.open[m.Call].call}
	case *Outcome:
		s.Open = false
		s.Spent.add(m.Used)
	case *Checkpoint:
		s.Feed, s.Call, s.Seed, s.Clock, s.Spent, s.Checkpoint = m.Feed, m.Call, m.Seed, m.Clock, m.Spent, m
		maps.Copy(s.Tools, m.Tools)
	case *Budget:
		s.Spent.add(m.Used)
	}
}

// settle fills what is derived.
func (s *State) settle() {
	s.InDoubt, s.Waiting = nil, nil
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		if c := s.open[id]; c.asked {
			s.Waiting = append(s.Waiting, c.call)
		} else {
			s.InDoubt = append(s.InDoubt, c.call)
		}
	}
}

// Asked tells whether an open call waits for the host's own answer; if not, it is in
// doubt.
func (s *State) Asked(n uint64) bool { return s.open[n].asked }

// Key is that of an open call.
func (s *State) Key(n uint64) string { return s.open[n].call.Key }

// valid judges a first record.
func (h *Header) valid() error {
	if id, err := hex.DecodeString(h.Session); err != nil || len(id) != 16 {
		return fmt.Errorf("no session id")
	}
	if prev, err := hex.DecodeString(h.Prev); err != nil || (h.Base > 0) != (len(prev) == sizeMAC) || h.Base > 1<<53 {
		return fmt.Errorf("a base without its chain")
	}
	return nil
}
