package js_test

import (
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// Garbage alone ends no worker, however little memory it has: the engine's heap
// is collected before the kernel's limit is met.
func TestGarbageInLittleMemory(t *testing.T) {
	for _, mode := range []js.JIT{"", js.Full} {
		for _, mib := range []int64{48, 96, 256} {
			for i, code := range []string{
				"for (let i = 0; i < 1e6; i++) ({ a: i, b: [i] }); 1",
				"for (let i = 0; i < 300; i++) ('x'.repeat(1e6) + i).length; 1",
				"for (let i = 0; i < 300; i++) new Uint8Array(1e6); 1",
			} {
				t.Run(fmt.Sprintf("%s%dMiB/%d", mode, mib, i), func(t *testing.T) {
					rt := open(t, js.Options{JIT: mode, Limits: js.Limits{MemoryBytes: mib << 20, TimeoutMS: 60_000}})
					if got := text(t, rt, code); got != "1" {
						t.Errorf("%s came to %s", code, got)
					}
				})
			}
		}
	}
}
