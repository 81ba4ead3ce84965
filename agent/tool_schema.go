package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/jsonschema"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
	"github.com/glovebox-dev/glovebox/js"
)

// SchemaFunc is the Func of a tool with an InputSchema. The arguments are those
// that were held against it, and the function's own.
type SchemaFunc = func(ctx context.Context, args map[string]any) (any, error)

// schemaFunc is one with its schema.
type schemaFunc struct {
	fn     SchemaFunc
	schema *jsonschema.Schema
}

// bindSchema compiles the schemas of a tool.
func (b *boundTool) bindSchema(types *typeMaker) *api.FieldError {
	fn, ok := b.Func.(SchemaFunc)
	if b.Func != nil && (!ok || fn == nil) {
		return fieldError("Func", fmt.Sprintf("%T", b.Func), "must be a func(context.Context, map[string]any) (any, error), since there is an InputSchema")
	}
	if len(b.Params) > 0 {
		return fieldError("Params", len(b.Params), "belong to tools without an InputSchema")
	}
	in, err := jsonschema.Compile(b.InputSchema)
	if err != nil {
		return fieldError("InputSchema", nil, "%v", err)
	}
	if len(in.Types) != 1 || in.Types[0] != "object" {
		return fieldError("InputSchema", nil, `must have the type "object"`)
	}
	b.result = tsUnknown
	if len(b.OutputSchema) > 0 {
		out, err := jsonschema.Compile(b.OutputSchema)
		if err != nil {
			return fieldError("OutputSchema", nil, "%v", err)
		}
		b.result = types.ofSchema(out)
	}
	b.params = []tsParam{{name: "args", typ: types.ofSchema(in), optional: len(in.Required) == 0}}
	b.invoke = &schemaFunc{fn, in}
	return nil
}

// The bounds of the arguments of a schema's tool, as JSON.
const (
	maxJSONBytes  = 16 << 20
	maxJSONValues = 1_000_000
	maxJSONDepth  = 128
)

// prepare turns the argument into plain data once, and holds that against the
// schema.
func (f *schemaFunc) prepare(args []js.Value) (prepared, error) {
	if len(args) > 1 {
		return nil, fmt.Errorf("%d arguments for one object", len(args))
	}
	data := map[string]any{}
	if len(args) == 1 && !args[0].IsUndefined() {
		text, err := args[0].MarshalJSON()
		if err != nil {
			return nil, err
		}
		var plain any
		if err := strictjson.Decode(text, &plain, strictjson.Options{MaxBytes: maxJSONBytes, MaxValues: maxJSONValues, MaxDepth: maxJSONDepth}); err != nil {
			return nil, err
		}
		var ok bool
		if data, ok = plain.(map[string]any); !ok {
			return nil, errors.New("the argument is no object")
		}
	}
	if err := f.schema.Validate(data, jsonschema.DefaultSteps); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) { return f.fn(ctx, data) }, nil
}
