package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// listedTool is a tool as servers and model APIs write it.
type listedTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputMCP    json.RawMessage `json:"inputSchema"`
	InputSnake  json.RawMessage `json:"input_schema"`
	Parameters  json.RawMessage `json:"parameters"`
	Output      json.RawMessage `json:"outputSchema"`
	// These say nothing that counts here: hints of a stranger are no policy.
	Annotations json.RawMessage `json:"annotations"`
	Icons       json.RawMessage `json:"icons"`
	Execution   json.RawMessage `json:"execution"`
	Meta        json.RawMessage `json:"_meta"`
}

// RemoteFunc calls a tool by the name that its server gave it.
type RemoteFunc func(ctx context.Context, name string, args map[string]any) (any, error)

// ParseTools reads a JSON list of tools as an MCP server gives it in
// tools/list, the schema spelled inputSchema, input_schema or parameters. Each
// becomes a Tool that calls the server's by its own name; the guest's name is
// [GuestName] of that, in a namespace if one is given. Members that are not
// known, or there twice, refuse the list. The error is an *api.FieldError.
func ParseTools(list []byte, namespace string, call RemoteFunc) ([]Tool, error) {
	var listed []listedTool
	if err := strictjson.Decode(list, &listed, strictjson.Options{}); err != nil {
		return nil, err
	}
	if call == nil {
		return nil, fieldError("call", nil, "must be a function")
	}
	var out []Tool
	for i, l := range listed {
		var schema json.RawMessage
		for _, s := range []json.RawMessage{l.InputMCP, l.InputSnake, l.Parameters} {
			if s != nil && schema != nil {
				return nil, fieldError(fmt.Sprintf("[%d]", i), shown(l.Name), "has two schemas of its input")
			} else if s != nil {
				schema = s
			}
		}
		if schema == nil {
			return nil, fieldError(fmt.Sprintf("[%d].inputSchema", i), shown(l.Name), "is missing")
		}
		name := GuestName(l.Name)
		if namespace != "" {
			name = namespace + "." + name
		}
		out = append(out, Tool{Name: name, Description: cmp.Or(l.Description, l.Title), InputSchema: schema, OutputSchema: l.Output,
			Func: func(ctx context.Context, args map[string]any) (any, error) { return call(ctx, l.Name, args) }})
	}
	return out, nil
}
