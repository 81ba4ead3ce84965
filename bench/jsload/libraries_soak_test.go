//go:build soak

package jsload_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/bench/jsload"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// made is what each job comes to: in node, in JavaScriptCore outside of any cell,
// and so in a sealed worker.
var made = map[string]jsload.Outcome{
	"terrain":   {Size: 930348, Digest: "41045450"},
	"force":     {Size: 30864, Digest: "61d755e6"},
	"dashboard": {Size: 232217, Digest: "f3ae73c7"},
	"bars":      {Size: 46589, Digest: "793074e3"},
	"paths":     {Size: 84546, Digest: "3fa0efcc"},
	"layers":    {Size: 17304, Digest: "2b744513"},
	"slides":    {Size: 8696772, Digest: "e2a17f60"},
}

// TestSoakLibraries has real libraries do real work in sealed workers, whose
// result must be that of other engines, byte by byte: three.js with its glTF
// exporter, d3, ECharts, Vega-Lite, turf, dagre and pptxgenjs. It needs npm.
//
// proves T-14
func TestSoakLibraries(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	cache := filepath.Join(testenv.Root(), ".cache", "bench", "jsload")
	b, err := jsload.Prepare(ctx, cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []js.JIT{"", js.Baseline, js.Full} {
		name := string(mode)
		if mode == "" {
			name = "interpreter"
		}
		t.Run(name, func(t *testing.T) {
			p, err := js.NewPool(ctx, js.Options{JIT: mode, InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Limits: jsload.Limits()}, js.PoolOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, job := range jsload.Jobs {
				got, err := b.Job(ctx, jsload.Sealed(name, p), job)
				if err != nil {
					t.Error(err)
					continue
				}
				t.Logf("%s: %s: %d, %s in %.0f ms", job, jsload.Libraries[job], got.Size, got.Digest, got.MS)
				if want := made[job]; got.Size != want.Size || got.Digest != want.Digest {
					t.Errorf("%s: made %d, %s; other engines make %d, %s", job, got.Size, got.Digest, want.Size, want.Digest)
				}
			}
		})
	}
}
