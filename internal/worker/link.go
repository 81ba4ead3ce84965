//go:build linux

package worker

import (
	"cmp"
	"errors"
	"slices"
	"unicode/utf16"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/script"
)

// bound is what a name of a module means in the end: an export of a module's
// own by its number, or all of a module for -1.
type bound struct {
	m     *module
	index int
	fixed bool
}

// maxChain is through how many modules and names one name may go.
const maxChain = 10_000

// export finds what a name of a module means. It is nil for a name that it has
// not, and for one that two of its stars have differently.
func (s *server) export(m *module, name string) (*bound, error) {
	type key struct {
		m    *module
		name string
	}
	seen := map[key]bool{}
	var find func(m *module, name string) (b *bound, ambiguous bool, err error)
	find = func(m *module, name string) (*bound, bool, error) {
		if seen[key{m, name}] {
			return nil, false, nil
		}
		seen[key{m, name}] = true
		if s.modules.steps++; s.modules.steps%1024 == 0 && s.late() {
			return nil, false, jsc.ErrTerminated
		}
		if len(seen) > maxChain {
			return nil, false, refuse("RangeError", "an export that goes through too many modules")
		}
		if e := m.exported(name); e != nil {
			switch {
			case e.Request < 0:
				return &bound{m, m.index[name], e.Fixed}, false, nil
			case e.Namespace:
				return &bound{m.deps[e.Request], -1, true}, false, nil
			}
			return find(m.deps[e.Request], e.Import)
		}
		if name == "default" {
			return nil, false, nil
		}
		var one *bound
		for _, star := range m.parsed.Stars {
			b, ambiguous, err := find(m.deps[star], name)
			switch {
			case err != nil || ambiguous:
				return nil, ambiguous, err
			case b == nil:
			case one == nil:
				one = b
			case one.m != b.m || one.index != b.index:
				return nil, true, nil
			}
		}
		return one, false, nil
	}
	b, _, err := find(m, name)
	return b, err
}

// exported is the export of a module by its name, without its stars'.
func (m *module) exported(name string) *script.Export {
	if m.exports == nil {
		m.exports = make(map[string]*script.Export, len(m.parsed.Exports))
		for i := range m.parsed.Exports {
			m.exports[m.parsed.Exports[i].Name] = &m.parsed.Exports[i]
		}
	}
	return m.exports[name]
}

// exportNames are all names that a module exports, in the order of their UTF-16
// units, as far as they mean something.
func (s *server) exportNames(m *module) ([]string, error) {
	names := map[string]bool{}
	seen := map[*module]bool{}
	for todo := []*module{m}; len(todo) > 0; todo = todo[1:] {
		x := todo[0]
		if seen[x] {
			continue
		}
		seen[x] = true
		for _, e := range x.parsed.Exports {
			if x == m || e.Name != "default" {
				names[e.Name] = true
			}
		}
		for _, star := range x.parsed.Stars {
			todo = append(todo, x.deps[star])
		}
		if s.late() {
			return nil, jsc.ErrTerminated
		}
	}
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	return out, nil
}

// link makes a graph ready to run. What fails leaves its modules as they were
// before, to be linked another time.
func (s *server) link(root *module) error {
	if root.linked {
		return nil
	}
	units := s.units(root)
	var fresh []*module
	for _, u := range units {
		fresh = append(fresh, u.modules...)
	}
	for _, m := range fresh {
		if err := s.check(m); err != nil {
			return err
		}
	}
	var spaces []*module
	for _, m := range fresh {
		if err := s.instantiate(m); err != nil {
			return err
		}
	}
	for _, m := range fresh {
		for i, b := range m.imports {
			if err := s.do(modBind, m.number, m.parsed.Imports[i].Local, b.m.number, b.index); err != nil {
				return err
			}
			if b.index < 0 {
				spaces = append(spaces, b.m)
			}
		}
	}
	for _, m := range fresh {
		m.linked = true
		m.parsed.Forget()
	}
	for _, m := range spaces {
		if err := s.name(m); err != nil {
			return err
		}
	}
	return nil
}

// units finds the modules of a graph that are not linked, those together that
// import each other, each unit behind those that it needs.
func (s *server) units(root *module) []*unit {
	var units []*unit
	var stack []*module
	finished := 0
	var walk func(m *module)
	walk = func(m *module) {
		s.modules.visits++
		m.visit, m.low, m.onStack = s.modules.visits, s.modules.visits, true
		stack = append(stack, m)
		for _, d := range m.deps {
			switch {
			case d.linked:
			case !seenNow(d, root):
				walk(d)
				m.low = min(m.low, d.low)
			case d.onStack:
				m.low = min(m.low, d.visit)
			}
		}
		m.post = finished
		finished++
		if m.low != m.visit {
			return
		}
		u := &unit{}
		at := slices.Index(stack, m)
		for _, x := range stack[at:] {
			x.onStack, x.unit = false, u
			u.modules = append(u.modules, x)
		}
		stack = stack[:at]
		slices.SortFunc(u.modules, func(a, b *module) int { return cmp.Compare(a.post, b.post) })
		units = append(units, u)
	}
	s.modules.visits++
	root.since = s.modules.visits
	walk(root)
	for _, u := range units {
		for _, m := range u.modules {
			for _, d := range m.deps {
				if d.unit != u && !slices.Contains(u.deps, d.unit) {
					u.deps = append(u.deps, d.unit)
				}
			}
		}
	}
	return units
}

// seenNow tells whether the walk that began at root has been at a module.
func seenNow(m, root *module) bool { return m.visit > root.since }

// check resolves what a module imports, and what it gives on.
func (s *server) check(m *module) error {
	m.imports = m.imports[:0]
	for _, i := range m.parsed.Imports {
		d := m.deps[i.Request]
		if i.Namespace {
			m.imports = append(m.imports, &bound{d, -1, true})
			continue
		}
		b, err := s.export(d, i.Name)
		if err != nil {
			return err
		}
		if b == nil {
			return refuse("SyntaxError", "%s: %s has no export %q, or two of that name", m.name, d.name, i.Name)
		}
		m.imports = append(m.imports, b)
	}
	for _, e := range m.parsed.Exports {
		if e.Request < 0 || e.Namespace {
			continue
		}
		b, err := s.export(m, e.Name)
		if err != nil {
			return err
		}
		if b == nil {
			return refuse("SyntaxError", "%s: %s has no export %q, or two of that name", m.name, m.deps[e.Request].name, e.Import)
		}
	}
	return nil
}

// instantiate makes a module's function and runs it as far as its body, so that
// its exports can be read.
func (s *server) instantiate(m *module) error {
	if m.json {
		return nil
	}
	live := map[string]bool{}
	for i, b := range m.imports {
		if b.index >= 0 && (!b.fixed || b.m.unit == m.unit) {
			live[m.parsed.Imports[i].Local] = true
		}
	}
	source, err := m.parsed.Wrapped(live)
	switch {
	case errors.Is(err, script.ErrStopped):
		return jsc.ErrTerminated
	case err != nil:
		return err
	}
	if err := s.do(modMake, m.number, m.name, m.parsed.Await); err != nil {
		return err
	}
	function, err := s.js.Evaluate(source, m.name, 1)
	if err != nil {
		return err
	}
	defer function.Release()
	if function.Type() != jsc.Object {
		return refuse("SyntaxError", "%s is no module", m.name)
	}
	begin, err := s.module(modBegin, m.number, function)
	if err != nil {
		return err
	}
	defer begin.Release()
	body, err := s.js.Call(begin, nil)
	if err != nil {
		return err
	}
	defer body.Release()
	if err := s.do(modHold, m.number, body); err != nil || m.parsed.Await {
		return err
	}
	return s.native(s.module(modFirst, m.number))
}

// name gives the namespace of a module its names, once, and those of the
// namespaces in it.
func (s *server) name(m *module) error {
	for todo := []*module{m}; len(todo) > 0; todo = todo[1:] {
		m := todo[0]
		if m.named {
			continue
		}
		m.named = true
		more, err := s.names(m)
		if err != nil {
			m.named = false
			return err
		}
		todo = append(todo, more...)
	}
	return nil
}

// names gives the namespace of one module its names, and returns the modules
// whose namespaces are among them.
func (s *server) names(m *module) (more []*module, err error) {
	names, err := s.exportNames(m)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		b, err := s.export(m, n)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		if err := s.do(modName, m.number, n, b.m.number, b.index, b.fixed); err != nil {
			return nil, err
		}
		if b.index < 0 {
			more = append(more, b.m)
		}
	}
	return more, nil
}
