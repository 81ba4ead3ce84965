package strictjson_test

import (
	"encoding/json"
	"math"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// FuzzResult writes results of any content as JSON and reads them strictly: they come
// back as they were, what is unknown stays unknown and is not 0, and bytes that are no
// text come back by base64.
//
// proves part of T-13
func FuzzResult(f *testing.F) {
	f.Add("ok", "", "out\n", []byte("\xff\x00"), 0, int64(5), 1.5, true)
	f.Add("error", "SIGSEGV", "", []byte(nil), -1, int64(-1), 0.0, false)
	f.Add("denied", "\u2028\U0001f600", "\x1b[31m", []byte("<a>&"), 255, int64(math.MaxInt64), 1e21, true)
	f.Fuzz(func(t *testing.T, verdict, words, out string, raw []byte, code int, count int64, wall float64, known bool) {
		if !utf8.ValidString(verdict + words + out) {
			return // the host makes text of everything before
		}
		r := api.Result{ID: words, Verdict: api.Verdict(verdict), Signal: words, Stdout: out, Message: words, WallMS: wall, Warnings: []string{out},
			Artifacts: []api.Artifact{{Name: words, Size: int64(len(raw)), Content: raw}}, RefusedArtifacts: []api.RefusedArtifact{{Name: out, Reason: words}},
			Evidence: api.Evidence{Layers: []api.Layer{{Name: words, Detail: out}}}, Compile: &api.Compile{Stdout: out}}
		if known {
			r.ExitCode, r.OOMKills, r.CPUMS, r.Compile.PeakBytes = &code, &count, &wall, &count
		}
		written, err := json.Marshal(r)
		if math.IsNaN(wall) || math.IsInf(wall, 0) {
			if err == nil {
				t.Fatalf("%v was written", wall)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var again api.Result
		if err := strictjson.Decode(written, &again, strictjson.Options{}); err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if !cmp.Equal(r, again, cmpopts.EquateEmpty()) || known != (again.ExitCode != nil) || known != (again.OOMKills != nil) {
			t.Fatalf("%s: %s", written, cmp.Diff(r, again))
		}
	})
}
