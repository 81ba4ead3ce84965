package js_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// Many large answers at one time, to each of which the guest says something as
// large: neither side waits for the other.
func TestStepWave(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{WriteStallMS: 1_000, TimeoutMS: 60_000}})
	if err := rt.BindPaused(ctx, "ask"); err != nil {
		t.Fatal(err)
	}
	step, err := rt.Start(ctx, js.Script{Code: `Promise.all(Array.from({length: 10}, async () => {
		const a = await ask(''); console.log('y'.repeat(1 << 17)); return (await ask(a)).length }))`})
	for err == nil && !step.Done {
		var replies []js.Reply
		for _, c := range step.Calls {
			replies = append(replies, js.Reply{ID: c.ID, Value: strings.Repeat("x", 1<<20)})
		}
		step, err = rt.Resume(ctx, replies...)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := step.Value.MarshalJSON(); err != nil || string(got) != "["+strings.Repeat("1048576,", 9)+"1048576]" {
		t.Errorf("%s, %v", got, err)
	}
	// The value that is there after the first answer leaves the others for later.
	if step, err = rt.Start(ctx, js.Script{Code: `var late = []; for (const i of [1, 2]) ask(i).then(v => late.push(v)); ask(0)`}); err != nil {
		t.Fatal(err)
	}
	step, err = rt.Resume(ctx, js.Reply{ID: step.Calls[2].ID, Value: "first"}, js.Reply{ID: step.Calls[0].ID, Value: 1}, js.Reply{ID: step.Calls[1].ID, Value: 2})
	if err != nil || step.Value.Any() != "first" || len(step.Calls) != 0 {
		t.Fatalf("%+v %v", step, err)
	}
	if v, err := rt.Eval(ctx, "late"); err != nil || v.String() != "[1, 2]" {
		t.Errorf("%v %v", v, err)
	}
}
