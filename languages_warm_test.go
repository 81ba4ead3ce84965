package glovebox_test

import (
	"testing"
	"time"
)

func TestWarmTry(t *testing.T) {
	o := options()
	o.CacheDir = "/tmp/warmtry"
	b := newBox(t, o)
	begin := time.Now()
	if err := b.Warm(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(begin))
	b = newBox(t, o)
	for range 3 {
		r, err := b.CheckLanguage(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r.Compile.WallMS, r.WallMS, *r.Compile.PeakBytes)
	}
}
