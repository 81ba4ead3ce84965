package queue

import (
	"slices"
	"testing"
)

// proves part of X-17
func TestUnfinished(t *testing.T) {
	o := Options{Dir: t.TempDir() + "/queue", MinFree: 1}
	q, err := Open(t.Context(), o)
	must(t, err)
	ids := func(client string) []string {
		t.Helper()
		all, err := q.Unfinished(t.Context(), client)
		must(t, err)
		var ids []string
		for _, j := range all {
			ids = append(ids, j.Client+" "+j.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := ids(""); len(got) != 0 {
		t.Error("of nobody:", got)
	}
	for _, id := range []string{"r1", "r2", "r3"} {
		submit(t, q, "c", id)
	}
	submit(t, q, "other", "r4")
	d := take(t, q)
	must(t, d.Begin(t.Context(), nil))
	if got := ids("c"); !slices.Equal(got, []string{"c r1", "c r2", "c r3"}) {
		t.Error(got)
	}
	must(t, d.Finish(t.Context(), nil, nil))
	must(t, q.Cancel(t.Context(), "r2", []byte("canceled")))
	// That the run is over is told to the list of jobs last, and not waited for.
	eventually(t, func() bool { return slices.Equal(ids("c"), []string{"c r3"}) })
	if got := ids("nobody"); len(got) != 0 {
		t.Error("of nobody:", got)
	}
	must(t, q.Close())
	if q, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, q.Close()) }()
	if got := ids(""); !slices.Equal(got, []string{"c r3", "other r4"}) {
		t.Error("opened again:", got)
	}
}
