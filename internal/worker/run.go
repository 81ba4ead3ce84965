//go:build linux

package worker

import (
	"errors"
	"slices"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// beginModule begins a module of the host's. It is in no list: nobody can import
// it.
func (s *server) beginModule(name, source string) (*evaluation, error) {
	p, err := s.parse(name, source)
	if err != nil {
		return nil, err
	}
	m := s.add(name, false)
	m.parsed = p
	m.numberExports()
	return s.beginGraph(m, 0)
}

// beginGraph loads and links a graph and puts it among those that run.
func (s *server) beginGraph(m *module, id float64) (*evaluation, error) {
	if err := s.load(m); err != nil {
		return nil, err
	}
	if err := s.link(m); err != nil {
		return nil, err
	}
	if err := s.name(m); err != nil {
		return nil, err
	}
	e := &evaluation{root: m, id: id}
	seen := map[*unit]bool{}
	var walk func(u *unit)
	walk = func(u *unit) {
		seen[u] = true
		for _, d := range u.deps {
			if !seen[d] {
				walk(d)
			}
		}
		e.order = append(e.order, u)
	}
	walk(m.unit)
	s.modules.runs = append(s.modules.runs, e)
	return e, nil
}

// pump does what modules can do now. It has no frame of the engine around it.
func (s *server) pump() error {
	m := &s.modules
	for len(m.queue) > 0 || m.again || slices.ContainsFunc(m.runs, func(e *evaluation) bool { return !e.begun }) {
		m.again = false
		if len(m.queue) > 0 {
			w := m.queue[0]
			m.queue = m.queue[1:]
			if err := s.beginImport(w); err != nil {
				return err
			}
		}
		for _, e := range m.runs {
			e.begun = true
			if err := s.advance(e); err != nil {
				return err
			}
		}
		m.runs = slices.DeleteFunc(m.runs, func(e *evaluation) bool { return e.over })
	}
	return nil
}

// beginImport begins what import(…) has asked for.
func (s *server) beginImport(w wanted) error {
	m, err := s.resolve(w.specifier, w.kind, w.from)
	if err == nil {
		_, err = s.beginGraph(m, w.id)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, jsc.ErrTerminated) || errors.Is(err, errConversation) {
		return err
	}
	v, err := s.thrownFor(err)
	if err != nil {
		return err
	}
	defer v.Release()
	return s.do(modFinish, w.id, false, v)
}

// advance runs what of an evaluation can run.
func (s *server) advance(e *evaluation) error {
	var batch []*unit
	ready := func(u *unit) bool { return u.state == ran || slices.Contains(batch, u) }
	for _, u := range e.order {
		switch {
		case u.state == ran:
		case u.state == failed, u.state == running && !u.waits, u.state == idle && u.async() && !slices.ContainsFunc(u.deps, func(d *unit) bool { return !ready(d) }):
			bad, err := s.runBatch(batch)
			batch = nil
			if bad == nil && err == nil {
				if bad = u; u.state != failed {
					bad, err = s.runUnit(u)
				}
			}
			if err != nil {
				return err
			}
			if bad != nil {
				return s.end(e, bad.why)
			}
		case u.state == idle && !u.async() && !slices.ContainsFunc(u.deps, func(d *unit) bool { return !ready(d) }):
			batch = append(batch, u)
		}
	}
	bad, err := s.runBatch(batch)
	switch {
	case err != nil:
		return err
	case bad != nil:
		return s.end(e, bad.why)
	case e.root.unit.state == ran:
		return s.end(e, nil)
	}
	return nil
}

// async tells a unit that has to await something.
func (u *unit) async() bool {
	return slices.ContainsFunc(u.modules, func(m *module) bool { return m.parsed.Await })
}

// end is the end of an evaluation, whose import(…) is settled.
func (s *server) end(e *evaluation, why *jsc.Value) error {
	e.over, e.why = true, why
	switch {
	case e.id == 0:
		return nil
	case why != nil:
		return s.do(modFinish, e.id, false, why)
	}
	return s.do(modFinish, e.id, true, e.root.number)
}

// runBatch runs units that await nothing in one call of the engine, so that no
// job of a promise runs in between. It returns the one that failed.
func (s *server) runBatch(batch []*unit) (*unit, error) {
	var numbers []any
	for _, u := range batch {
		for _, m := range u.modules {
			if !m.json {
				numbers = append(numbers, m.number)
			}
		}
	}
	var err error
	if len(numbers) > 0 {
		err = s.native(s.module(modBatch, numbers...))
	}
	if err == nil {
		for _, u := range batch {
			if err := s.ran(u); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	last := 0
	for i, u := range batch {
		for _, m := range u.modules {
			if begun, err := s.hasBegun(m); err != nil {
				return nil, err
			} else if begun {
				last = i
			}
		}
	}
	for _, u := range batch[:last] {
		if err := s.ran(u); err != nil {
			return nil, err
		}
	}
	return s.fails(batch[last], err)
}

func (s *server) hasBegun(m *module) (bool, error) {
	if m.json {
		return true, nil
	}
	v, err := s.module(modStarted, m.number)
	if err != nil {
		return false, err
	}
	defer v.Release()
	return v.Bool()
}

// ran notes that a unit has run.
func (s *server) ran(u *unit) error {
	u.state = ran
	for _, m := range u.modules {
		if err := s.do(modDone, m.number); err != nil {
			return err
		}
	}
	return nil
}

// fails notes what a unit has thrown. One that was stopped stays unusable.
func (s *server) fails(u *unit, err error) (*unit, error) {
	u.state = failed
	var thrown *jsc.Exception
	if errors.As(err, &thrown) {
		u.why = thrown.Value
		return u, nil
	}
	v, err2 := s.module(modFailure, "Error", "the module was stopped while it ran")
	if err2 != nil {
		return u, errors.Join(err, err2)
	}
	u.why = v
	return u, err
}

// runUnit goes on with a unit that awaits something, up to where it waits.
func (s *server) runUnit(u *unit) (*unit, error) {
	for u.state = running; u.next < len(u.modules); {
		m := u.modules[u.next]
		if m.parsed.Await {
			u.waits = true
			if err := s.native(s.module(modOpen, m.number)); err != nil {
				return s.fails(u, err)
			}
			switch {
			case u.state == failed:
				return u, nil
			case u.waits:
				return nil, nil
			}
			continue
		}
		if !m.json {
			if err := s.native(s.module(modBatch, m.number)); err != nil {
				return s.fails(u, err)
			}
		}
		u.next++
	}
	return nil, s.ran(u)
}

// exports is what a module of the host's has come to.
func (s *server) exports(e *evaluation) error {
	nothing := s.js.Undefined()
	defer nothing.Release()
	if _, err := s.ask(opSettle, nothing); err != nil { // says what was rejected and never handled
		return err
	}
	s.value, s.failure = nil, nil
	if e.why != nil {
		return &jsc.Exception{Value: s.js.Keep(e.why)}
	}
	v, err := s.module(modValues, e.root.number)
	if err != nil {
		return err
	}
	defer v.Release()
	s.value, s.failure = s.encode(v, "result_bytes", s.options.Limits.ResultBytes)
	return nil
}

// refusedBy is the failure of an evaluation for an error of ours.
func refusedBy(err *guestError) *wire.Failure {
	kind := "thrown"
	if err.name == "SyntaxError" {
		kind = "syntax_error"
	}
	return &wire.Failure{Kind: kind, Name: err.name, Message: cut(err.message, 8<<10)}
}
