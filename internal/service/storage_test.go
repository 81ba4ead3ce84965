package service_test

import (
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// What is older than the retention can be read by nobody: state, result, events, files.
// proves part of X-09 H-47
func TestStorageRetention(t *testing.T) {
	_, url := open(t, service.Options{Queue: queue.Options{Retention: 3 * time.Second}})
	var run api.Run
	ask(t, "POST", url+"/v1/runs?wait=20s", api.Submission{Program: glovebox.Program{Language: "python", Source: "open('a','w').write('x')\nprint('y' * 400_000)\n", Artifacts: []string{"a"}}}, &run)
	if run.Result == nil || len(run.Result.Artifacts) != 1 {
		t.Fatalf("%+v", run)
	}
	paths := []string{"/v1/runs/" + run.ID, run.Result.Artifacts[0].URL, "/v1/runs/" + run.ID + "/events"}
	for _, p := range paths {
		if a := ask(t, "GET", url+p, nil, nil); a.StatusCode != 200 {
			t.Errorf("%s: %d", p, a.StatusCode)
		}
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if a := ask(t, "GET", url+paths[0], nil, nil); a.StatusCode == 404 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is kept for ever")
		}
	}
	if a := ask(t, "GET", url+paths[1], nil, nil); a.StatusCode != 404 {
		t.Error(a.StatusCode)
	}
	if a := ask(t, "GET", url+paths[2], nil, nil); a.StatusCode != 404 { // or it says so in its only event
		if count := frames(t, url, run.ID); count["error"] != 1 || len(count) != 1 {
			t.Error(count)
		}
	}
}

// A store that is full of results refuses what is new with a reason, goes on reading, and
// has brought all that it accepted to its end.
// proves part of H-47
func TestStorageFull(t *testing.T) {
	_, url := open(t, service.Options{Queue: queue.Options{MaxBytes: 64 << 20}})
	ends := glovebox.Program{Language: "python", Source: "import os\nfor i in range(16): os.write(1, b'x' * 65536)\n", Limits: glovebox.Limits{StdoutBytes: 2 << 20}}
	var ids []string
	for {
		var run api.Run
		a := ask(t, "POST", url+"/v1/runs?wait=20s", api.Submission{Program: ends}, &run)
		if a.StatusCode != 200 {
			var refused api.ErrorBody
			if a := ask(t, "POST", url+"/v1/runs", api.Submission{Program: ends}, &refused); a.StatusCode != 503 || refused.Error.Code != api.CodeStorage {
				t.Errorf("%d %+v", a.StatusCode, refused)
			}
			break
		}
		if ids = append(ids, run.ID); run.Result.Verdict != api.OK || len(ids) > 500 {
			t.Fatalf("run %d: %+v", len(ids), run.Result)
		}
	}
	t.Logf("%d runs of a MiB of output each fill it", len(ids))
	for _, id := range ids {
		var run api.Run
		if a := ask(t, "GET", url+"/v1/runs/"+id, nil, &run); a.StatusCode != 200 || run.Result == nil || run.Result.Verdict != api.OK || len(run.Result.Stdout) != 1<<20 {
			t.Errorf("%s: %d, or its output is gone", id, a.StatusCode)
		}
	}
	if len(ids) < 5 {
		t.Error(len(ids))
	}
}
