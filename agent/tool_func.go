package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// prepared is a call whose arguments were judged.
type prepared func(ctx context.Context) (any, error)

// goFunc is any function of Go.
type goFunc struct {
	fn      reflect.Value
	context bool // its first parameter
	fails   bool // its last result is an error
	results int  // besides
	plain   bool // no type of a parameter has methods of its own
}

// bindFunc reads the signature of a function.
func (b *boundTool) bindFunc(types *typeMaker) *api.FieldError {
	bad := func(format string, args ...any) *api.FieldError {
		return fieldError("Func", fmt.Sprintf("%T", b.Func), format, args...)
	}
	if len(b.OutputSchema) > 0 {
		return fieldError("OutputSchema", nil, "belongs to tools with an InputSchema")
	}
	f := &goFunc{fn: reflect.ValueOf(b.Func)}
	if !f.fn.IsValid() || f.fn.Kind() != reflect.Func || f.fn.IsNil() {
		return bad("must be a function")
	}
	t := f.fn.Type()
	f.context = t.NumIn() > 0 && t.In(0) == contextType
	f.results = t.NumOut()
	f.fails = f.results > 0 && t.Out(f.results-1) == errorType
	if f.fails {
		f.results--
	}
	if f.results > 1 {
		return bad("must return one value and an error at most")
	}
	b.result = shapeWords[js.ShapeVoid]
	if f.results == 1 {
		shape, err := types.Result(t.Out(0))
		if err != nil {
			return bad("its result %s", reason(err))
		}
		b.result = types.ofShape(shape)
	}
	f.plain = true
	for i := f.first(); i < t.NumIn(); i++ {
		f.plain = f.plain && isPlain(t.In(i))
	}
	n := t.NumIn() - f.first()
	if len(b.Params) > n {
		return fieldError("Params", len(b.Params), "are more than the %d parameters", n)
	}
	for i := range n {
		if err := b.param(types, t, f.first(), i); err != nil {
			return err
		}
	}
	b.invoke = f
	return nil
}

// reason is what is wrong with a type, without its name.
func reason(err error) string {
	var bad *api.FieldError
	if errors.As(err, &bad) {
		return bad.Reason
	}
	return err.Error()
}

// param adds the declaration of one parameter.
func (b *boundTool) param(types *typeMaker, t reflect.Type, first, i int) *api.FieldError {
	p := tsParam{name: fmt.Sprintf("arg%d", i+1)}
	if i < len(b.Params) {
		p.name = b.Params[i]
		if why := checkParam(p.name, b.params); why != "" {
			return fieldError("Params", shown(p.name), "%s", why)
		}
	}
	in := t.In(first + i)
	if p.rest = t.IsVariadic() && first+i == t.NumIn()-1; p.rest {
		in = in.Elem()
	}
	shape, err := types.Argument(in)
	if err != nil {
		return fieldError("Func", fmt.Sprintf("%T", b.Func), "its parameter %d %s", i+1, reason(err))
	}
	if shape.Kind == js.ShapeNullable {
		shape, p.optional = shape.Elem, true
	}
	p.typ = types.ofShape(shape)
	if b.params = append(b.params, p); !p.optional && !p.rest {
		for j := range b.params { // one that must be there makes those before it so
			if b.params[j].optional {
				b.params[j].optional = false
				b.params[j].typ = &tsType{kind: tsUnion, parts: []*tsType{b.params[j].typ, tsNull}}
			}
		}
	}
	return nil
}

// checkParam says why a parameter cannot have a name, or "".
func checkParam(name string, others []tsParam) string {
	if why := checkWord(name); why != "" {
		return why
	}
	for _, o := range others {
		if o.name == name {
			return "is there twice"
		}
	}
	return ""
}

func (f *goFunc) first() int {
	if f.context {
		return 1
	}
	return 0
}

// isPlain tells a type of the language, or a list of such, which is decoded
// without a method of anybody's.
func isPlain(t reflect.Type) bool {
	for t.PkgPath() == "" && (t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer) {
		t = t.Elem()
	}
	return t.PkgPath() == "" && (t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String)
}

// errTouchy is what a guest is told of a method that failed the program.
var errTouchy = errors.New("the arguments cannot be read")

// prepare decodes the arguments. What is wrong with them the guest may read: it
// has made them. The types of parameters may have methods that panic, or end
// their goroutine: then it is not that of the session.
func (f *goFunc) prepare(args []js.Value) (prepared, error) {
	if f.plain {
		return f.decode(args)
	}
	type outcome struct {
		run prepared
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errTouchy}
		defer func() {
			if recover() != nil {
				o = outcome{err: errTouchy}
			}
			done <- o
		}()
		run, err := f.decode(args)
		o = outcome{run, err}
	}()
	o := <-done
	return o.run, o.err
}

func (f *goFunc) decode(args []js.Value) (prepared, error) {
	t, first := f.fn.Type(), f.first()
	n := t.NumIn() - first
	fixed := n
	if t.IsVariadic() {
		fixed--
	} else if len(args) > n {
		return nil, fmt.Errorf("%d arguments for %d parameters", len(args), n)
	}
	in := make([]reflect.Value, first, first+max(fixed, len(args)))
	for i := range max(fixed, len(args)) {
		p := t.In(min(first+i, t.NumIn()-1))
		if i >= fixed {
			p = p.Elem()
		}
		var arg js.Value
		if i < len(args) {
			arg = args[i]
		} else if k := p.Kind(); k != reflect.Pointer && k != reflect.Slice && k != reflect.Map {
			return nil, fmt.Errorf("argument %d is missing", i+1)
		}
		v := reflect.New(p)
		if err := arg.DecodeStrict(v.Interface()); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		in = append(in, v.Elem())
	}
	return func(ctx context.Context) (any, error) {
		if f.context {
			in[0] = reflect.ValueOf(ctx)
		}
		return f.call(in)
	}, nil
}

func (f *goFunc) call(in []reflect.Value) (any, error) {
	out := f.fn.Call(in)
	if f.fails {
		if err, _ := out[len(out)-1].Interface().(error); err != nil {
			return nil, err
		}
	}
	if f.results == 0 {
		return js.Undefined, nil
	}
	return out[0].Interface(), nil
}
