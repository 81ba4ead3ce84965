package js_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// Values that take more of the host's memory than there is room for are refused,
// each in its way, and the runtime goes on; with the default they cross.
func TestHostBytes(t *testing.T) {
	for _, c := range []struct {
		bytes                     int64
		argument, result, answers string
	}{
		{1 << 20, `"RangeError"`, string(js.ResultLimit), `"RangeError"`},
		{0, "100000", "", "2000000"},
	} {
		rt := open(t, js.Options{Limits: js.Limits{HostBytes: c.bytes, TimeoutMS: 60_000}})
		for name, fn := range map[string]any{
			"take": func(all []int) int { return len(all) }, "give": func() string { return strings.Repeat("x", 2_000_000) }, "small": func(n int) int { return n },
		} {
			if err := rt.Bind(ctx, name, fn); err != nil {
				t.Fatal(err)
			}
		}
		if got := text(t, rt, "const many = new Array(100000).fill(1.5).map(Math.floor); try { take(many) } catch (e) { e.name }"); got != c.argument {
			t.Errorf("%d, arguments: %s", c.bytes, got)
		}
		_, err := rt.Eval(ctx, "many")
		if got := js.KindOf(err); string(got) != c.result {
			t.Errorf("%d, a result: %v", c.bytes, err)
		}
		if got := text(t, rt, "try { give().length } catch (e) { e.name }"); got != c.answers {
			t.Errorf("%d, an answer: %s", c.bytes, got)
		}
		if got := text(t, rt, "small(7)"); got != "7" {
			t.Errorf("%d, afterwards: %s", c.bytes, got)
		}
	}
	var f *api.FieldError
	if _, err := js.New(context.Background(), js.Options{Limits: js.Limits{HostBytes: 1}}); !errors.As(err, &f) || f.Field != "limits.host_bytes" {
		t.Errorf("one byte: %v", err)
	}
}

// Texts of an error come whole, however small results must be.
func TestErrorAboveResultBytes(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{ResultBytes: 64}})
	_, err := rt.Eval(ctx, "throw new Error('é'.repeat(8000))")
	var e *js.Error
	if !errors.As(err, &e) || e.Kind != js.Thrown || len(e.Message) < 15_000 {
		t.Errorf("%v", err)
	}
	if got := kind(t, rt, "'x'.repeat(100)"); got != js.ResultLimit {
		t.Errorf("%s", got)
	}
}
