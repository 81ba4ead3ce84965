package languages

import (
	"errors"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
)

// A language file means one thing: a name that is unknown, written otherwise or
// given twice is refused. The files that come with Glovebox are the control.
//
// proves part of H-5
func TestParse(t *testing.T) {
	for _, l := range Builtin() {
		if l.Name == "" || len(l.Run) == 0 || len(l.Programs) == 0 {
			t.Errorf("%+v", l)
		}
	}
	if Builtin().Find("python") == nil {
		t.Errorf("there are only %v", Builtin().Names())
	}
	head := `{"name": "python", "paths": []`
	for _, c := range []struct{ more, field string }{
		{`"mounts": ["/"]`, "mounts"}, {`"Paths": ["/"]`, "Paths"}, {`"paths": ["/"]`, "paths"}, {`"limits": {"wall": 5}`, "limits.wall"},
		{`"limits": {"pids": 5, "pids": 6}`, "limits.pids"}, {`"compile_env": {"A": "b", "A": "c"}`, "compile_env.A"}, {`"title": null`, "title"},
		{`"smoke": {"Source": "x"}`, "smoke.Source"},
	} {
		_, err := decode([]byte(head + "," + c.more + "}"))
		var field *api.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want %s", c.more, err, c.field)
		}
	}
	if l, err := decode([]byte(head + `,"title":"Python"}`)); err != nil || l.Title != "Python" {
		t.Errorf("control: %v", err)
	}
}
