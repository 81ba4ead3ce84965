package glovebox_test

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// surface is every exported function and method of a public package that takes a
// context or a source: "PACKAGE.Function" or "PACKAGE.Type.Method". Each has a
// proof that a gate which denies stops it, or the reason why there is nothing to
// stop. A package alone stands for all of it. A name that the packages do not have
// fails the test, and so does one of theirs that is not here.
//
// Commands, endpoints and tools have a table like it in cmd/glovebox.
var surface = map[string]struct {
	proof func(t *testing.T, s *shut)
	free  string // why no gate is asked
}{
	"glovebox.Box.Run": {proof: func(t *testing.T, s *shut) {
		_, err := s.box.Run(ctx, s.program)
		s.stopped(t, err)
	}},
	"glovebox.Box.Start": {proof: func(t *testing.T, s *shut) {
		_, err := s.box.Start(ctx, s.program)
		s.stopped(t, err)
		_, err = s.box.Start(ctx, s.program, glovebox.WithTrace(new(glovebox.Trace), glovebox.Tracing{}))
		s.stopped(t, err)
	}},
	"glovebox.Box.CheckLanguage": {proof: func(t *testing.T, s *shut) {
		_, err := s.box.CheckLanguage(ctx, "toy")
		s.stopped(t, err)
	}},
	"glovebox.Box.Languages": {proof: func(t *testing.T, s *shut) {
		for _, l := range s.box.Languages(ctx, true) {
			if l.Version != "" {
				t.Errorf("%s was run: %s", l.Name, l.Version)
			}
		}
	}},
	"glovebox.Box.Warm":   {proof: func(t *testing.T, s *shut) { s.stopped(t, s.box.Warm(ctx, "toy")) }},
	"client":              {free: "asks a service, whose own gate judges"},
	"glovebox.Box.Limits": {free: "reads numbers"},
	"glovebox.Box.Judge": {proof: func(t *testing.T, s *shut) {
		s.stopped(t, s.box.Judge(ctx, glovebox.Program{Command: []string{"/bin/echo"}}))
	}},
	"glovebox.Judge":        {proof: func(t *testing.T, s *shut) { s.stopped(t, glovebox.Judge(ctx, s.options, s.program)) }},
	"glovebox.UnownedFiles": {free: "reads the names of files of the host"},

	"js.New": {proof: func(t *testing.T, s *shut) {
		_, err := js.New(ctx, s.withModule())
		s.stopped(t, err)
	}},
	"js.NewPool": {proof: func(t *testing.T, s *shut) {
		_, err := js.NewPool(ctx, s.withModule(), js.PoolOptions{})
		s.stopped(t, err)
	}},
	"js.Pool.Admit": {proof: func(t *testing.T, s *shut) {
		_, err := s.pool.Admit(ctx, js.Script{Code: "ran()"})
		s.stopped(t, err)
	}},
	"js.Runtime.Eval": {proof: func(t *testing.T, s *shut) {
		_, err := s.rt.Eval(ctx, "ran()")
		s.stopped(t, err)
	}},
	"js.Runtime.EvalModule": {proof: func(t *testing.T, s *shut) {
		_, err := s.rt.EvalModule(ctx, "ran()")
		s.stopped(t, err)
	}},
	"js.Runtime.Run": {proof: func(t *testing.T, s *shut) {
		_, _, err := s.rt.Run(ctx, js.Script{Code: "ran()"})
		s.stopped(t, err)
		_, _, err = s.rt.Run(ctx, js.Script{Code: "import 'm'", Module: true})
		s.stopped(t, err)
	}},
	"js.Runtime.Execute": {proof: func(t *testing.T, s *shut) {
		_, err := s.rt.Execute(ctx, js.Script{Code: "ran()"})
		s.stopped(t, err)
	}},
	"js.Runtime.Start": {proof: func(t *testing.T, s *shut) {
		_, err := s.rt.Start(ctx, js.Script{Code: "ran()"})
		s.stopped(t, err)
	}},
	"js.Runtime.Resume": {proof: func(t *testing.T, s *shut) {
		s.resumed(t, s.rt.Resume)
	}},
	"js.Runtime.ResumeInTurn": {proof: func(t *testing.T, s *shut) {
		s.resumed(t, s.rt.ResumeInTurn)
	}},
	"js.Pool.Transform":     {free: "runs nothing: what it returns is judged when it is to run"},
	"js.Runtime.Transform":  {free: "runs nothing: what it returns is judged when it is to run"},
	"js.Pool.Checkout":      {free: "brings no source: what the pool gives its workers was judged by NewPool"},
	"js.Runtime.Bind":       {free: "runs a function of the host"},
	"js.Runtime.BindAsync":  {free: "runs a function of the host"},
	"js.Runtime.BindObject": {free: "runs functions of the host"},
	"js.Runtime.BindPaused": {free: "runs nothing"},
	"js.Runtime.Revoke":     {free: "runs nothing"},

	"js.Runtime.Check":    {free: "runs nothing"},
	"js.Runtime.Snapshot": {free: "runs nothing of the guest's"},
	"js.Runtime.Rebuild":  {free: "gives plain data, under names that are held to be names"},

	"agent.Session.Feed": {proof: func(t *testing.T, s *shut) {
		s.session(t, func(session *agent.Session) error {
			_, err := session.Feed(ctx, "ran()", agent.FeedOptions{})
			return err
		})
		s.session(t, func(session *agent.Session) error {
			_, err := session.Feed(ctx, "ran() as number", agent.FeedOptions{Syntax: js.TypeScript})
			return err
		})
	}},
	"agent.Session.Start": {proof: func(t *testing.T, s *shut) {
		s.session(t, func(session *agent.Session) error {
			_, err := session.Start(ctx, "ran()", agent.FeedOptions{RunTools: true})
			return err
		})
	}},
	"agent.Session.Execute": {proof: func(t *testing.T, s *shut) {
		s.session(t, func(session *agent.Session) error {
			_, err := session.Execute(ctx, "ran()", agent.FeedOptions{})
			return err
		})
	}},
	"agent.Open": {proof: func(t *testing.T, s *shut) {
		o := s.agent()
		o.Modules = map[string]string{"a": "ran()"}
		_, err := agent.Open(ctx, o)
		s.stopped(t, err)
	}},
	"agent.Pool.Load": {proof: func(t *testing.T, s *shut) { // the journal of a pool with another gate
		loaded, err := s.agents.Load(ctx, dump(t, s.journal(t, false)), agent.LoadOptions{SessionOptions: agent.SessionOptions{Tools: s.tools(t)}})
		if !errors.As(err, new(*gate.Denied)) {
			t.Errorf("%v, %v: the journal was replayed", loaded, err)
		}
	}},
	"agent.Pool.Acquire": {proof: func(t *testing.T, s *shut) {
		if err := s.journal(t, true).Release(); err != nil {
			t.Fatal(err)
		}
		session, err := s.agents.Acquire(ctx, store.Key{Owner: "a", ID: "b"}, agent.AcquireOptions{Tools: s.tools(t), MustExist: true})
		if err == nil { // it is replayed when it is fed
			_, err = session.Feed(ctx, "/* ALLOW */ 1", agent.FeedOptions{})
		}
		if !errors.As(err, new(*gate.Denied)) {
			t.Errorf("%v, %v: the journal was replayed", session, err)
		}
	}},
	"agent.Session.Resume":  {free: "goes on with a feed that was judged; sessions import nothing but what Open was given"},
	"agent.Session.Compact": {free: "plain data goes from one worker to another, under names that are held to be names"},
	"agent.Pool.Checkout":   {free: "brings no source"},
	"agent.Pool.Delete":     {free: "runs nothing"},
	"agent.Pool.Sessions":   {free: "runs nothing"},
	"agent.CallOf":          {free: "runs nothing"},
	"agent.Fetcher.Fetch":   {free: "a function of the host"},
	"agent.ToolCall.Run":    {free: "runs a function of the host"},

	"agent/store":        {free: "keeps bytes"},
	"agent/store/natskv": {free: "keeps bytes"},
	"gate":               {free: "asks gates"},
	"preflight":          {free: "reads texts and runs nothing"},
	"languages":          {free: "data"},
	"redteam":            {free: "fires the attacks that come with Glovebox, and takes no program"},
}

var ctx = context.Background()

// shut is what a gate that denies stands before. Of the Box the one cell is taken:
// whatever asked for one would get ErrBusy.
type shut struct {
	box     *glovebox.Box
	options glovebox.Options
	program glovebox.Program
	pool    *js.Pool
	rt      *js.Runtime
	agents  *agent.Pool
	kept    store.Store
	ran     int // calls of the guests
}

// closed denies all but what says that it is allowed.
func closed(_ context.Context, source []byte, _ gate.Info) gate.Verdict {
	return gate.Verdict{Allow: strings.Contains(string(source), "ALLOW"), Reason: "closed"}
}

func newShut(t *testing.T) *shut {
	t.Helper()
	s := &shut{options: withToy(t, glovebox.Options{Gate: closed, MaxCells: 1, MaxWaiting: -1}), program: glovebox.Program{Language: "toy", Source: "echo ran"}}
	var err error
	if s.box, err = glovebox.New(s.options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.box.Close() })
	if s.pool, err = js.NewPool(ctx, s.js(), js.PoolOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.pool.Close() })
	if s.rt, err = s.pool.Checkout(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.rt.Bind(ctx, "ran", func() { s.ran++ }), s.rt.BindPaused(ctx, "later")); err != nil {
		t.Fatal(err)
	}
	s.kept = store.NewMemory()
	if s.agents, err = agent.Open(ctx, s.agent()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.agents.Close(); s.kept.Close() })
	begun := make(chan struct{})
	r, err := s.box.Start(ctx, glovebox.Program{Command: []string{"/bin/sh", "-c", "sleep 600 # ALLOW"}, Limits: glovebox.Limits{WallMS: 600_000}},
		glovebox.WithEvents(func(e glovebox.Event) {
			if e.Type == "started" {
				close(begun)
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("the cell is not taken")
	}
	return s
}

func (s *shut) js() js.Options {
	return js.Options{Gate: closed, InitPath: testenv.Init(), WorkerPath: testenv.Worker(),
		Resolve: func(context.Context, string, string) (string, string, error) { return "m", "ran()", nil }}
}

func (s *shut) withModule() js.Options {
	o := s.js()
	o.Modules = map[string]string{"a": "ran()"}
	return o
}

func (s *shut) agent() agent.Options {
	return agent.Options{Gate: closed, InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Store: s.kept, Keys: &agent.Keys{Current: "k", Roots: map[string][]byte{"k": make([]byte, 32)}}}
}

func (s *shut) tools(t *testing.T) *agent.Catalog {
	t.Helper()
	c, err := agent.NewCatalog([]agent.Tool{{Name: "ran", Func: func() { s.ran++ }}}, agent.CatalogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// session holds that something is stopped in a session, costs it nothing and is on
// no record.
func (s *shut) session(t *testing.T, try func(*agent.Session) error) {
	t.Helper()
	session, err := s.agents.Checkout(ctx, agent.SessionOptions{Tools: s.tools(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.Feed(ctx, "globalThis.x = 1 // ALLOW", agent.FeedOptions{}); err != nil {
		t.Fatal(err)
	}
	before, usage := dump(t, session), session.Usage()
	s.stopped(t, try(session))
	if after := dump(t, session); !bytes.Equal(before, after) {
		t.Errorf("a denial made the journal %d bytes of %d", len(after), len(before))
	}
	if u := session.Usage(); u != usage {
		t.Errorf("a denial cost %+v of %+v", u, usage)
	}
	if _, err := session.Feed(ctx, "x // ALLOW", agent.FeedOptions{}); err != nil { // the control
		t.Error(err)
	}
	if after := dump(t, session); bytes.Equal(before, after) || session.Usage() == usage {
		t.Error("a feed that ran left no trace either")
	}
}

func dump(t *testing.T, session *agent.Session) []byte {
	t.Helper()
	d, err := session.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return d.Journal
}

// journal is a session of a pool without a gate, in the store or not.
func (s *shut) journal(t *testing.T, kept bool) *agent.Session {
	t.Helper()
	o := s.agent()
	o.Gate, o.StrictEval = nil, true
	p, err := agent.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	session, err := p.Checkout(ctx, agent.SessionOptions{Tools: s.tools(t)})
	if kept {
		session, err = p.Acquire(ctx, store.Key{Owner: "a", ID: "b"}, agent.AcquireOptions{Tools: s.tools(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Feed(ctx, "globalThis.y = 1", agent.FeedOptions{}); err != nil {
		t.Fatal(err)
	}
	return session
}

// resumed goes on with an evaluation that imports what the gate denies.
func (s *shut) resumed(t *testing.T, resume func(context.Context, ...js.Reply) (*js.Step, error)) {
	t.Helper()
	step, err := s.rt.Start(ctx, js.Script{Code: "/* ALLOW */ later().then(() => import('m'))"})
	if err != nil || len(step.Calls) != 1 {
		t.Fatal(step, err)
	}
	_, err = resume(ctx, js.Reply{ID: step.Calls[0].ID})
	var inside *gate.Denied
	if js.KindOf(err) != js.Thrown || !errors.As(err, &inside) {
		t.Errorf("%v: the module was not stopped", err)
	}
}

// stopped holds that an error is the gate's own, and that nothing ran.
func (s *shut) stopped(t *testing.T, err error) {
	t.Helper()
	wantDenied(t, err, "closed")
	if s.ran > 0 {
		t.Error("the guest ran")
	}
}

// Every exported way to run a guest's code is behind the gate: each is called
// with a gate that denies, and ends by its error before a cell or a worker hears
// of it.
//
// proves part of H-57
func TestGateSurface(t *testing.T) {
	found := publicFunctions(t)
	for _, name := range found {
		pkg, _, _ := strings.Cut(name, ".")
		if _, ok := surface[name]; !ok && surface[pkg].free == "" {
			t.Errorf("%s takes a context or a source, and the table of what is behind the gate has it not", name)
		}
	}
	s := newShut(t)
	if _, err := s.box.Run(ctx, glovebox.Program{Command: []string{"/bin/echo", "ALLOW"}}); !errors.Is(err, glovebox.ErrBusy) { // the control
		t.Fatalf("%v: the cell is free, and the proofs prove nothing", err)
	}
	for name, row := range surface {
		whole := !strings.Contains(name, ".")
		switch {
		case !whole && !slices.Contains(found, name), whole && !isFolder(name):
			t.Errorf("the table has %s, and the packages have it not", name)
		case (row.proof == nil) == (row.free == ""):
			t.Errorf("%s needs a proof or a reason", name)
		case row.proof != nil:
			t.Run(name, func(t *testing.T) { row.proof(t, s) })
		}
	}
	if _, err := s.rt.Eval(ctx, "ran() // ALLOW"); err != nil || s.ran != 1 { // the control
		t.Errorf("%v, ran %d times", err, s.ran)
	}
}

func isFolder(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// sourceNames are names of parameters, and sourceTypes of types, that bring code.
var (
	sourceNames = []string{"code", "source", "src", "script", "text", "program", "feed"}
	sourceTypes = []string{"Script", "Source", "Program", "Feed"}
)

// publicFunctions are the exported functions and methods of all public packages
// that take a context or a source, as "PACKAGE.Name" or "PACKAGE.Type.Name".
func publicFunctions(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (base[0] == '.' || slices.Contains([]string{"internal", "cmd", "bench", "matrix", "examples", "testdata", "vendor", "bin", "docs"}, base)) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(name))
		if pkg == "." {
			pkg = "glovebox"
		}
		names = append(names, guestFunctions(pkg, tree)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// guestFunctions are those of one file.
func guestFunctions(pkg string, tree *ast.File) (names []string) {
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !f.Name.IsExported() || !takesSource(f.Type.Params) {
			continue
		}
		name := pkg + "."
		if f.Recv != nil {
			receiver := typeName(f.Recv.List[0].Type)
			if !ast.IsExported(receiver) {
				continue
			}
			name += receiver + "."
		}
		names = append(names, name+f.Name.Name)
	}
	return names
}

func takesSource(params *ast.FieldList) bool {
	for _, p := range params.List {
		typ := typeName(p.Type)
		if typ == "Context" || slices.Contains(sourceTypes, typ) {
			return true
		}
		for _, n := range p.Names {
			if slices.Contains(sourceNames, strings.ToLower(n.Name)) && (typ == "string" || typ == "byte") {
				return true
			}
		}
	}
	return false
}

// typeName is the last name in a type: of *js.Script, []Script and ...Script it is
// "Script".
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ArrayType:
		return typeName(e.Elt)
	case *ast.Ellipsis:
		return typeName(e.Elt)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}

// The control: new functions are found, whatever they call things.
func TestGateSurfaceFindsFunctions(t *testing.T) {
	const src = `package js
func (r *Runtime) EvalTwice(ctx context.Context, code string) {}
func (p *Pool) Load(scripts ...Script) {}
func Compile(source []byte) {}
func Fast[T any](c context.Context, x T) {}
func (m Map[T]) Each(s *js.Source) {}
func (r *Runtime) hidden(ctx context.Context) {}
func (r *runtime) Hidden(ctx context.Context) {}
func Harmless(n int, name string) {}
`
	tree, err := parser.ParseFile(token.NewFileSet(), "a.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"js.Runtime.EvalTwice", "js.Pool.Load", "js.Compile", "js.Fast", "js.Map.Each"}
	if got := guestFunctions("js", tree); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
