package agent

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/journal"
)

// FuzzLoad: authentic journals of which records were changed, moved, taken out or put
// in, and which were signed again, load or are refused by a *SessionError. No tool runs,
// and what was spent is what the records say.
//
// proves part of T-13
func FuzzLoad(f *testing.F) {
	var ran atomic.Int64
	p := newPool(f, Options{Keys: surviveKeys, Warm: 1, Limits: Limits{FeedMS: 100}})
	s := checkout(f, p, SessionOptions{Tools: catalogOf(f, counting("count", &ran), Tool{Name: "echo", Func: func(v any) any { return v }},
		Tool{Name: "lazy", Lazy: true, Func: func() {}}, Tool{Name: "boom", Func: func() { panic("boom") }})})
	for _, code := range []string{
		"let a = await count(); a", "try { await echo() } catch {} let b = await echo({x: [1n, 'é']}); b.x", "throw new Error('e')", "await boom()", "await catalog.describe('lazy'); await lazy()",
	} {
		fed(s, code)
	}
	if _, err := s.Start(f.Context(), "const c = await echo('waits'); c", FeedOptions{Inputs: map[string]any{"given": 1}}); err != nil {
		f.Fatal(err)
	}
	list := records(f, s)
	before := ran.Load()
	for i := range list {
		f.Add(uint8(i), uint8(0), []byte{1})
		f.Add(uint8(i), uint8(1+i%7), []byte("let z = await count()"))
	}
	f.Fuzz(func(t *testing.T, at, how uint8, data []byte) {
		changed := changeRecords(list, int(at), int(how), data)
		l, err := load(t, s, p, signed(t, s, changed...))
		if ran.Load() != before {
			t.Fatal("a tool ran")
		}
		if err != nil {
			if !errors.As(err, new(*SessionError)) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		defer l.Close()
		calls := int64(0)
		for _, r := range records(t, l) {
			if _, ok := r.Meta.(*journal.Call); ok {
				calls++
			}
		}
		if l.Usage().Calls != calls {
			t.Fatalf("%d calls on record, %+v", calls, l.Usage())
		}
		if _, err := l.Feed(t.Context(), "1", FeedOptions{}); err != nil && !errors.As(err, new(*SessionError)) && !errors.As(err, new(*api.FieldError)) {
			t.Fatal(err)
		}
	})
}

// changeRecords changes one place of a list.
func changeRecords(list []journal.Record, at, how int, data []byte) []journal.Record {
	out := append([]journal.Record(nil), list...)
	at %= len(out)
	r := out[at]
	switch how % 8 {
	case 0: // its blob
		r.Blob = data
		if m, ok := r.Meta.(*journal.Feed); ok {
			c := *m
			c.Source = len(data)
			r.Meta = &c
		}
		out[at] = r
	case 1: // behind the blob: inputs, arguments, a value
		r.Blob = append(append([]byte(nil), r.Blob...), data...)
		out[at] = r
	case 2:
		return append(out[:at], out[at+1:]...)
	case 3:
		next := (at + 1) % len(out)
		out[at], out[next] = out[next], out[at]
	case 4: // another failure, kind or clock
		switch m := r.Meta.(type) {
		case *journal.Answer:
			out[at] = journal.Record{Type: r.Type, Meta: &journal.Answer{Call: m.Call, Clock: int64(len(data)) << 40, Failure: &journal.Failure{Kind: string(data), Name: string(data), Message: string(data)}}}
		case *journal.Outcome:
			c := *m
			c.Kind = string(data)
			out[at].Meta = &c
		case *journal.Feed:
			c := *m
			c.Clock, c.Tools, c.Source = int64(len(data))-3, []string{string(data)}, m.Source-len(data)%2
			out[at].Meta = &c
		case *journal.Call:
			c := *m
			c.Tool = string(data)
			out[at].Meta = &c
		}
	case 5: // the end
		return out[:at]
	case 6:
		return append(out[:at:at], append([]journal.Record{{Type: journal.TypeAnswer, Meta: &journal.Answer{Call: uint64(len(data))}, Blob: data}}, out[at:]...)...)
	case 7:
		return append(out[:at:at], append([]journal.Record{{Type: journal.TypeRefused, Meta: &journal.Refused{Feed: uint64(at), Tool: "count", Failure: &journal.Failure{Name: string(data)}}, Blob: data}}, out[at:]...)...)
	}
	return out
}
