package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// waitIn is an Options.Reserve that says that it was called, and waits.
func waitIn(called, goOn chan struct{}) func(context.Context, api.Limits) (func(), error) {
	return func(ctx context.Context, _ api.Limits) (func(), error) {
		called <- struct{}{}
		select {
		case <-goOn:
			return func() {}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// cancel does what the service does for somebody who cancels.
func cancel(t *testing.T, q *queue.Queue, id string) error {
	t.Helper()
	data, err := json.Marshal(api.Result{ID: id, Verdict: api.Canceled, APIVersion: api.Version})
	must(t, err)
	if err = q.Cancel(t.Context(), id, data); errors.Is(err, queue.ErrRunning) {
		err = tell(t, q, id, api.ClientFrame{Type: SignalCancel})
	}
	return err
}

var sleeper = api.Program{Command: []string{"/bin/sleep", "20"}}

// A run can be canceled at every moment, and has one final event. The test is long because
// of its table of moments.
// proves part of X-17
func TestCancel(t *testing.T) {
	slow := api.Program{Language: "c++", Source: "#include <bits/stdc++.h>\n#include <regex>\ntemplate<int N> struct F { static constexpr int v = F<N-1>::v + F<N-2>::v; };\ntemplate<> struct F<0> { static constexpr int v = 0; };\ntemplate<> struct F<1> { static constexpr int v = 1; };\nint main() { std::regex r(\"a*b\"); return std::regex_match(\"b\", r) ? F<20>::v & 1 : 2; }\n"}
	for name, c := range map[string]struct {
		program  api.Program
		note     Note
		moment   func(t testing.TB, q *queue.Queue, id string)
		taken    bool // the executor is held up when it has taken it
		reserved bool // or before it begins
		events   string
	}{
		"while it waits":        {program: sleeper, events: "finished", taken: true},
		"when it is taken":      {program: sleeper, events: "finished", taken: true},
		"while it has no room":  {program: sleeper, events: "finished", reserved: true},
		"while it is compiled":  {program: slow, moment: begun, events: "started compiled finished"},
		"while it runs":         {program: sleeper, moment: begun, events: "started finished"},
		"while its input waits": {program: api.Program{Language: "python", Source: "print('ready', flush=True)\ninput()\n"}, note: Note{Interactive: true}, moment: printed, events: "started chunk finished"},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, queue.Options{})
			taken, reserved, goOn := make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{})
			o := Options{Slots: 1}
			if c.taken {
				o.Taken = func(queue.Job, int, Note) { taken <- struct{}{}; <-goOn }
			}
			if c.reserved {
				o.Reserve = waitIn(reserved, goOn)
			}
			f := start(t, q, o)
			id := "run"
			if name == "while it waits" {
				submit(t, q, "first", api.Program{Command: []string{"/bin/true"}}, Note{})
				<-taken
			}
			submit(t, q, id, c.program, c.note)
			switch {
			case name == "while it waits":
			case c.taken:
				<-taken
			case c.reserved:
				<-reserved
			default:
				c.moment(t, q, id)
			}
			begin := time.Now()
			if err := cancel(t, q, id); err != nil {
				_, result := history(t, q, id)
				t.Fatalf("%v: %+v", err, result)
			}
			if !c.reserved { // there, it need not wait for the room
				close(goOn)
			}
			all, result := history(t, q, id)
			if result.Verdict != api.Canceled {
				t.Errorf("%+v", result)
			}
			if types(all) != c.events {
				if name != "when it is taken" || types(all) != "started finished" {
					t.Errorf("%q, not %q", types(all), c.events)
				}
			}
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
			if err := cancel(t, q, id); !errors.Is(err, queue.ErrOver) {
				t.Errorf("canceled again: %v", err)
			}
			if c.reserved {
				close(goOn)
			}
			f.quit()
		})
	}
}

// Runs that are canceled at about the moment at which they begin or end have one final
// event each, and whoever was told that the cancel came too late finds a result.
// proves part of X-17
func TestCancelRaces(t *testing.T) {
	q := openQueue(t, queue.Options{MaxJobs: 200})
	f := start(t, q, Options{})
	verdicts := map[api.Verdict]int{}
	for i := range 60 {
		id := submit(t, q, fmt.Sprintf("r%d", i), api.Program{Command: []string{"/bin/true"}}, Note{})
		time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond)
		err := cancel(t, q, id)
		if err != nil && !errors.Is(err, queue.ErrOver) && !errors.Is(err, queue.ErrNotFound) {
			t.Error(err)
		}
		_, result := history(t, q, id)
		verdicts[result.Verdict]++
		if errors.Is(err, queue.ErrOver) && result.Verdict != api.OK {
			t.Errorf("it had ended, as %s", result.Verdict)
		}
	}
	t.Log(verdicts)
	if verdicts[api.OK]+verdicts[api.Canceled] != 60 || verdicts[api.OK] == 0 || verdicts[api.Canceled] == 0 {
		t.Error(verdicts)
	}
	f.quit()
	ends := map[string]int{}
	for len(f.ends) > 0 {
		ends[(<-f.ends).Job.ID]++
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("%s has ended %d times", id, n)
		}
	}
}
