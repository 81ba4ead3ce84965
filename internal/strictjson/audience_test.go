package strictjson_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// place is one field of a struct, reached from a root.
type place struct {
	path string   // as an error names it
	text string   // a text that sets it and what it lies in
	tags []string // the tags "for" of all fields on the way, its own last
	stop []string // the paths of the same
}

// places returns every field of a struct type and of the structs in it. A type
// that holds itself is entered once more and not again.
func places(t reflect.Type, in place, seen []reflect.Type) []place {
	var out []place
	if n := len(seen) - len(slices.DeleteFunc(slices.Clone(seen), func(s reflect.Type) bool { return s == t })); n > 1 {
		return nil
	}
	seen = append(slices.Clone(seen), t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inside, wrap := f.Type, "%s"
		path := strings.TrimPrefix(in.path+"."+name, ".")
		below := path
		for inside.Kind() == reflect.Pointer || inside.Kind() == reflect.Slice && inside.Elem().Kind() != reflect.Uint8 {
			if inside.Kind() == reflect.Slice {
				wrap, below = "["+wrap+"]", below+"[0]"
			}
			inside = inside.Elem()
		}
		set := func(value string) string {
			return strings.Replace(in.text, "HERE", fmt.Sprintf(`{"%s":`+wrap+`}`, name, value), 1)
		}
		p := place{path, set(sample(inside)), append(slices.Clone(in.tags), f.Tag.Get("for")), append(slices.Clone(in.stop), path)}
		out = append(out, p)
		if inside.Kind() == reflect.Struct {
			out = append(out, places(inside, place{below, set("HERE"), p.tags, p.stop}, seen)...)
		}
	}
	return out
}

// sample is a text of a type that no rule but the audience refuses.
func sample(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true"
	case reflect.String:
		return `"x"`
	case reflect.Slice:
		return `"eA=="`
	case reflect.Map:
		return `{"x":"x"}`
	case reflect.Struct:
		return "{}"
	case reflect.Interface:
		return "null"
	}
	return "1"
}

// refusal is the path that an audience must be refused at, "" if it is not.
func (p place) refusal(audience string) string {
	for i, tag := range p.tags {
		if !slices.Contains(strings.Split(tag, ","), audience) {
			return p.stop[i]
		}
	}
	return ""
}

// Each field of each struct, by whichever way it is reached, is sent in the name
// of each audience: it is taken, or refused by its name.
//
// proves part of H-5
func TestAudiences(t *testing.T) {
	taken, refusals := 0, 0
	for _, root := range []any{api.Program{}, api.File{}, api.Limits{}, api.Result{}, api.Status{}, api.Event{}, api.FieldError{}, api.SandboxError{},
		api.Compile{}, api.Artifact{}, api.RefusedArtifact{}, api.Truncated{}, api.Evidence{}, api.Layer{}} {
		typ := reflect.TypeOf(root)
		for _, p := range places(typ, place{text: "HERE"}, nil) {
			for _, audience := range []string{"library", "operator", "client", "worker", "nobody", "lib", "library,operator", ""} {
				v := reflect.New(typ)
				err := strictjson.Decode([]byte(p.text), v.Interface(), strictjson.Options{Audience: audience})
				want := p.refusal(audience)
				if audience == "" {
					want = ""
				}
				if want == "" {
					taken++
					if err != nil {
						t.Errorf("%s from %q: %v", p.text, audience, err)
					}
					continue
				}
				refusals++
				refused(t, err, want, "is not for the "+audience+" to set")
				if !v.Elem().IsZero() {
					t.Errorf("%s from %q is refused and set", p.text, audience)
				}
			}
		}
	}
	if taken < 200 || refusals < 500 {
		t.Errorf("%d taken, %d refused: the test does not send what it should", taken, refusals)
	}
}

// What a client may send of a program, by name.
//
// proves part of H-5
func TestProgramOfAClient(t *testing.T) {
	all := `{"language":"python","source":"x","files":[{"name":"a","content":"b","encoding":"utf-8","mode":420}],"entry":"a","command":["x"],
		"args":["y"],"env":{"A":"b"},"stdin":"eA==","limits":{"wall_ms":5,"compile":{"pids":2}},"artifacts":["*"],"network":"none"`
	var p api.Program
	client := strictjson.Options{Audience: api.AudienceClient}
	if err := strictjson.Decode([]byte(all+"}"), &p, client); err != nil {
		t.Error(err)
	}
	if p.Files[0].Mode != 0o644 || p.Limits.Compile.Pids != 2 || string(p.Stdin) != "x" || p.Env["A"] != "b" {
		t.Errorf("%+v", p)
	}
	for _, field := range []string{"profile", "isolation"} {
		more := all + `,"` + field + `":"x"}`
		refused(t, strictjson.Decode([]byte(more), &p, client), field, "is not for the client to set")
		if err := strictjson.Decode([]byte(more), &p, strictjson.Options{Audience: api.AudienceOperator}); err != nil {
			t.Error(err)
		}
	}
	// A name that is not for a client is not told to one who guesses.
	err := strictjson.Decode([]byte(all+`,"Profile":"x"}`), &p, client)
	refused(t, err, "Profile", "is not known; known are language, source")
	if strings.Contains(err.Error(), "profile") {
		t.Error(err)
	}
}

// A field without a tag is for nobody, and what lies in it neither.
//
// proves part of H-5
func TestFieldWithoutATag(t *testing.T) {
	type sub struct {
		Deep int `json:"deep" for:"library,operator,client,worker"`
	}
	type sample struct {
		Tagged   sub `json:"tagged" for:"library,operator,client,worker"`
		Untagged sub `json:"untagged"`
	}
	for _, audience := range []string{api.AudienceLibrary, api.AudienceOperator, api.AudienceClient, api.AudienceWorker} {
		var s sample
		o := strictjson.Options{Audience: audience}
		refused(t, strictjson.Decode([]byte(`{"untagged":{"deep":1}}`), &s, o), "untagged", "is not for the "+audience)
		if err := strictjson.Decode([]byte(`{"tagged":{"deep":1}}`), &s, o); err != nil || s.Tagged.Deep != 1 {
			t.Errorf("control: %s: %v", audience, err)
		}
	}
}
