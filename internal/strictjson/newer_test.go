package strictjson_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// What a newer program says besides is stepped over, by the same rules; what
// encoding/json would take for a field of another name is still refused.
func TestNewer(t *testing.T) {
	type inner struct {
		Small int8 `json:"small"`
	}
	type outer struct {
		Known string `json:"known"`
		In    inner  `json:"in"`
	}
	for text, want := range map[string]string{
		`{"known":"a","new":1}`: "",
		`{"new":{"x":[1,{"small":"not a number"}]},"in":{"small":3,"more":null},"known":"a"}`: "",
		`{"known":"a","KNOWN":"b"}`:         "is not known",
		`{"known":"a","\u212Anown":"b"}`:    "is not known", // the sign of kelvin folds to k
		`{"known":"a","new":1,"new":2}`:     "is given twice",
		`{"known":"a","new":{"x":1,"x":2}}`: "is given twice",
		`{"known":"a","known":"b"}`:         "is given twice",
		`{"known":1}`:                       "must be a string",
		`{"known":"a","new":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: "deep",
		`{"known":"a","new":"\ud800"}`: "",
	} {
		var v outer
		err := strictjson.Decode([]byte(text), &v, strictjson.Options{Newer: true})
		switch {
		case strings.Contains(text, `\ud800`):
			if err == nil {
				t.Errorf("%s passes", text)
			}
		case want == "":
			if err != nil || v.Known != "a" {
				t.Errorf("%s: %+v %v", text, v, err)
			}
			if err := strictjson.Decode([]byte(text), &v, strictjson.Options{}); err == nil {
				t.Errorf("control: %s passes", text)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v", text, err)
		}
	}
}
