package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestTypeScriptAsRoot: the program's report is the one that Go makes of the same
// readings.
//
// proves part of T-15
func TestTypeScriptAsRoot(t *testing.T) {
	sums, counts := map[string]float64{}, map[string]float64{}
	for _, r := range readings {
		sums[r.Sensor] += r.Celsius
		counts[r.Sensor]++
	}
	want := map[string]any{}
	for sensor, sum := range sums {
		level := "mild"
		switch mean := sum / counts[sensor]; {
		case mean < 15:
			level = "cold"
		case mean >= 30:
			level = "hot"
		}
		want[sensor] = map[string]any{"mean": sum / counts[sensor], "level": level}
	}
	out := testenv.Output(t, testenv.Built(t, "./examples/typescript"))
	at := strings.LastIndex(out, "result: ")
	if at < 0 || !strings.Contains(out, "declare function readings(): Promise<Array<{\n") {
		t.Fatal(out)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out[at+len("result: "):]), &got); err != nil {
		t.Fatal(err, out)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
