package cell

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// What init says of a traced guest is believed in form alone: too many frames, too many kinds of calls and nonsense end
// the run, and no lie makes the report longer than it may be.
//
// proves part of H-6 H-19
func TestTraceHostileInit(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	for i := range h.status.Layers {
		h.status.Layers[i].Applied = true
	}
	for _, c := range []struct{ mode, want string }{
		{"traced: flood", "setup_failed init"},
		{"traced: kinds", "setup_failed init"},
		{"traced: garbage", "setup_failed init"},
		{"traced: a lie", "ok "},
		{"honest", "ok "},
	} {
		f.modes <- c.mode
		j := fakeJob(t, h)
		j.Limits.WallMS = 20_000
		j.Trace = &Trace{Learn: true}
		r, err := h.Run(context.Background(), j, Streams{})
		<-f.taken
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s", r.Verdict, r.Stage); got != c.want {
			t.Errorf("%s: %q, want %q (%s)", c.mode, got, c.want, r.Message)
		}
		calls := 0
		for _, s := range j.Trace.Result.Steps {
			calls += len(s.Calls)
			for _, call := range s.Calls {
				if len(call.Call) > 64 || call.Count < 0 {
					t.Errorf("%s: %+v", c.mode, call)
				}
			}
		}
		if calls > cellproto.MaxTraced+1 {
			t.Errorf("%s: %d kinds of calls", c.mode, calls)
		}
		if len(j.Trace.Result.Additions) > 0 {
			t.Errorf("%s: additions %v", c.mode, j.Trace.Result.Additions)
		}
	}
}

// Nothing is traced where another layer is missing, or where the kernel cannot report; the layers that a host may be
// without do not matter.
//
// proves part of H-19
func TestTraceNeedsEveryLayer(t *testing.T) {
	h := openHost(t, 0)
	for i, l := range h.status.Layers {
		h.status.Layers[i].Applied = false
		j := trueJob(t, h)
		j.Trace = &Trace{}
		_, err := h.Run(context.Background(), j, Streams{})
		optional := l.Name == "time" || l.Name == "speculation"
		var unavailable *api.SandboxError
		if refused := errors.As(err, &unavailable); refused == optional || len(j.Trace.Result.Steps) > 0 == refused {
			t.Errorf("without %s: %v, %d steps", l.Name, err, len(j.Trace.Result.Steps))
		}
		h.status.Layers[i].Applied = l.Applied
	}
	h.cfg.ControlOff = []string{"notify"}
	j := trueJob(t, h)
	j.Trace = &Trace{}
	if _, err := h.Run(context.Background(), j, Streams{}); !errors.Is(err, api.ErrSandboxUnavailable) {
		t.Errorf("without notifications: %v", err)
	}
}
