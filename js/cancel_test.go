package js_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// A context that ends is told so, whatever the worker still says while it is
// ended; and source that is no text is refused before it reaches the worker.
func TestCanceledIsCanceled(t *testing.T) {
	p, err := js.NewPool(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()}, js.PoolOptions{Warm: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 15 {
		rt := checkout(t, p)
		if err := rt.BindAsync(ctx, "sleep", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); err != nil {
			t.Fatal(err)
		}
		short, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		_, err := rt.Eval(short, "sleep().catch(() => 'caught')")
		stop()
		if js.KindOf(err) != js.Canceled || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err := rt.Eval(ctx, "1"); js.KindOf(err) != js.Closed {
			t.Errorf("afterwards: %v", err)
		}
	}
}

func TestSourceIsText(t *testing.T) {
	rt := open(t, js.Options{})
	for name, err := range map[string]error{
		"eval": second(rt.Eval(ctx, "'\xff'")), "module": second(rt.EvalModule(ctx, "'\xed\xa0\x80'")), "execute": second(rt.Execute(ctx, js.Script{Code: "\xff"})), "start": second(rt.Start(ctx, js.Script{Code: "\xff"})),
	} {
		var field *api.FieldError
		if !errors.As(err, &field) || field.Field != "code" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := text(t, rt, "'é🙂'"); got != `"é🙂"` { // control, and the runtime lives
		t.Errorf("%s", got)
	}
}
