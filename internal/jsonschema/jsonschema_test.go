package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	other "github.com/google/jsonschema-go/jsonschema"
)

func decode(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// refusedHere are the keywords of the draft that refuse a schema.
var refusedHere = []string{
	"$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties", "contentSchema", "dependencies", "$id", "$ref", "$schema", "$defs",
}

// TestSuiteAsRoot holds the draft's own test suite, which the module beside comes
// with: every schema is either judged as the suite says, or refused for one of
// the keywords above. It is root's, since the ordinary user of the tests cannot
// read the folder of modules.
func TestSuiteAsRoot(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "jsonschema/testdata/draft2020-12/*.json"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	judged, refused := 0, 0
	for _, file := range files {
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        any
				Valid       bool
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &groups)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			s, err := Compile(g.Schema)
			if err != nil {
				refused++
				expectRefused(t, filepath.Base(file)+": "+g.Description, err)
				continue
			}
			for _, c := range g.Tests {
				judged++
				if err := s.Validate(c.Data, DefaultSteps); (err == nil) != c.Valid {
					t.Errorf("%s: %s: %s: %v, want valid %v", filepath.Base(file), g.Description, c.Description, err, c.Valid)
				}
			}
		}
	}
	t.Logf("%d values judged, %d schemas refused", judged, refused)
	if judged < 700 {
		t.Errorf("only %d values judged", judged)
	}
}

func expectRefused(t *testing.T, what string, err error) {
	bad, ok := errors.AsType[*CompileError](err)
	if !ok {
		t.Errorf("%s: %v", what, err)
		return
	}
	last := bad.Path[strings.LastIndex(bad.Path, "/")+1:]
	for _, word := range refusedHere {
		if last == word {
			return
		}
	}
	if strings.Contains(bad.Reason, " without ") {
		return // what the draft ignores
	}
	t.Errorf("%s: %v", what, err)
}

// hostileSchemas are refused, for the reason given, or held against hostile
// values within their steps.
var hostileSchemas = map[string]struct{ schema, why string }{
	"remote ref":          {`{"$ref":"http://127.0.0.1:1/s.json"}`, "$ref: must be #"},
	"file ref":            {`{"$ref":"file:///etc/passwd"}`, "$ref: must be #"},
	"ref below":           {`{"$ref":"#/properties/a","properties":{"a":{}}}`, "$ref: must be #"},
	"ref to nothing":      {`{"$ref":"#/$defs/a"}`, "$ref: must be #"},
	"ref to itself":       {`{"$ref":"#"}`, "leads back"},
	"refs in a ring":      {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "leads back"},
	"ring through not":    {`{"not":{"$ref":"#"}}`, "leads back"},
	"ring through if":     {`{"if":{"$ref":"#"}}`, "leads back"},
	"ring, dependent":     {`{"dependentSchemas":{"a":{"$ref":"#"}}}`, "leads back"},
	"$id below":           {`{"properties":{"a":{"$id":"http://x/"}}}`, "at the top alone"},
	"other $schema":       {`{"$schema":"http://evil.test/schema"}`, "no draft"},
	"dynamic":             {`{"$dynamicRef":"#x"}`, "not known here"},
	"unevaluated":         {`{"unevaluatedProperties":false}`, "not known here"},
	"misspelled":          {`{"propertys":{}}`, "not known here"},
	"other case":          {`{"Type":"string"}`, "not known here"},
	"long s":              {`{"propertieſ":{}}`, "not known here"},
	"twice":               {`{"type":"string","type":"number"}`, "twice"},
	"type of none":        {`{"type":"file"}`, "type that JSON"},
	"type is a number":    {`{"type":1}`, "must be a type"},
	"look-ahead":          {`{"pattern":"^(?=a)b"}`, "RE2"},
	"back reference":      {`{"pattern":"(a)\\1"}`, "RE2"},
	"repeat of repeats":   {`{"pattern":"((a{100}){100}){100}"}`, "RE2"},
	"long pattern":        {`{"pattern":"` + strings.Repeat("a", 1001) + `"}`, "at most 1000"},
	"many patterns":       {`{"allOf":[` + strings.Repeat(`{"pattern":"a"},`, 201) + `{}]}`, "200 patterns"},
	"many schemas":        {`{"allOf":[` + strings.Repeat(`true,`, 5001) + `true]}`, "5000"},
	"deep":                {strings.Repeat(`{"not":`, 50) + "{}" + strings.Repeat("}", 50), "deeper"},
	"very deep":           {strings.Repeat(`{"not":`, 40_000), "bytes"},
	"long":                {`{"title":"` + strings.Repeat("a", MaxBytes) + `"}`, "bytes"},
	"no schema":           {`[]`, "must be an object"},
	"null":                {`{"properties":null}`, "must be an object"},
	"empty anyOf":         {`{"anyOf":[]}`, "at least one"},
	"old items":           {`{"items":[{}]}`, "must be an object, true or false"},
	"then alone":          {`{"then":{}}`, "without if"},
	"minContains alone":   {`{"minContains":1}`, "without contains"},
	"negative length":     {`{"minLength":-1}`, "whole number"},
	"huge length":         {`{"minLength":1e300}`, "whole number"},
	"multiple of nothing": {`{"multipleOf":0}`, "above 0"},
	"required twice":      {`{"required":["a","a"]}`, "each once"},
	"$defs below":         {`{"not":{"$defs":{}}}`, "at the top"},
	"$defs no object":     {`{"$defs":[]}`, "must be an object"},
	"enum no list":        {`{"enum":{}}`, "must be a list"},
	"enum and const":      {`{"enum":[1],"const":1}`, "beside another"},
	"not UTF-8":           {"{\"title\":\"\xff\"}", "UTF-8"},
	"half a pair":         {`{"title":"\ud800"}`, "surrogate"},
	"trailing":            {`{} {}`, "behind"},
	"title no string":     {`{"title":1}`, "must be a string"},
}

// TestHostileSchemas: each is refused by name in no time. Nobody can be asked for
// anything: the import policy keeps sockets away from this package.
//
// proves H-55
func TestHostileSchemas(t *testing.T) {
	for name, c := range hostileSchemas {
		start := time.Now()
		s, err := Compile([]byte(c.schema))
		if err == nil || s != nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		} else if len(err.Error()) > 600 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s took %v", name, d)
		}
	}
}

// blowUp doubles the work at each of n levels.
func blowUp(n int) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{"anyOf":[{"allOf":[{"$ref":"#/$defs/d%d"},false]},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"$defs":{%s,"d%d":false},"$ref":"#/$defs/d0"}`, strings.Join(defs, ","), n)
}

// TestSteps: what would take for ever is given up after its steps, and never
// passes for that. The control: small ones of the same form are judged.
//
// proves part of H-55
func TestSteps(t *testing.T) {
	many := make([]any, 100_000)
	for i := range many {
		many[i] = float64(i)
	}
	ones := slices.Repeat([]any{1.0}, 100_000)
	long := strings.Repeat("a", 8<<20)
	deep := any(0.0)
	for range 60_000 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		schema       string
		value, small any
		fits         bool // the small one
	}{
		"branches":     {blowUp(35), 1.0, nil, false},
		"not":          {strings.Replace(blowUp(35), `"$ref":"#/$defs/d0"`, `"not":{"$ref":"#/$defs/d0"}`, 1), 1.0, nil, false},
		"unique":       {`{"uniqueItems":true}`, []any{many, many, many}, []any{1.0, 2.0}, true},
		"enum":         {`{"items":{"enum":[` + strings.Repeat("0,", 999) + `1]}}`, ones, []any{1.0}, true},
		"pattern":      {`{"pattern":"(a|aa|aaa)*b$"}`, long, "aab", true},
		"length":       {`{"maxLength":9}`, long + long, "a", true},
		"names":        {`{"patternProperties":{"^(a*)*$":{}}}`, map[string]any{long: 1.0, long + "a": 1.0, long + "b": 1.0}, map[string]any{"a": 1.0}, true},
		"multiples":    {`{"items":{"multipleOf":1e-99}}`, slices.Repeat([]any{1e300}, 10_000), []any{1.0}, true},
		"big program":  {`{"pattern":"^(a{500}){2}$"}`, long[:20_000], "a", false},
		"items":        {`{"items":{"allOf":[{},{},{},{}]}}`, many, []any{1.0}, true},
		"recursion":    {`{"items":{"$ref":"#"}}`, deep, []any{[]any{}}, true},
		"contains":     {`{"contains":{"type":"string"},"items":{"allOf":[{},{}]}}`, many, []any{"a"}, true},
		"deep unique":  {`{"uniqueItems":true}`, []any{deep}, []any{deepOf(10)}, true},
		"propertyName": {`{"propertyNames":{"maxLength":1}}`, map[string]any{long + long: 1.0}, map[string]any{"a": 1.0}, true},
	} {
		s, err := Compile([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		start := time.Now()
		if err := s.Validate(c.value, DefaultSteps); err != error(ErrSteps) {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(start); d > 10*time.Second { // without the steps: for ever
			t.Errorf("%s took %v", name, d)
		}
		if c.small == nil {
			continue
		}
		if err := s.Validate(c.small, DefaultSteps); (err == nil) != c.fits {
			t.Errorf("%s, small: %v", name, err)
		}
	}
	s, err := Compile([]byte(blowUp(5)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(1.0, DefaultSteps); err == nil || err == error(ErrSteps) {
		t.Errorf("the control: %v", err)
	}
}

func deepOf(n int) any {
	v := any(0.0)
	for range n {
		v = []any{v}
	}
	return v
}

func TestErrors(t *testing.T) {
	s, err := Compile([]byte(`{"properties":{"items":{"items":{"properties":{"price":{"maximum":5}}}}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		`{"items":[{},{"price":7}]}`: "items[1].price: must be at most 5",
		`{"a b\u202e":1}`:            `["a b\u202e"]: is a property that is not known`,
		`{"items":[]}`:               "",
	} {
		got := ""
		if err := s.Validate(decode(t, value), DefaultSteps); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
	if err := s.Validate(map[string]any{"items": time.Time{}}, DefaultSteps); err == nil {
		t.Error("a value that JSON does not have fits")
	}
}

// FuzzSchema: whatever text compiles is held against a value in bounded work,
// and as another implementation does it, where that takes the schema too.
func FuzzSchema(f *testing.F) {
	for _, c := range hostileSchemas {
		if len(c.schema) < 2000 {
			f.Add(c.schema, `{"a":[1,"x",null]}`)
		}
	}
	f.Add(`{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":1}},"required":["a"],"additionalProperties":false}`, `{"a":1}`)
	f.Add(`{"oneOf":[{"const":1},{"enum":[1,2]}],"if":{"minimum":2},"then":{"multipleOf":2},"else":{"maximum":1}}`, `2`)
	f.Add(`{"prefixItems":[{"type":"string"}],"items":{"minLength":2,"pattern":"^a"},"uniqueItems":true,"contains":{"const":"ab"}}`, `["x","ab"]`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile([]byte(schema))
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			return
		}
		start := time.Now()
		mine := s.Validate(v, 20_000)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%v for %s against %s", d, schema, value)
		}
		if mine == error(ErrSteps) || strings.Contains(schema, `\u0000`) {
			return
		}
		theirs, ok := elsewhere(schema, v)
		if ok && (mine == nil) != (theirs == nil) {
			t.Errorf("%s against %s: %v, elsewhere %v", value, schema, mine, theirs)
		}
	})
}

// elsewhere judges with another implementation; ok is false where it does not
// take the schema, or is known to differ.
func elsewhere(schema string, v any) (err error, ok bool) { //nolint:staticcheck // the flag belongs last
	for _, differs := range []string{"multipleOf", "$schema", "enum", "const", "e+", "E", "e-", "$ref", "$id", "uniqueItems", "pattern", "null"} {
		if strings.Contains(schema, differs) {
			return nil, false
		}
	}
	var s other.Schema
	if json.Unmarshal([]byte(schema), &s) != nil {
		return nil, false
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, false
	}
	return r.Validate(v), true
}
