package api_test

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// roots are the structs from which all others of the package are reached.
var roots = []reflect.Type{
	reflect.TypeFor[api.Program](), reflect.TypeFor[api.Result](), reflect.TypeFor[api.Status](), reflect.TypeFor[api.Event](),
	reflect.TypeFor[api.FieldError](), reflect.TypeFor[api.SandboxError](), reflect.TypeFor[api.Language](),
	reflect.TypeFor[api.Trace](), reflect.TypeFor[api.Submission](), reflect.TypeFor[api.Run](), reflect.TypeFor[api.Frame](),
	reflect.TypeFor[api.ClientFrame](), reflect.TypeFor[api.StdinBody](), reflect.TypeFor[api.SignalBody](), reflect.TypeFor[api.KeyInfo](),
	reflect.TypeFor[api.KeyList](), reflect.TypeFor[api.LimitsInfo](), reflect.TypeFor[api.ServiceStatus](), reflect.TypeFor[api.LanguageList](),
	reflect.TypeFor[api.ErrorBody](), reflect.TypeFor[api.Metrics](),
}

// noStructs are the exported types that have no fields.
var noStructs = []string{"Code", "RunState", "Verdict"}

var audiences = []string{api.AudienceLibrary, api.AudienceOperator, api.AudienceClient, api.AudienceWorker}

// reached returns every struct type that can be reached from the roots.
func reached(roots ...reflect.Type) []reflect.Type {
	var out []reflect.Type
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(t.Elem())
		case reflect.Map:
			walk(t.Key())
			walk(t.Elem())
		case reflect.Struct:
			if slices.Contains(out, t) || t == reflect.TypeFor[time.Time]() {
				return
			}
			out = append(out, t)
			for i := range t.NumField() {
				walk(t.Field(i).Type)
			}
		}
	}
	for _, t := range roots {
		walk(t)
	}
	return out
}

// untagged returns a sentence for each field that does not say rightly who may
// set it, or has no name of its own in JSON, and for each struct that decodes
// itself, since then nobody looks at its fields.
func untagged(structs []reflect.Type) []string {
	var out []string
	for _, t := range structs {
		for _, method := range []string{"UnmarshalJSON", "UnmarshalText"} {
			if _, ok := reflect.PointerTo(t).MethodByName(method); ok {
				out = append(out, t.Name()+": decodes itself")
			}
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || f.Anonymous && f.Tag == "" { // those of an embedded struct are looked at by themselves
				continue
			}
			say := func(format string, args ...any) {
				out = append(out, fmt.Sprintf("%s.%s: %s", t.Name(), f.Name, fmt.Sprintf(format, args...)))
			}
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "" || name == "-" {
				say("no json name")
			}
			tag, ok := f.Tag.Lookup("for")
			if !ok {
				say("no audience")
				continue
			}
			for a := range strings.SplitSeq(tag, ",") {
				if !slices.Contains(audiences, a) {
					say("unknown audience %q", a)
				}
			}
		}
	}
	return out
}

type alone struct{}

func (*alone) UnmarshalText([]byte) error { return nil }

// A new field without a tag, with a wrong one, or without a name turns this red.
//
// proves part of H-5
func TestEveryFieldHasAnAudience(t *testing.T) {
	structs := reached(roots...)
	if len(structs) < len(roots)+5 {
		t.Fatalf("only %v are reached", structs)
	}
	for _, sentence := range untagged(structs) {
		t.Error(sentence)
	}

	// The control: each fault by itself is found, behind pointers, lists and maps.
	type sub struct {
		Bare int `json:"bare"`
	}
	type sample struct {
		Good    int            `json:"good" for:"library"`
		Wrong   int            `json:"wrong" for:"library,cleint"`
		Spaced  int            `json:"spaced" for:"library, client"`
		Empty   int            `json:"empty" for:""`
		Unnamed int            `for:"library"`
		Dropped int            `json:"-" for:"library"`
		Subs    map[string]sub `json:"subs" for:"client"`
		Self    []*sample      `json:"self" for:"worker,operator"`
		Alone   [1]alone       `json:"alone" for:"library"`
		private int
	}
	_ = sample{private: 0}
	want := []string{`sample.Wrong: unknown audience "cleint"`, `sample.Spaced: unknown audience " client"`, `sample.Empty: unknown audience ""`,
		"sample.Unnamed: no json name", "sample.Dropped: no json name", "sub.Bare: no audience", "alone: decodes itself"}
	if got := untagged(reached(reflect.TypeFor[*sample]())); !slices.Equal(got, want) {
		t.Errorf("control: %q, want %q", got, want)
	}
}

// Who may set what: nobody outside sets a result, and what loosens a cell is not
// for a client. A change here is a change of the wall.
//
// proves part of H-5
func TestAudiencesOfFields(t *testing.T) {
	everyone := "library,operator,client"
	outside := "library,client"
	byType := map[string]string{"Program": everyone, "File": everyone, "Limits": everyone, "Submission": everyone,
		"ClientFrame": outside, "StdinBody": outside, "SignalBody": outside}
	byField := map[string]string{"Program.Profile": "library,operator", "Program.Isolation": "library,operator"}
	for _, st := range reached(roots...) {
		for i := range st.NumField() {
			f := st.Field(i)
			want, ok := byField[st.Name()+"."+f.Name]
			if !ok {
				want, ok = byType[st.Name()]
			}
			if !ok {
				want = "library"
			}
			if got := f.Tag.Get("for"); got != want && !f.Anonymous {
				t.Errorf("%s.%s is for %q, want %q", st.Name(), f.Name, got, want)
			}
		}
	}
}

//go:embed *.go
var source embed.FS

// exported returns the names of the exported types in Go files, by name of file.
func exported(files map[string]string) ([]string, error) {
	var out []string
	for name, src := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				out = append(out, spec.Name.Name)
			}
			return true
		})
	}
	slices.Sort(out)
	return out, nil
}

// A new exported type that no root reaches turns this red: it has to be listed
// above, and then its fields are looked at.
//
// proves part of H-5
func TestEveryTypeIsLookedAt(t *testing.T) {
	files := map[string]string{}
	entries, err := source.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			text, err := source.ReadFile(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			files[e.Name()] = string(text)
		}
	}
	listed := slices.Clone(noStructs)
	for _, st := range reached(roots...) {
		listed = append(listed, st.Name())
	}
	slices.Sort(listed)
	got, err := exported(files)
	if err != nil || !slices.Equal(got, listed) {
		t.Errorf("the package exports %v, the tests look at %v: %v", got, listed, err)
	}

	more := maps.Clone(files)
	more["new.go"] = "package api\ntype (\n\tNew struct{ A int }\n\tByName Program\n\tsmall struct{}\n)\n"
	if got, err := exported(more); err != nil || slices.Equal(got, listed) || !slices.Contains(got, "New") || !slices.Contains(got, "ByName") || slices.Contains(got, "small") {
		t.Errorf("control: %v: %v", got, err)
	}
}
