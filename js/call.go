package js

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
)

func sortMembers(m []member) {
	slices.SortFunc(m, func(a, b member) int { return strings.Compare(a.name, b.name) })
}

var (
	contextType = reflect.TypeFor[context.Context]()
)

// funcOf makes a Func of any function. The error is a *api.FieldError.
func funcOf(fn any) (Func, error) {
	switch f := fn.(type) {
	case Func:
		if f != nil {
			return f, nil
		}
	case func(context.Context, []Value) (any, error):
		if f != nil {
			return f, nil
		}
	}
	bad := func(reason string) (Func, error) {
		return nil, &api.FieldError{Field: "fn", Value: fmt.Sprintf("%T", fn), Reason: reason}
	}
	v := reflect.ValueOf(fn)
	if !v.IsValid() || v.Kind() != reflect.Func || v.IsNil() {
		return bad("must be a function")
	}
	t := v.Type()
	results := t.NumOut()
	fails := results > 0 && t.Out(results-1) == errorType
	if fails {
		results--
	}
	if results > 1 {
		return bad("must return one value and an error at most")
	}
	first := 0
	if t.NumIn() > 0 && t.In(0) == contextType {
		first = 1
	}
	if why := misfitOf(t, first, results); why != "" {
		return bad(why)
	}
	return func(ctx context.Context, args []Value) (any, error) {
		in, err := decodeArguments(t, first, args)
		if err != nil {
			return nil, err
		}
		if first == 1 {
			in = append([]reflect.Value{reflect.ValueOf(ctx)}, in...)
		}
		out := v.Call(in)
		if fails {
			if err, _ := out[len(out)-1].Interface().(error); err != nil {
				return nil, err
			}
		}
		if results == 0 {
			return Undefined, nil
		}
		return out[0].Interface(), nil
	}, nil
}

// misfitOf says which parameter of a function, from first on, or result could
// never cross, or "".
func misfitOf(t reflect.Type, first, results int) string {
	for i := first; i < t.NumIn(); i++ {
		in := t.In(i)
		if t.IsVariadic() && i == t.NumIn()-1 {
			in = in.Elem()
		}
		if why := barrier(in, true, map[reflect.Type]bool{}); why != "" {
			return fmt.Sprintf("its parameter %d %s", i+1, why)
		}
	}
	if results == 1 {
		if why := barrier(t.Out(0), false, map[reflect.Type]bool{}); why != "" {
			return "its result " + why
		}
	}
	return ""
}

// decodeArguments makes the values for the parameters of t from first on. What
// is wrong with an argument the guest may read: it has made it.
func decodeArguments(t reflect.Type, first int, args []Value) ([]reflect.Value, error) {
	n := t.NumIn() - first
	fixed := n
	if t.IsVariadic() {
		fixed--
	} else if len(args) > n {
		return nil, &GuestError{Name: "TypeError", Message: fmt.Sprintf("%d arguments for %d parameters", len(args), n)}
	}
	var in []reflect.Value
	for i := range max(fixed, len(args)) {
		var p reflect.Type
		if i < fixed {
			p = t.In(first + i)
		} else {
			p = t.In(t.NumIn() - 1).Elem()
		}
		v := reflect.New(p)
		if i < len(args) && !args[i].IsUndefined() {
			if err := args[i].Decode(v.Interface()); err != nil {
				return nil, &GuestError{Name: "TypeError", Message: fmt.Sprintf("argument %d: %v", i+1, err)}
			}
		}
		in = append(in, v.Elem())
	}
	return in, nil
}
