package wire

// Bounds of the parts of messages, in bytes or elements.
const (
	maxName    = 1 << 10 // a name, path of a binding or specifier of a module
	maxMessage = 16 << 10
	maxList    = 1 << 10
	maxClock   = 8_640_000_000_000_000
)

// HostHello is the first frame of a host.
type HostHello struct {
	Version uint64 // Version
}

// Type returns TypeHostHello.
func (*HostHello) Type() Type { return TypeHostHello }

func (m *HostHello) put(e *encoder) { e.num(m.Version) }
func (m *HostHello) get(d *decoder) { m.Version = d.version() }

// version reads the first number of a hello. What another version would say
// behind it is not looked at.
func (d *decoder) version() uint64 {
	v := d.num()
	if d.err == nil && v != Version {
		d.fail(ErrVersion)
	}
	return v
}

// Globals are the features of the engine that a guest has only by request.
type Globals uint64

// The features, one bit each.
const (
	GlobalWebAssembly Globals = 1 << iota
	GlobalAtomics             // Atomics and SharedArrayBuffer
	GlobalWeakRef             // WeakRef and FinalizationRegistry
	globalsEnd
)

// Limits are what a worker holds of a guest's limits by itself; the host holds
// all of them a second time, or the kernel does. Zero is none allowed.
type Limits struct {
	Nodes, Depth, Elements uint64 // of one value, see Budget
	ResultBytes            uint64 // of one encoded result
	ArgumentBytes          uint64 // of one encoded call's arguments
	ConsoleBytes           uint64 // of all console text of one eval
	BufferBytes            uint64 // of all ArrayBuffers that live at one time
	HostCalls              uint64 // of one runtime, all told
	InFlight               uint64 // host calls without an answer
}

func (l *Limits) fields() []*uint64 {
	return []*uint64{&l.Nodes, &l.Depth, &l.Elements, &l.ResultBytes, &l.ArgumentBytes, &l.ConsoleBytes, &l.BufferBytes, &l.HostCalls, &l.InFlight}
}

// Module is a module that the host gives beforehand.
type Module struct {
	Specifier string
	Source    string
}

// Open makes the runtime of this worker. It comes once, after HostHello.
type Open struct {
	Seed       [32]byte // of all random numbers
	ClockMS    uint64   // what the clock says at the start, ms since 1970
	Frozen     bool     // the clock stands
	Locale     string   // "en-US"
	Zone       string   // "UTC"
	StrictEval bool     // eval and Function throw
	Allow      Globals
	TimeoutMS  uint64 // soft timeout of each eval, 0 for none
	Limits     Limits
	Modules    []Module
	Resolves   bool // the host can be asked for others, by Import
}

// Type returns TypeOpen.
func (*Open) Type() Type { return TypeOpen }

func (m *Open) put(e *encoder) {
	e.b = append(e.b, m.Seed[:]...)
	e.enum(m.ClockMS, 0, maxClock)
	e.flag(m.Frozen)
	e.text(m.Locale, maxKind)
	e.text(m.Zone, maxKind)
	e.flag(m.StrictEval)
	e.enum(uint64(m.Allow), 0, uint64(globalsEnd-1))
	e.num(m.TimeoutMS)
	for _, l := range m.Limits.fields() {
		e.num(*l)
	}
	e.count(len(m.Modules), maxList)
	for _, l := range m.Modules {
		e.text(l.Specifier, maxName)
		e.text(l.Source, MaxPayload)
	}
	e.flag(m.Resolves)
}

func (m *Open) get(d *decoder) {
	d.seed(&m.Seed)
	m.ClockMS, m.Frozen = d.enum(0, maxClock), d.flag()
	m.Locale, m.Zone = d.text(maxKind), d.text(maxKind)
	m.StrictEval, m.Allow, m.TimeoutMS = d.flag(), Globals(d.enum(0, uint64(globalsEnd-1))), d.num()
	for _, l := range m.Limits.fields() {
		*l = d.num()
	}
	for range d.count(maxList, 2) {
		m.Modules = append(m.Modules, Module{d.text(maxName), d.text(MaxPayload)})
	}
	m.Resolves = d.flag()
}

// EvalKind is how an Eval's source is taken.
type EvalKind uint64

// The kinds.
const (
	EvalScript EvalKind = 1 // the value of the last expression
	EvalModule EvalKind = 2 // the namespace of a module
	EvalFeed   EvalKind = 3 // as a script, but await and return may stand at its top
	// EvalState evaluates nothing: it gives what feeds have left in the global scope,
	// an array of arrays of kind ("let", "const", "var", "own"), name and value.
	EvalState EvalKind = 4
	// EvalRebuild evaluates nothing: it puts a state into a runtime that has none yet.
	EvalRebuild EvalKind = 5
)

// Feed is what an Eval of the kind EvalFeed brings besides its source. All of it
// is set before the source is looked at.
type Feed struct {
	Inputs Value     // an object: variables of the global scope; nil for none
	JSON   string    // it as JSON, in its place
	Seed   *[32]byte // of all random numbers from here on; nil leaves them as they go on
	Clock  *uint64   // what the clock that stands says from here on, in ms since 1970
}

// Given tells whether there are inputs.
func (f *Feed) Given() bool { return f.Inputs != nil || f.JSON != "" }

func (f *Feed) put(e *encoder) {
	if e.flag(f.Given()); f.Given() {
		e.either(f.JSON, f.Inputs)
	}
	e.flag(f.Seed != nil)
	if f.Seed != nil {
		e.b = append(e.b, f.Seed[:]...)
	}
	e.clock(f.Clock)
}

func (f *Feed) get(d *decoder) {
	if d.flag() {
		f.JSON, f.Inputs = d.either()
	}
	if d.flag() {
		f.Seed = new([32]byte)
		d.seed(f.Seed)
	}
	f.Clock = d.clock()
}

// seed reads a seed, which has no length before it.
func (d *decoder) seed(to *[32]byte) {
	if len(d.b) < len(to) {
		d.fail(malformed("seed"))
		return
	}
	d.b = d.b[copy(to[:], d.b):]
}

// clock is a time that may be absent.
func (e *encoder) clock(ms *uint64) {
	e.flag(ms != nil)
	if ms != nil {
		e.enum(*ms, 0, maxClock)
	}
}

func (d *decoder) clock() *uint64 {
	if !d.flag() {
		return nil
	}
	ms := d.enum(0, maxClock)
	return &ms
}

// Eval asks for one evaluation, which Done answers.
type Eval struct {
	ID        uint64
	Kind      EvalKind
	Name      string // of the script or module, for stacks
	Source    string
	TimeoutMS uint64 // soft timeout, 0 for the one of Open
	Waves     bool   // Waiting says each time that only the host can go on
	Feed      *Feed  // of EvalFeed, which always has one, and of no other kind
	State     Value  // of EvalRebuild, likewise
}

// Type returns TypeEval.
func (*Eval) Type() Type { return TypeEval }

func (m *Eval) put(e *encoder) {
	if (m.Kind == EvalFeed) != (m.Feed != nil) || (m.Kind == EvalRebuild) != (m.State != nil) {
		e.fail(malformed("kind %d with a feed or state, or without", m.Kind))
		return
	}
	e.num(m.ID)
	e.enum(uint64(m.Kind), uint64(EvalScript), uint64(EvalRebuild))
	e.text(m.Name, maxName)
	e.text(m.Source, MaxPayload)
	e.num(m.TimeoutMS)
	e.flag(m.Waves)
	switch m.Kind {
	case EvalFeed:
		m.Feed.put(e)
	case EvalRebuild:
		e.value(m.State)
	}
}

func (m *Eval) get(d *decoder) {
	m.ID, m.Kind = d.num(), EvalKind(d.enum(uint64(EvalScript), uint64(EvalRebuild)))
	m.Name, m.Source, m.TimeoutMS, m.Waves = d.text(maxName), d.text(MaxPayload), d.num(), d.flag()
	switch m.Kind {
	case EvalFeed:
		m.Feed = new(Feed)
		m.Feed.get(d)
	case EvalRebuild:
		m.State = d.value()
	}
}

// Bind gives the guest a function of the host, which Bound answers.
type Bind struct {
	Token uint64 // random, names the function in every Call
	Name  string // where the guest finds it, parts joined by dots
	Async bool   // the guest gets a promise
}

// Type returns TypeBind.
func (*Bind) Type() Type { return TypeBind }

func (m *Bind) put(e *encoder) { e.num(m.Token); e.text(m.Name, maxName); e.flag(m.Async) }
func (m *Bind) get(d *decoder) { m.Token, m.Name, m.Async = d.num(), d.text(maxName), d.flag() }

// Revoke takes a function away. The host has dropped its handler before.
type Revoke struct{ Token uint64 }

// Type returns TypeRevoke.
func (*Revoke) Type() Type { return TypeRevoke }

func (m *Revoke) put(e *encoder) { e.num(m.Token) }
func (m *Revoke) get(d *decoder) { m.Token = d.num() }

// Failure is why something did not come about; a nil Failure is success.
type Failure struct {
	Kind    string // lower-case letters, digits, "_"; at most 40
	Name    string // the guest's name of the error, "TypeError"
	Message string
	Stack   string
}

// outcome is a Failure, or a success and then what body puts.
func (e *encoder) outcome(f *Failure, body func()) {
	e.flag(f == nil)
	if f == nil {
		body()
		return
	}
	e.kind(f.Kind)
	e.text(f.Name, maxName)
	e.text(f.Message, maxMessage)
	e.text(f.Stack, maxMessage)
}

func (d *decoder) outcome(body func()) *Failure {
	if d.flag() {
		body()
		return nil
	}
	return &Failure{d.kind(), d.text(maxName), d.text(maxMessage), d.text(maxMessage)}
}

// either is a value as JSON or, if that is empty, as it is.
func (e *encoder) either(text string, v Value) {
	e.text(text, MaxValue)
	if text == "" {
		e.value(v)
	}
}

func (d *decoder) either() (text string, v Value) {
	if text = d.text(MaxValue); text == "" {
		v = d.value()
	}
	return text, v
}

// Answer settles one Call.
type Answer struct {
	CallID  uint64
	Value   Value    // if Failure is nil and JSON empty
	JSON    string   // a value as JSON, which an engine reads many times faster than Value
	Failure *Failure // what the guest sees thrown
	Clock   *uint64  // the clock that stands moves there first, in ms since 1970
}

// Type returns TypeAnswer.
func (*Answer) Type() Type { return TypeAnswer }

func (m *Answer) put(e *encoder) {
	e.num(m.CallID)
	e.outcome(m.Failure, func() { e.either(m.JSON, m.Value) })
	e.clock(m.Clock)
}

func (m *Answer) get(d *decoder) {
	m.CallID = d.num()
	m.Failure = d.outcome(func() { m.JSON, m.Value = d.either() })
	m.Clock = d.clock()
}

// Imported answers one Import.
type Imported struct {
	CallID  uint64
	Name    string // what the module is from now on, if Failure is nil
	Source  string // if Failure is nil
	Failure *Failure
}

// Type returns TypeImported.
func (*Imported) Type() Type { return TypeImported }

func (m *Imported) put(e *encoder) {
	e.num(m.CallID)
	e.outcome(m.Failure, func() { e.text(m.Name, maxName); e.text(m.Source, MaxPayload) })
}

func (m *Imported) get(d *decoder) {
	m.CallID = d.num()
	m.Failure = d.outcome(func() { m.Name, m.Source = d.text(maxName), d.text(MaxPayload) })
}

// Close asks the worker to end by itself, which it may be killed for not doing.
type Close struct{}

// Type returns TypeClose.
func (*Close) Type() Type { return TypeClose }

func (*Close) put(*encoder) {}
func (*Close) get(*decoder) {}

// Transform asks a worker of its own kind, which has no engine, for the
// JavaScript of a source. Done answers it, with a string.
type Transform struct {
	ID       uint64
	Name     string
	Syntax   uint64 // 1 TypeScript, 2 TypeScript with JSX, 3 JSX
	Factory  string // what tags call
	Fragment string // what stands for a fragment
	Source   string
}

// TransformMode is the argument of such a worker, and what its hello says.
const TransformMode = "transform"

// Type returns TypeTransform.
func (*Transform) Type() Type { return TypeTransform }

func (m *Transform) put(e *encoder) {
	e.num(m.ID)
	e.text(m.Name, maxName)
	e.enum(m.Syntax, 1, 3)
	e.text(m.Factory, maxName)
	e.text(m.Fragment, maxName)
	e.text(m.Source, MaxPayload)
}

func (m *Transform) get(d *decoder) {
	m.ID, m.Name, m.Syntax = d.num(), d.text(maxName), d.enum(1, 3)
	m.Factory, m.Fragment, m.Source = d.text(maxName), d.text(maxName), d.text(MaxPayload)
}
