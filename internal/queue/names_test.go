package queue

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"
)

// hostile are tokens that nobody may have: wildcards, separators, controls, what is
// not ASCII, nothing, and too much.
var hostile = []string{"", "*", ">", ".", "..", "a.b", "a.", ".a", "a*", ">a", "$JS", "$KV.x", "a b", " ", "\t", "\n", "\r\n", "\x00", "a\x00", "\x7f", "é", "\u202e", "a/b", "%2e", "\xff", strings.Repeat("a", 65)}

// It is long because all that takes a name is tried.
//
// proves part of H-72 X-08
func TestNamesRefused(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	submit(t, q, "mine", "seen") // what a wildcard would find
	d := take(t, q)
	must(t, d.Begin(ctx, nil))
	b := bucket(t, q, "keys", BucketOptions{})
	_, err := b.Create(ctx, "seen", []byte("x"), 0)
	must(t, err)
	before := q.srv.NumSubscriptions()
	for _, s := range hostile {
		for what, f := range map[string]func() error{
			"submit id":     func() error { return q.Submit(ctx, Job{ID: s, Client: "c"}) },
			"submit client": func() error { return q.Submit(ctx, Job{ID: "x", Client: s}) },
			"status":        func() error { _, err := q.Status(ctx, s); return err },
			"cancel":        func() error { return q.Cancel(ctx, s, nil) },
			"wait":          func() error { _, err := q.Wait(ctx, s); return err },
			"result":        func() error { _, err := q.Result(ctx, s); return err },
			"forget":        func() error { return q.Forget(ctx, s) },
			"signal":        func() error { return q.Signal(ctx, s, nil) },
			"event type":    func() error { return d.Publish(ctx, s, nil) },
			"put":           func() error { return q.Runs().Put(ctx, s, "a", bytes.NewReader(nil)) },
			"get":           func() error { _, err := q.Runs().Get(ctx, s, "a"); return err },
			"delete":        func() error { return q.Runs().Delete(ctx, s, "a") },
			"delete all":    func() error { return q.Runs().DeleteAll(ctx, s) },
			"list":          func() error { _, err := q.Runs().List(ctx, s); return err },
			"bucket":        func() error { _, err := q.Bucket(ctx, s, BucketOptions{}); return err },
			"objects":       func() error { _, err := q.Objects(ctx, s, time.Hour, 1<<20); return err },
			"key get":       func() error { _, err := b.Get(ctx, s); return err },
			"key create":    func() error { _, err := b.Create(ctx, s, nil, 0); return err },
			"key update":    func() error { _, err := b.Update(ctx, s, nil, 1, 0); return err },
			"key delete":    func() error { return b.Delete(ctx, s, 0) },
			"charge": func() error {
				_, err := b.Charge(ctx, s, Charge{ID: "a", N: 1, Limit: 1, Window: time.Hour})
				return err
			},
			"used":   func() error { _, err := b.Used(ctx, s, 1, time.Hour); return err },
			"refund": func() error { _, err := b.Refund(ctx, s, "a", time.Hour); return err },
			"space":  func() error { _, err := Open(ctx, Options{Dir: t.TempDir(), Space: s}); return err },
			"unfinished": func() error {
				_, err := q.Unfinished(ctx, s)
				if s == "" { // everybody's
					return errors.Join(err, ErrName)
				}
				return err
			},
			"events": func() error {
				for _, err := range q.Events(ctx, s, 0) {
					return err
				}
				return nil
			},
		} {
			err := f()
			if what == "space" && s == "" {
				continue // the default
			}
			if !errors.Is(err, ErrName) && what != "space" || err == nil {
				t.Errorf("%s %q: %v", what, s, err)
			}
		}
	}
	if n := q.srv.NumSubscriptions(); n != before {
		t.Errorf("%d subscriptions more", n-before)
	}
	// An object's name may be anything; it is never a part of a subject.
	for _, s := range hostile[1:] {
		must(t, q.Runs().Put(ctx, "seen", s, strings.NewReader(s)))
	}
	list, err := q.Runs().List(ctx, "seen")
	must(t, err)
	if len(list) != len(hostile)-1 {
		t.Error(len(list), "objects")
	}
}

// The control: what the check keeps away is what it says.
// proves part of H-72
func TestNamesUnchecked(t *testing.T) {
	q := open(t, Options{})
	for _, id := range []string{"r1", "r2"} {
		submit(t, q, "c", id)
		d := take(t, q)
		must(t, d.Begin(t.Context(), nil))
		must(t, d.Finish(t.Context(), []byte("of "+id), nil))
	}
	foreign := 0
	for m, err := range q.events.scan(context.Background(), name{"glovebox.ev." + "*" + ".c"}, 1) {
		must(t, err)
		if m.on.token(2) == "r2" {
			foreign++
		}
	}
	if foreign == 0 {
		t.Error("a wildcard finds nothing, so that its refusal proves nothing")
	}
}

// Only build makes names: nowhere else in the package a name is composed, and what
// is said to the server takes nothing but names.
// proves part of H-72
func TestNamesBuiltOnce(t *testing.T) {
	entries, err := os.ReadDir(".")
	must(t, err)
	fset := token.NewFileSet()
	files := 0
	for _, e := range entries {
		file := e.Name()
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || file == "names.go" {
			continue
		}
		files++
		src, err := os.ReadFile(file)
		must(t, err)
		for _, s := range foreignNames(t, fset, file, src) {
			t.Error(s)
		}
	}
	if files < 10 {
		t.Error("only", files, "files were read")
	}
}

// proves part of H-72
func TestNamesBuiltOnceSees(t *testing.T) {
	for _, line := range []string{
		`var n = name{"a." + id}`, `var n = name{s: id}`, `var n = []name{{id}}`, `var n = struct{ on name }{on: name{id}}`,
		`func f() { n.s = id }`, `func f() { n := shape(id) }`, `func f() { q.nc.Publish("a."+id, nil) }`,
		`func f() { q.js.PublishMsg(ctx, &nats.Msg{Subject: "x"}) }`, `func f() { q.nc.Subscribe(id, nil) }`,
		`func f() { s.GetLastMsgForSubject(ctx, id) }`, `var s = "glovebox.ev." + id`, `var s = fmt.Sprintf("%s.ev", id)`,
		`var c = jetstream.StreamConfig{Subjects: []string{id}}`, `const other shape = "{}.x"`,
	} {
		if len(foreignNames(t, token.NewFileSet(), "a.go", []byte("package queue\n"+line+"\n"))) == 0 {
			t.Errorf("not seen: %s", line)
		}
	}
}

// subjectCalls are functions of NATS whose argument of this number is a subject or a
// name.
var subjectCalls = map[string]int{
	"Publish": 0, "PublishRequest": 0, "Subscribe": 0, "SubscribeSync": 0, "ChanSubscribe": 0, "QueueSubscribe": 0, "Request": 0,
	"RequestWithContext": 1, "GetLastMsgForSubject": 1, "WithGetMsgSubject": 0, "WithPurgeSubject": 0, "WithSubjectFilter": 0,
	"WithExpectLastSequenceForSubject": 1, "DeleteConsumer": 1, "CreateOrUpdateConsumer": 1, "DeleteStream": 1, "Stream": 1,
}

// subjectFields are fields of NATS that are a subject or a name, or a list of them.
var subjectFields = map[string]bool{
	"Subject": true, "Subjects": true, "FilterSubject": true, "FilterSubjects": true, "DeliverSubject": true,
	"Source": true, "Destination": true, "Durable": true, "Bucket": true, "Reply": true,
}

// foreignNames finds names that are made without build. n.s, with n of the type
// name, is the only text that may go to the server, and nobody may write to it. It is
// long because a name can be made in many ways.
func foreignNames(t *testing.T, fset *token.FileSet, file string, src []byte) (found []string) {
	tree, err := parser.ParseFile(fset, file, src, 0)
	must(t, err)
	refuse := func(n ast.Node, why string) {
		found = append(found, fset.Position(n.Pos()).String()+": "+why)
	}
	// fromName says whether a text comes from a name: x.s, f(x).s, or inbox, which NATS makes.
	var fromName func(e ast.Expr) bool
	fromName = func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			return e.Sel.Name == "s" || e.Sel.Name == "Durable"
		case *ast.Ident:
			return e.Name == "inbox"
		case *ast.CompositeLit:
			for _, x := range e.Elts {
				if !fromName(x) {
					return false
				}
			}
			return true
		}
		return false
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			of, ok := n.Type.(*ast.Ident)
			list, isList := n.Type.(*ast.ArrayType)
			if isList {
				of, ok = list.Elt.(*ast.Ident)
			}
			if !ok || of.Name != "name" || len(n.Elts) == 0 {
				break
			}
			for _, x := range n.Elts { // from the server: m.Subject, m.Subject(), a header
				if isList || !fromServer(x) {
					refuse(n, "a name that build has not made")
				}
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "shape" {
				refuse(n, "a shape that names.go does not have")
			}
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				if i, ok := subjectCalls[sel.Sel.Name]; ok && i < len(n.Args) && len(n.Args) > 1 && !ours(sel) && !fromName(n.Args[i]) {
					refuse(n, sel.Sel.Name+" of what is not a name")
				}
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok && subjectFields[id.Name] && !fromName(n.Value) {
				refuse(n, id.Name+" of what is not a name")
			}
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if sel, ok := x.(*ast.SelectorExpr); ok && sel.Sel.Name == "s" && n.Tok == token.ASSIGN {
					if of, ok := sel.X.(*ast.Ident); !ok || len(of.Name) > 1 || of.Name == "n" {
						refuse(n, "a name is changed")
					}
				}
			}
		case *ast.ValueSpec:
			if of, ok := n.Type.(*ast.Ident); ok && of.Name == "shape" {
				refuse(n, "a shape that names.go does not have")
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && subjectLike(n.Value) {
				refuse(n, "a text that looks like a subject")
			}
		}
		return true
	})
	return found
}

// fromServer says whether a text was taken from a message.
func fromServer(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if ok {
		e = call.Fun
		if sel, ok := e.(*ast.SelectorExpr); ok && sel.Sel.Name == "Get" && len(call.Args) == 1 {
			return true
		}
	}
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Subject"
}

// ours are methods of this package that have the name of one of NATS.
func ours(sel *ast.SelectorExpr) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && (x.Name == "d" || x.Name == "q")
}

func subjectLike(s string) bool {
	s = strings.Trim(s, "`\"")
	return strings.HasPrefix(s, "$") || strings.Contains(s, ".*") || strings.Contains(s, ".>") || strings.HasSuffix(s, ".") && !strings.Contains(s, " ") ||
		strings.Contains(s, "%s.") || strings.Contains(s, ".%s") || strings.Contains(s, ".ev") || strings.Contains(s, ".job") || strings.Contains(s, ".obj")
}
