package js_test

import (
	"errors"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// ResumeInTurn gives answers one by one: at the end of the evaluation those that are
// left reach nobody, and a reply to no call is refused before anything happens.
func TestResumeInTurn(t *testing.T) {
	rt := open(t, js.Options{})
	if err := rt.BindPaused(ctx, "tool"); err != nil {
		t.Fatal(err)
	}
	step, err := rt.Start(ctx, js.Script{Feed: &js.Feed{}, Code: "const log = []; const all = [1, 2, 3].map(i => tool(i).then(v => { log.push(v); if (v === 1) tool(4).then(() => log.push('no')) })); await all[1]; log.join()"})
	if err != nil || len(step.Calls) != 3 {
		t.Fatalf("%+v, %v", step, err)
	}
	reply := func(i int) js.Reply { return js.Reply{ID: step.Calls[i].ID, Value: i + 1} }
	var field *api.FieldError
	if _, err := rt.ResumeInTurn(ctx, reply(0), js.Reply{ID: 99}); !errors.As(err, &field) {
		t.Errorf("%v", err)
	}
	if _, err := rt.ResumeInTurn(ctx); !errors.As(err, &field) {
		t.Errorf("%v", err)
	}
	end, err := rt.ResumeInTurn(ctx, reply(0), reply(1), reply(2))
	if err != nil || !end.Done || end.Value.String() != "1,2" || len(end.Calls) != 2 || end.Calls[0].ID != step.Calls[2].ID || end.Calls[1].Name != "tool" {
		t.Fatalf("%+v, %v", end, err)
	}
	if got := fed(rt, "await 0; log.join()", js.Feed{}); got != `"1,2"` {
		t.Error(got)
	}
}
