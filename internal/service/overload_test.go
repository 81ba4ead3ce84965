package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// load is what many clients at once saw of a service.
type load struct {
	mu       sync.Mutex
	accepted []string
	count    map[string]int
	refused  []time.Duration // how long each 429 took
}

// submit submits one run as a client and counts the answer. A client who is told to
// come back later does so a little later.
func (l *load) submit(t *testing.T, c *http.Client, url, client string) {
	body, err := json.Marshal(api.Submission{Program: glovebox.Program{Command: []string{"/bin/sleep", "0.1"}}})
	if err != nil {
		t.Error(err)
		return
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/runs", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", client)
	begin := time.Now()
	a, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	took := time.Since(begin)
	var run api.Run
	var refusal api.ErrorBody
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		t.Error(err)
	case a.StatusCode == 202 && json.Unmarshal(text, &run) == nil && run.ID != "":
		l.count["accepted"]++
		l.accepted = append(l.accepted, run.ID)
	case json.Unmarshal(text, &refusal) == nil && (a.StatusCode == 429 || a.StatusCode == 503) && refusal.Error.RetryAfterMS > 0 && a.Header.Get("Retry-After") != "":
		l.count[fmt.Sprint(a.StatusCode, " ", refusal.Error.Code)]++
		if a.StatusCode == 429 {
			l.refused = append(l.refused, took)
		}
	default:
		t.Errorf("%d %s", a.StatusCode, text)
	}
}

// heap is what this process has allocated, once what it does not need is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// overload has clients submit ten times as many programs as the service has time for.
// Each request has a verdict or a refusal that says when to come
// back, and what was accepted has its end.
func overload(t *testing.T, lasts time.Duration) {
	const slots, backlog = 2, 10
	_, url := open(t, service.Options{Slots: slots, Backlog: backlog, Admission: admission.Options{
		ProxyHeader: "X-Forwarded-For", Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: 30 * time.Second}
	defer c.CloseIdleConnections()
	l := &load{count: map[string]int{}}
	round := func(lasts time.Duration) {
		var all sync.WaitGroup
		for n := range 10 * (slots + backlog) {
			all.Go(func() {
				// 120 clients with a submission each 600 ms are 200 in a second; two slots
				// bring twenty to their end.
				pace := time.NewTicker(600 * time.Millisecond)
				defer pace.Stop()
				time.Sleep(time.Duration(n) * 5 * time.Millisecond)
				for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); <-pace.C {
					l.submit(t, c, url, fmt.Sprintf("203.0.%d.1", n))
				}
			})
		}
		all.Wait()
	}
	round(500 * time.Millisecond) // what is made once is there
	before := heap()
	round(lasts)
	grown := heap() - before
	ends := map[string]int{}
	for _, id := range l.accepted {
		var run api.Run
		a := ask(t, "GET", url+"/v1/runs/"+id+"?wait=30s", nil, &run)
		if run.Result == nil {
			t.Fatalf("%s: %d %+v", id, a.StatusCode, run)
		}
		ends[string(run.Result.Verdict)]++
	}
	slices.Sort(l.refused)
	if len(l.refused) == 0 || len(l.accepted) == 0 {
		t.Fatal("it was not too much:", l.count)
	}
	at := func(q float64) time.Duration {
		return l.refused[int(q*float64(len(l.refused)-1))].Round(10 * time.Microsecond)
	}
	t.Logf("%v in %v; ends %v; a 429 took %v, p99 %v, at most %v; the heap grew by %d KiB", l.count, lasts, ends, at(0.5), at(0.99), at(1), grown>>10)
	if l.count["503 storage"] > 0 {
		t.Error("a backlog that is full is called a disk that is full")
	}
	if ends["ok"] != len(l.accepted) {
		t.Error(ends)
	}
	// Besides, the embedded store has an index of what it keeps.
	if most := int64(8<<20) + int64(len(l.accepted))*4096; grown > most {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
}

// proves part of X-17 H-45 H-46
func TestOverload(t *testing.T) { overload(t, 2*time.Second) }
