package wire

// WorkerHello is the first frame of a worker.
type WorkerHello struct {
	Version uint64 // Version
	Engine  string // "JavaScriptCore 2.48.1"
	BuildID string // of the engine's library, hexadecimal
	Mode    string // "interpreter", "baseline", "full"
	PID     uint64 // the worker's own, in its namespace
	Threads uint64 // of the worker, as its kernel counts them
}

// Type returns TypeWorkerHello.
func (*WorkerHello) Type() Type { return TypeWorkerHello }

func (m *WorkerHello) put(e *encoder) {
	e.num(m.Version)
	e.text(m.Engine, maxName)
	e.text(m.BuildID, maxName)
	e.kind(m.Mode)
	e.num(m.PID)
	e.num(m.Threads)
}

func (m *WorkerHello) get(d *decoder) {
	m.Version, m.Engine, m.BuildID = d.version(), d.text(maxName), d.text(maxName)
	m.Mode, m.PID, m.Threads = d.kind(), d.num(), d.num()
}

// Step is one stage of a worker's start and how long it took.
type Step struct {
	Name string // a kind, like Failure's
	NS   uint64
}

// Ready answers Open: the runtime stands and the worker is sealed.
type Ready struct {
	Threads   uint64
	HeapBytes uint64 // of the engine
	Steps     []Step
}

// Type returns TypeReady.
func (*Ready) Type() Type { return TypeReady }

func (m *Ready) put(e *encoder) {
	e.num(m.Threads)
	e.num(m.HeapBytes)
	e.count(len(m.Steps), maxList)
	for _, s := range m.Steps {
		e.kind(s.Name)
		e.num(s.NS)
	}
}

func (m *Ready) get(d *decoder) {
	m.Threads, m.HeapBytes = d.num(), d.num()
	for range d.count(maxList, 3) {
		m.Steps = append(m.Steps, Step{d.kind(), d.num()})
	}
}

// Bound answers one Bind.
type Bound struct {
	Token   uint64
	Failure *Failure // why the name is not bound; the token is void then
}

// Type returns TypeBound.
func (*Bound) Type() Type { return TypeBound }

func (m *Bound) put(e *encoder) { e.num(m.Token); e.outcome(m.Failure, func() {}) }
func (m *Bound) get(d *decoder) { m.Token, m.Failure = d.num(), d.outcome(func() {}) }

// Call asks the host to call a bound function, which Answer answers.
type Call struct {
	CallID uint64
	Token  uint64
	EvalID uint64 // whose guest code calls
	Sync   bool   // the guest stands until the answer comes
	Args   Value  // an array
}

// Type returns TypeCall.
func (*Call) Type() Type { return TypeCall }

func (m *Call) put(e *encoder) {
	e.num(m.CallID)
	e.num(m.Token)
	e.num(m.EvalID)
	e.flag(m.Sync)
	e.value(m.Args)
}

func (m *Call) get(d *decoder) {
	m.CallID, m.Token, m.EvalID, m.Sync, m.Args = d.num(), d.num(), d.num(), d.flag(), d.value()
}

// Usage is what an eval says it has used. It is for the reader's eyes: limits
// and bills come from the kernel's counters.
type Usage struct {
	Calls     uint64 // of host functions
	US        uint64 // µs from Eval to Done, waiting for the host not counted
	HeapBytes uint64 // of the engine, after it
}

// Done answers one Eval.
type Done struct {
	ID      uint64
	Usage   Usage
	Value   Value // if Failure is nil
	Failure *Failure
}

// Type returns TypeDone.
func (*Done) Type() Type { return TypeDone }

func (m *Done) put(e *encoder) {
	e.num(m.ID)
	e.num(m.Usage.Calls)
	e.num(m.Usage.US)
	e.num(m.Usage.HeapBytes)
	e.outcome(m.Failure, func() { e.value(m.Value) })
}

func (m *Done) get(d *decoder) {
	m.ID, m.Usage = d.num(), Usage{d.num(), d.num(), d.num()}
	m.Failure = d.outcome(func() { m.Value = d.value() })
}

// Level is a level of the console.
type Level uint64

// The levels.
const (
	LevelLog   Level = 1
	LevelDebug Level = 2
	LevelInfo  Level = 3
	LevelWarn  Level = 4
	LevelError Level = 5
)

// Console is one call of the console, each argument as text.
type Console struct {
	EvalID uint64
	Level  Level
	Text   []string
}

// Type returns TypeConsole.
func (*Console) Type() Type { return TypeConsole }

func (m *Console) put(e *encoder) {
	e.num(m.EvalID)
	e.enum(uint64(m.Level), uint64(LevelLog), uint64(LevelError))
	e.count(len(m.Text), maxList)
	for _, s := range m.Text {
		e.text(s, MaxPayload)
	}
}

func (m *Console) get(d *decoder) {
	m.EvalID, m.Level = d.num(), Level(d.enum(uint64(LevelLog), uint64(LevelError)))
	for range d.count(maxList, 1) {
		m.Text = append(m.Text, d.text(MaxPayload))
	}
}

// Fatal is the last frame of a worker that cannot go on.
type Fatal struct {
	Kind    string
	Message string
}

// Type returns TypeFatal.
func (*Fatal) Type() Type { return TypeFatal }

func (m *Fatal) put(e *encoder) { e.kind(m.Kind); e.text(m.Message, maxMessage) }
func (m *Fatal) get(d *decoder) { m.Kind, m.Message = d.kind(), d.text(maxMessage) }

// Import asks for a module that Open did not bring, which Imported answers.
type Import struct {
	CallID    uint64 // numbered together with those of Call
	EvalID    uint64
	Specifier string
	Referrer  string // name of the module that asks, empty for the script itself
}

// Type returns TypeImport.
func (*Import) Type() Type { return TypeImport }

func (m *Import) put(e *encoder) {
	e.num(m.CallID)
	e.num(m.EvalID)
	e.text(m.Specifier, maxName)
	e.text(m.Referrer, maxName)
}

func (m *Import) get(d *decoder) {
	m.CallID, m.EvalID, m.Specifier, m.Referrer = d.num(), d.num(), d.text(maxName), d.text(maxName)
}

// Waiting says that the guest has nothing left to do before an asynchronous call
// is answered.
type Waiting struct {
	EvalID  uint64
	Answers uint64 // of asynchronous calls that the guest has had, in the life of the runtime
}

// Type returns TypeWaiting.
func (*Waiting) Type() Type { return TypeWaiting }

func (m *Waiting) put(e *encoder) { e.num(m.EvalID); e.num(m.Answers) }
func (m *Waiting) get(d *decoder) { m.EvalID, m.Answers = d.num(), d.num() }
