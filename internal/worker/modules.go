//go:build linux

package worker

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Bounds of a runtime's modules.
const (
	maxModules     = 1024
	maxModuleBytes = 16 << 20
	maxSpecifier   = 1 << 10 // bytes of a specifier or name
	importerName   = "$import$"
)

// What Go asks modules.js for.
const (
	modMake     = iota + 1 // number, name, async: the record of a module
	modJSON                // number, name, text
	modBind                // number, local name, target, index: an import
	modName                // number, name, target, index, fixed: of the namespace
	modHold                // number, what its function gave
	modFirst               // number: a function that runs its beginning
	modBatch               // numbers: a function that runs their bodies
	modOpen                // number: a function that lets its body begin
	modDone                // number
	modStarted             // number: whether its body has begun
	modValues              // number: its exports, as far as they can cross
	modFinish              // id, good, number or error: settle an import(…)
	modFailure             // name, message: an error
	modImporter            // import(…) of scripts
	modBegin               // number, the module's function: a function that calls it
)

// module is one module of the runtime. What was linked stays.
type module struct {
	number int
	name   string
	json   bool
	parsed *script.Module
	deps   []*module // by parsed.Requests; nil until all are loaded
	linked bool
	unit   *unit
	index  map[string]int // exports of its own by their names

	imports []*bound // by parsed.Imports
	exports map[string]*script.Export
	named   bool // its namespace has its names

	visit, low, post, since int // of the search for cycles
	onStack                 bool
}

// unit is a module, or several that import each other: they run together.
type unit struct {
	modules []*module // in the order in which they run
	deps    []*unit
	state   state
	next    int        // of modules, while it runs
	waits   bool       // for the promise of that one
	why     *jsc.Value // what it threw
}

type state int

const (
	idle state = iota
	running
	ran
	failed
)

// evaluation is a graph that is being run, for a module of the host or for an
// import(…).
type evaluation struct {
	root  *module
	order []*unit // each behind those that it needs
	id    float64 // of the import(…); 0 is the host's
	begun bool
	over  bool
	why   *jsc.Value // what was thrown; nil if all went well
}

// wanted is an import(…) whose turn has not come.
type wanted struct {
	id              float64
	from            *module // nil for a script
	specifier, kind string
}

// modules are all of a runtime.
type modules struct {
	dispatch *jsc.Value
	given    map[string]string
	all      []*module
	byName   map[string]*module // name, and for JSON a NUL behind it
	asked    map[[3]string]*module
	count    int // of those with a name, and their bytes
	bytes    int
	queue    []wanted
	runs     []*evaluation
	again    bool // a body has ended since the units were looked at
	visits   int
	steps    int
}

// guestError is an error that the guest sees as one of its own.
type guestError struct{ name, message string }

func (e *guestError) Error() string { return e.message }

func refuse(name, format string, args ...any) error {
	return &guestError{name, fmt.Sprintf(format, args...)}
}

// bootModules evaluates modules.js.
func (s *server) bootModules() error {
	m := &s.modules
	m.given, m.byName, m.asked = map[string]string{}, map[string]*module{}, map[[3]string]*module{}
	for _, g := range s.options.Modules {
		m.given[g.Specifier] = g.Source
	}
	helpers, err := s.js.Call(s.dispatch, nil, s.js.Number(opHelpers))
	if err != nil {
		return err
	}
	args := []*jsc.Value{helpers}
	for _, h := range []jsc.Handler{s.wantImport, s.bodyEnded} {
		f, err := s.js.NewFunction(h)
		if err != nil {
			return err
		}
		args = append(args, f)
	}
	if m.dispatch, err = s.script("modules.js", args); err != nil {
		return err
	}
	if !s.imports() {
		return nil
	}
	// Scripts find import(…) under a name of the global scope, where it is no
	// property of the global object.
	define, err := s.js.Evaluate("(f) => { globalThis."+importerName+"0 = f }", hiddenName, 1)
	if err != nil {
		return err
	}
	f, err := s.module(modImporter)
	if err != nil {
		return err
	}
	if _, err = s.js.Call(define, nil, f); err != nil {
		return err
	}
	_, err = s.js.Evaluate("const "+importerName+" = globalThis."+importerName+"0; delete globalThis."+importerName+"0", hiddenName, 1)
	return err
}

// imports tells whether there is anything to import.
func (s *server) imports() bool { return s.options.Resolves || len(s.options.Modules) > 0 }

// module calls modules.js; the arguments are released, but for values.
func (s *server) module(op int, args ...any) (*jsc.Value, error) {
	all := []*jsc.Value{s.js.Number(float64(op))}
	var ours []*jsc.Value
	for _, a := range args {
		var v *jsc.Value
		switch a := a.(type) {
		case *jsc.Value:
			all = append(all, a)
			continue
		case int:
			v = s.js.Number(float64(a))
		case float64:
			v = s.js.Number(a)
		case string:
			v = s.js.Text(a)
		case bool:
			v = s.js.Bool(a)
		}
		ours = append(ours, v)
		all = append(all, v)
	}
	v, err := s.js.Call(s.modules.dispatch, nil, all...)
	for _, o := range append(ours, all[0]) {
		o.Release()
	}
	return v, err
}

// do is module for what gives nothing.
func (s *server) do(op int, args ...any) error {
	v, err := s.module(op, args...)
	v.Release()
	return err
}

// native calls a function that modules.js has given, with nothing below it.
func (s *server) native(f *jsc.Value, err error) error {
	if err != nil {
		return err
	}
	v, err := s.js.Call(f, nil)
	f.Release()
	v.Release()
	return err
}

// wantImport is what import(…) calls: it only waits for its turn here.
func (s *server) wantImport(k *jsc.Call) (*jsc.Value, error) {
	number, err1 := k.Arg(0).Number()
	id, err2 := k.Arg(1).Number()
	units, err3 := k.Arg(2).Units()
	kind, err4 := k.Arg(3).Text()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	m := &s.modules
	switch specifier, ok := specifierOf(units); {
	case !ok:
		return s.throwOwn(refuse("TypeError", "the specifier of an import must be text of at most %d bytes", maxSpecifier))
	case uint64(len(m.queue)+len(m.runs)+len(s.open)) >= s.options.Limits.InFlight:
		return s.throwOwn(refuse("RangeError", "more imports at one time than in_flight, %d", s.options.Limits.InFlight))
	case number < 0:
		m.queue = append(m.queue, wanted{id, nil, specifier, kind})
	default:
		m.queue = append(m.queue, wanted{id, m.all[int(number)], specifier, kind})
	}
	return nil, nil
}

// specifierOf is a specifier as hosts may see it.
func specifierOf(units []uint16) (string, bool) {
	if len(units) > maxSpecifier {
		return "", false
	}
	for i := 0; i < len(units); i++ {
		if !utf16.IsSurrogate(rune(units[i])) {
			continue
		}
		if i+1 == len(units) || utf16.DecodeRune(rune(units[i]), rune(units[i+1])) == '\ufffd' {
			return "", false
		}
		i++
	}
	text := string(utf16.Decode(units))
	return text, wire.Specifier(text)
}

// throwOwn has the guest see an error of ours as one of its own.
func (s *server) throwOwn(err error) (*jsc.Value, error) {
	v, err := s.thrownFor(err)
	if err != nil {
		return nil, err
	}
	return nil, &jsc.Exception{Value: v}
}

// thrownFor is what is thrown in the guest for an error: the guest's own value,
// or one that is made here.
func (s *server) thrownFor(err error) (*jsc.Value, error) {
	var thrown *jsc.Exception
	var own *guestError
	switch {
	case errors.As(err, &thrown):
		return thrown.Value, nil
	case errors.As(err, &own):
		return s.module(modFailure, own.name, own.message)
	}
	return nil, err
}

// bodyEnded is called when the promise of an asynchronous body has settled.
func (s *server) bodyEnded(k *jsc.Call) (*jsc.Value, error) {
	number, err := k.Arg(0).Number()
	if err != nil || number < 0 || int(number) >= len(s.modules.all) {
		return nil, errors.New("no such module")
	}
	good, err := k.Arg(1).Bool()
	if err != nil {
		return nil, err
	}
	u := s.modules.all[int(number)].unit
	if u == nil || u.state != running || !u.waits || u.modules[u.next].number != int(number) {
		return nil, nil
	}
	s.modules.again, u.waits = true, false
	if u.next++; good {
		return nil, nil
	}
	u.state, u.why = failed, s.js.Keep(k.Arg(2))
	return nil, nil
}

// late says that the guest's time is over. It is asked where Go works for it.
func (s *server) late() bool {
	return s.limit.paused.IsZero() && !s.limit.end.IsZero() && !time.Now().Before(s.limit.end)
}

// parse parses a module. What it does counts as the guest's time.
func (s *server) parse(name, source string) (*script.Module, error) {
	p, err := script.ParseModule(source, script.Options{Stop: s.late})
	var syntax *script.Error
	switch {
	case errors.Is(err, script.ErrStopped):
		return nil, jsc.ErrTerminated
	case errors.As(err, &syntax):
		return nil, refuse("SyntaxError", "%s: %s", name, syntax.Message)
	}
	return p, err
}

// rewritten is a script whose import(…) is ours. What the parser does not take
// is left to the engine.
func (s *server) rewritten(source string) (string, error) {
	if !s.imports() || !strings.Contains(source, "import") {
		return source, nil
	}
	out, err := script.Imports(source, importerName, script.Options{Stop: s.late})
	switch {
	case errors.Is(err, script.ErrStopped):
		return "", jsc.ErrTerminated
	case err != nil:
		return source, nil
	}
	return out, nil
}

// add makes the record of a module.
func (s *server) add(name string, isJSON bool) *module {
	m := &module{number: len(s.modules.all), name: name, json: isJSON, index: map[string]int{}}
	s.modules.all = append(s.modules.all, m)
	return m
}

// resolve finds the module that another one asks for, or asks the host.
func (s *server) resolve(specifier, kind string, from *module) (*module, error) {
	referrer := ""
	if from != nil {
		referrer = from.name
	}
	key := [3]string{referrer, specifier, kind}
	if m := s.modules.asked[key]; m != nil {
		return m, nil
	}
	name, source, err := s.find(specifier, referrer)
	if err != nil {
		return nil, err
	}
	m, err := s.named(name, source, kind)
	if err == nil {
		s.modules.asked[key] = m
	}
	return m, err
}

// find is the name and the source of a module.
func (s *server) find(specifier, referrer string) (name, source string, err error) {
	if !wire.Specifier(specifier) {
		return "", "", refuse("TypeError", "the specifier of an import must be text of at most %d bytes", maxSpecifier)
	}
	name = specifier
	if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		name = path.Join(path.Dir(referrer), name)
	}
	if source, ok := s.modules.given[name]; ok {
		return name, source, nil
	}
	if !s.options.Resolves {
		return "", "", refuse("TypeError", "there is no module %q", specifier)
	}
	return s.askHost(specifier, referrer)
}

// named is the module of a name, which is made if there is none.
func (s *server) named(name, source, kind string) (*module, error) {
	id := name
	if kind != "" {
		id += "\x00" + kind
	}
	if m := s.modules.byName[id]; m != nil {
		return m, nil
	}
	if s.modules.count >= maxModules || s.modules.bytes+len(source) > maxModuleBytes {
		return nil, refuse("RangeError", "more than %d modules, or %d bytes of them", maxModules, maxModuleBytes)
	}
	var m *module
	if kind == "json" {
		m = s.add(name, true)
		err := s.do(modJSON, m.number, name, source)
		if thrown := new(jsc.Exception); errors.As(err, &thrown) {
			thrown.Value.Release()
			return nil, refuse("SyntaxError", "%s is no JSON", name)
		}
		if err != nil {
			return nil, err
		}
		m.parsed = &script.Module{Exports: []script.Export{{Name: "default", Local: "default", Fixed: true, Request: -1}}}
		m.index["default"] = 0
	} else {
		p, err := s.parse(name, source)
		if err != nil {
			return nil, err
		}
		m = s.add(name, false)
		m.parsed = p
		m.numberExports()
	}
	s.modules.byName[id] = m
	s.modules.count++
	s.modules.bytes += len(source)
	return m, nil
}

// numberExports numbers the exports of a module's own.
func (m *module) numberExports() {
	n := 0
	for _, e := range m.parsed.Exports {
		if e.Request < 0 {
			m.index[e.Name] = n
			n++
		}
	}
}

// askHost asks the host for a module; the guest stands still.
func (s *server) askHost(specifier, referrer string) (name, source string, err error) {
	if s.lastCall >= s.options.Limits.HostCalls {
		return "", "", refuse("RangeError", "more calls of the host than host_calls, %d", s.options.Limits.HostCalls)
	}
	s.lastCall++
	s.used.Calls++
	id := s.lastCall
	if err := s.out.Write(&wire.Import{CallID: id, EvalID: s.eval, Specifier: specifier, Referrer: referrer}); err != nil {
		return "", "", fmt.Errorf("%w: %w", errConversation, err)
	}
	s.importing = id
	defer func() { s.importing, s.imported = 0, nil }()
	if _, err := s.wait(id); err != nil {
		return "", "", err
	}
	a := s.imported
	switch {
	case a == nil || a.CallID != id:
		return "", "", fmt.Errorf("%w: an answer to no import", errConversation)
	case a.Failure != nil:
		return "", "", refuse("TypeError", "%s", a.Failure.Message)
	case !wire.Specifier(a.Name):
		return "", "", fmt.Errorf("%w: a module without a name", errConversation)
	}
	return a.Name, a.Source, nil
}

// load finds all that a module needs.
func (s *server) load(root *module) error {
	if root.deps != nil || len(root.parsed.Requests) == 0 {
		return nil
	}
	seen := map[*module]bool{root: true}
	type found struct {
		m    *module
		deps []*module
	}
	var all []found // what is given to the modules once all is there
	for todo := []*module{root}; len(todo) > 0; todo = todo[1:] {
		m := todo[0]
		if m.deps != nil {
			continue
		}
		deps := make([]*module, 0, len(m.parsed.Requests))
		for _, r := range m.parsed.Requests {
			d, err := s.resolve(r.Specifier, r.Type, m)
			if err != nil {
				return at(err, m, r)
			}
			deps = append(deps, d)
			if !seen[d] {
				seen[d] = true
				todo = append(todo, d)
			}
		}
		all = append(all, found{m, deps})
	}
	for _, f := range all {
		f.m.deps = f.deps
	}
	return nil
}

// at says in an error of ours where the import stands.
func at(err error, m *module, r script.Request) error {
	var own *guestError
	if errors.As(err, &own) && !slices.Contains([]string{"SyntaxError"}, own.name) {
		return refuse(own.name, "%s (%s:%d:%d)", own.message, m.name, r.Line, r.Column)
	}
	return err
}
