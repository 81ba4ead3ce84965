package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// Tool is a function of the host that code of a model may call by its name and
// await. There are two kinds.
//
// Without InputSchema, Func is any function of Go: a context first or not, an
// error last or not, variadic, with whatever [js.Value.DecodeStrict] can set as
// parameters and one result that can cross. Arguments are decoded by exact
// names; an argument that is missing counts as undefined, which pointers, slices
// and maps take.
//
// With InputSchema, the guest gives one object, or none for {}, which is held
// against the schema and handed on as it was judged. Func is then a
// func(context.Context, map[string]any) (any, error).
type Tool struct {
	// Name is what the guest calls: "search", or in namespaces "files.read". One to
	// four identifiers, none a word or a global name of the language, none that
	// begins with "__" or "glovebox".
	Name string
	// Description is shown to the model. It may be a stranger's: whatever shows it
	// takes away what ends a comment or hides, and cuts it at 1 KiB. At most 64 KiB.
	Description string
	// Func is what runs. A tool with an InputSchema may do without: its calls wait for
	// Resume.
	Func any
	// Params are the names of Func's parameters, the context left out; Go does not
	// keep them. Missing ones are arg1, arg2, …
	Params []string
	// InputSchema is a JSON Schema (draft 2020-12 or 7) of an object. Nothing is
	// loaded, and a keyword that is not known refuses it.
	InputSchema json.RawMessage
	// OutputSchema is for the declaration alone: results are not held against it.
	OutputSchema json.RawMessage
	// TimeoutMS bounds one call, in ms. Default 30,000, at most 3,600,000.
	TimeoutMS int64
	// MaxCalls is how often a session may call it. Default 1,000, at most
	// 1,000,000.
	MaxCalls int64
	// Approve keeps the tool from being run until a [Reply] says so for each call, with
	// the call's Approval.
	Approve bool
	// Lazy keeps the tool out of declarations until the guest has asked for its
	// description; before that it cannot be called.
	Lazy bool
}

// The bounds of tools.
const (
	maxTools       = 1_000
	maxDescription = 64 << 10
	maxDeclaration = 16 << 10
)

// boundTool is a Tool that was checked.
type boundTool struct {
	Tool
	params []tsParam
	result *tsType
	invoke invoker
	shown  string // its declaration
	hash   string
	find   findable
}

// invoker makes a call of a tool out of arguments, or says what is wrong with
// them. What it returns runs the tool with exactly what was judged.
type invoker interface {
	prepare(args []js.Value) (prepared, error)
}

func fieldError(field string, value any, format string, args ...any) *api.FieldError {
	return &api.FieldError{Field: field, Value: value, Reason: fmt.Sprintf(format, args...)}
}

// bind checks a tool. The error names the field.
func (t Tool) bind(types *typeMaker) (*boundTool, *api.FieldError) {
	b := &boundTool{Tool: t}
	if why := checkName(t.Name); why != "" {
		return nil, fieldError("Name", shown(t.Name), "%s", why)
	}
	if len(t.Description) > maxDescription {
		return nil, fieldError("Description", nil, "has more than %d bytes", maxDescription)
	}
	for _, l := range []struct {
		name        string
		value       *int64
		usual, most int64
	}{{"TimeoutMS", &b.TimeoutMS, 30_000, 3_600_000}, {"MaxCalls", &b.MaxCalls, 1_000, 1_000_000}} {
		if *l.value < 0 || *l.value > l.most {
			return nil, fieldError(l.name, *l.value, "must be from 1 to %d, or 0 for %d", l.most, l.usual)
		}
		*l.value = cmp.Or(*l.value, l.usual)
	}
	b.find = newFindable(t)
	var err *api.FieldError
	if len(t.InputSchema) > 0 {
		err = b.bindSchema(types)
	} else {
		err = b.bindFunc(types)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// handed tells whether calls of the tool wait for somebody.
func (b *boundTool) handed() bool { return b.Approve || b.Func == nil }

// ready makes a call of arguments that were judged before.
func (b *boundTool) ready(args []js.Value) (*ToolCall, error) {
	run, err := b.invoke.prepare(args)
	if err != nil {
		return nil, &ToolError{Kind: ToolArguments, Tool: b.Name, Message: err.Error(), Err: err}
	}
	return &ToolCall{Tool: b.Name, timeout: time.Duration(b.TimeoutMS) * time.Millisecond, run: run}, nil
}

// path splits the name.
func (b *boundTool) path() (spaces []string, name string) {
	parts := strings.Split(b.Name, ".")
	return parts[:len(parts)-1], parts[len(parts)-1]
}
