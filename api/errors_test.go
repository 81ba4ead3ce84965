package api_test

import (
	"testing"

	"github.com/glovebox-dev/glovebox/api"
)

// A field error reads as one line, whatever the value is.
func TestFieldErrorIsOneLine(t *testing.T) {
	for want, e := range map[string]api.FieldError{
		"factory: must be given":            {Field: "factory", Reason: "must be given"},
		`factory: "": must be given`:        {Field: "factory", Value: "", Reason: "must be given"},
		`sandbox: "": must be given`:        {Field: "sandbox", Value: api.Verdict(""), Reason: "must be given"},
		`name: " a": no`:                    {Field: "name", Value: " a", Reason: "no"},
		`name: "a\nglovebox: ok\x1b[m": no`: {Field: "name", Value: "a\nglovebox: ok\x1b[m", Reason: "no"},
		"name: a b: no":                     {Field: "name", Value: "a b", Reason: "no"},
		`name: "a\"b": no`:                  {Field: "name", Value: `"a\"b"`, Reason: "no"},
		"limits.pids: 0: no":                {Field: "limits.pids", Value: int64(0), Reason: "no"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
