package server_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// hello are programs that print a text.
var hello = map[string]string{
	"python": "print('%s')",
	"bash":   "echo %s",
	"node":   "console.log('%s')",
	"c":      "#include <stdio.h>\nint main(void) { puts(\"%s\"); return 0; }",
	"go":     "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"%s\\n\") }\n",
}

// burst submits n programs at once, each of which prints a number of its own, and
// follows each to its end. It returns how many were refused for each reason.
func (s *site) burst(t *testing.T, n int, languages []string) map[api.Code]int {
	t.Helper()
	var mu sync.Mutex
	refused := map[api.Code]int{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			id := fmt.Sprintf("run-%d", i)
			language := languages[i%len(languages)]
			p := api.Program{Language: language, Source: fmt.Sprintf(hello[language], id), Limits: api.Limits{WallMS: 60_000}} // others use the machine too
			if language == "c" || language == "go" {
				p.Limits.Compile = &api.Limits{WallMS: 60_000}
			}
			a := s.ask(t, "POST", "/v1/runs?wait=60s", api.Submission{Program: p})
			if a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable {
				mu.Lock()
				defer mu.Unlock()
				refused[a.code()]++
				if a.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %s without Retry-After", id, a.code())
				}
				return
			}
			r := s.follow(t, a)
			if r == nil || r.Verdict != api.OK || r.Stdout != id+"\n" {
				t.Errorf("%s in %s: %+v", id, language, r)
			}
		})
	}
	all.Wait()
	return refused
}

// follow waits for the end of an accepted run, as long as the service says.
func (s *site) follow(t *testing.T, a *answer) *api.Result {
	t.Helper()
	if a.StatusCode != http.StatusOK && a.StatusCode != http.StatusAccepted {
		t.Errorf("%d %.300s", a.StatusCode, a.body)
		return nil
	}
	id := a.run(t).ID
	for range 100 {
		if a.StatusCode == http.StatusTooManyRequests {
			pause, _ := strconv.Atoi(a.Header.Get("Retry-After"))
			<-time.After(time.Duration(pause) * time.Second)
		} else if r := a.run(t); r.Result != nil {
			return r.Result
		}
		a = s.ask(t, "GET", "/v1/runs/"+id+"?wait=60s", nil)
	}
	return nil
}

// Case 141: fifty programs at once in several languages each print their own number and
// nothing else; of five hundred each does that or is told when to come again.
//
// proves part of X-17
func TestCase141AsRoot(t *testing.T) {
	t.Parallel()
	s := alone(t, service.Options{Admission: admission.Options{InFlight: 64, WaitsPerClient: 64}})
	if refused := s.burst(t, 50, []string{"bash", "c", "node", "python"}); len(refused) != 0 { // Go too in make soak
		t.Errorf("of fifty some were refused: %v", refused)
	}
	refused := s.burst(t, 500, []string{"bash"})
	n := 0
	for code, k := range refused {
		if n += k; code != api.CodeInFlight && code != api.CodeBacklog && code != api.CodeBusy {
			t.Errorf("%d were refused as %s", k, code)
		}
	}
	if n == 0 || n > 500-64 {
		t.Errorf("%v of 500 were refused; 64 may be in flight", refused)
	}
	if a := s.ask(t, "POST", "/v1/runs?wait=30s", api.Submission{Program: api.Program{Language: "bash", Source: "echo after"}}); a.StatusCode != http.StatusOK || a.run(t).Result.Stdout != "after\n" {
		t.Errorf("afterwards: %d %.300s", a.StatusCode, a.body)
	}
}
