package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// envelope is a message of JSON-RPC 2.0. Batches are not taken: the protocol gave
// them up.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Bounds of what a message may say.
const (
	maxID     = 256 // bytes of an id or a progress token, which answers repeat
	maxMethod = 128
)

// frame is a message that was found to be in order.
type frame struct {
	id   string // as it was written, "" for a notification
	call bool   // it waits for an answer
}

// refusal is a message that is not taken, with the id to answer to: "null" where
// there is none that could be read.
type refusal struct {
	id   string
	code int64
	why  string
}

func (r *refusal) Error() string { return r.why }

// line is the answer to a message that was refused.
func (r *refusal) line() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, r.id, r.code, encode(r.why))
}

// judge reads a message before the SDK does: names are exact and stand once, at any
// depth, text is UTF-8, and what answers repeat is short. The SDK reads the same
// bytes afterwards, by exact names too, so there is one meaning that both see.
func judge(text []byte) (frame, error) {
	var e envelope
	if err := strictjson.Decode(text, &e, strictjson.Options{MaxBytes: MaxMessage}); err != nil {
		return frame{}, &refusal{"null", jsonrpc.CodeParseError, words(err)}
	}
	f := frame{id: string(e.ID)}
	if !isID(e.ID, maxID) {
		return f, &refusal{"null", jsonrpc.CodeInvalidRequest, "id: must be a string of at most 256 bytes or a whole number"}
	}
	refuse := func(code int64, why string) (frame, error) {
		if f.id == "" {
			return f, &refusal{"null", code, why}
		}
		return f, &refusal{f.id, code, why}
	}
	switch {
	case e.Version != "2.0":
		return refuse(jsonrpc.CodeInvalidRequest, "jsonrpc: must be 2.0")
	case e.Method == "" && f.id == "":
		return refuse(jsonrpc.CodeInvalidRequest, "method: is missing")
	case e.Method != "" && (e.Result != nil || e.Error != nil):
		return refuse(jsonrpc.CodeInvalidRequest, "a message is a request or an answer, not both")
	case len(e.Method) > maxMethod:
		return refuse(jsonrpc.CodeInvalidRequest, "method: is too long")
	case e.Method != "tools/call" && len(text) > maxControl:
		return refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message that calls no tool must have at most %d bytes", maxControl))
	}
	f.call = e.Method != "" && f.id != ""
	if e.Method == "" {
		return f, nil
	}
	if why := judgeParams(e.Method, e.Params); why != "" {
		return refuse(jsonrpc.CodeInvalidParams, why)
	}
	return f, nil
}

// isID reports whether raw is missing, a string or a whole number, and short.
func isID(raw json.RawMessage, most int) bool {
	switch {
	case raw == nil:
		return true
	case len(raw) > most:
		return false
	case raw[0] == '"':
		return true
	}
	_, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil
}

// judgeParams says what is wrong with the parameters of a method, "" for nothing.
// What the SDK would repeat in full in an error is caught here.
func judgeParams(method string, raw json.RawMessage) string {
	if raw == nil || string(raw) == "null" {
		return ""
	}
	var params map[string]json.RawMessage
	if err := strictjson.Decode(raw, &params, strictjson.Options{MaxBytes: MaxMessage}); err != nil {
		return "params: must be an object"
	}
	if meta, ok := params["_meta"]; ok {
		var m map[string]json.RawMessage
		switch err := strictjson.Decode(meta, &m, strictjson.Options{}); {
		case err != nil:
			return "params._meta: must be an object"
		case len(meta) > maxControl:
			return "params._meta: is too long"
		case !isID(m["progressToken"], maxID):
			return "params._meta.progressToken: must be a string of at most 256 bytes or a whole number"
		}
	}
	if method != "tools/call" {
		return ""
	}
	var name string
	if err := strictjson.Decode(params["name"], &name, strictjson.Options{}); err != nil || len(name) > maxMethod {
		return "params.name: must be the name of a tool"
	}
	if a := params["arguments"]; a != nil && a[0] != '{' && string(a) != "null" {
		return "params.arguments: must be an object"
	}
	return ""
}

var errTooMany = errors.New("too many calls wait for their answers")
