package mcpserver

import (
	"reflect"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// object is a JSON Schema of an object with exactly these members.
func object(required []string, properties map[string]any) map[string]any {
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func text(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

func flag(description string) map[string]any {
	return map[string]any{"type": "boolean", "description": description}
}

func texts(description string, most int) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "maxItems": most, "description": description}
}

func one(description string, of ...string) map[string]any {
	return map[string]any{"type": "string", "enum": of, "description": description}
}

// runSchema describes the arguments of run_code. It tells a model what to write; what
// is judged is what the strict decoder made of it.
func (s *Server) runSchema() map[string]any {
	var names []string
	for _, l := range s.known {
		names = append(names, l.Name)
	}
	file := object([]string{"name", "content"}, map[string]any{
		"name":     text("path relative to /box, such as data/in.csv"),
		"content":  text("the text of the file, or its base64 form"),
		"encoding": one("how content is written; utf-8 by default", "utf-8", "base64"),
		"mode":     map[string]any{"type": "integer", "minimum": 0, "maximum": 0o777, "description": "permission bits; 420 (octal 0644) by default"},
	})
	limits := s.limitsSchema()
	limits["properties"].(map[string]any)["compile"] = s.limitsSchema()
	return object(nil, map[string]any{
		"language":       one("the language of source or files; sandbox_status tells which are installed", names...),
		"source":         text("the text of a program of one file"),
		"files":          map[string]any{"type": "array", "items": file, "maxItems": api.MaxFiles, "description": "files of the program, put into /box; the first one is run unless entry names another"},
		"entry":          text("the name of the file that is run"),
		"command":        texts("a raw argv in place of a language; files may stand beside it", 1000),
		"args":           texts("arguments of the program", 1000),
		"env":            map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "description": "variables for the program's environment, which is otherwise almost empty"},
		"stdin":          text("what the program reads on standard input; nothing by default"),
		"stdin_encoding": one("how stdin is written; utf-8 by default", "utf-8", "base64"),
		"limits":         limits,
		"artifacts":      texts("patterns of files below /box to give back: out.csv, plots, **/*.png", api.MaxPatterns),
		"network":        one("none by default; loopback is an interface within the cell alone", api.NetworkNone, api.NetworkLoopback),
	})
}

// limitsSchema has each limit with its bounds; a limit that is left out has the
// language's default.
func (s *Server) limitsSchema() map[string]any {
	floor, ceiling := glovebox.Bounds()
	ceiling = ceiling.Lower(s.o.Box.MaxLimits)
	lo, hi, properties := reflect.ValueOf(floor), reflect.ValueOf(ceiling), map[string]any{}
	for i := range lo.NumField() {
		if lo.Field(i).Kind() != reflect.Int64 {
			continue
		}
		name, _, _ := strings.Cut(lo.Type().Field(i).Tag.Get("json"), ",")
		properties[name] = map[string]any{"type": "integer", "minimum": max(lo.Field(i).Int(), 1), "maximum": hi.Field(i).Int()}
	}
	return object(nil, properties)
}
