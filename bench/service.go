package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// served is a service in this process, on a socket of loopback.
type served struct {
	*service.Service
	url    string
	client *http.Client
	dir    string
}

func openService(o service.Options) (*served, error) {
	dir, err := os.MkdirTemp("", "glovebox-bench-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.Dir, o.Listeners, o.Box = filepath.Join(dir, "data"), []net.Listener{l}, options(2, 2)
	o.Admission = admission.Options{InFlight: 1000, MaxWaits: 1000, WaitsPerClient: 700, SocketsPerRun: 200, SocketsPerClient: 200}
	s, err := service.Open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	return &served{s, "http://" + l.Addr().String(), &http.Client{Transport: transport, Timeout: time.Minute}, dir}, nil
}

func (s *served) close() error {
	s.client.CloseIdleConnections()
	return errors.Join(s.Service.Close(), os.RemoveAll(s.dir))
}

// post submits a program and returns the status and what is known of its run.
func (s *served) post(p glovebox.Program, query string) (status int, run api.Run, err error) {
	body, err := json.Marshal(api.Submission{Program: p})
	if err != nil {
		return 0, run, err
	}
	a, err := s.client.Post(s.url+"/v1/runs"+query, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, run, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode < 300 {
		err = json.Unmarshal(text, &run)
	}
	return a.StatusCode, run, err
}

// waited runs a program over HTTP to its end.
func (s *served) waited(p glovebox.Program) func() error {
	return func() error {
		status, run, err := s.post(p, "?wait=60s")
		if err == nil && (status != 200 || run.Result == nil || run.Result.Verdict != api.OK) {
			err = fmt.Errorf("status %d: %+v", status, run)
		}
		return err
	}
}

// serviceTimes is the part of the service.
func serviceTimes() error {
	s, err := openService(service.Options{})
	if err != nil {
		return err
	}
	defer s.close()
	box, err := glovebox.New(options(2, 2))
	if err != nil {
		return err
	}
	defer box.Close()
	programs := []struct {
		name  string
		p     glovebox.Program
		plain []string
	}{
		{"/bin/true", trueProgram, []string{"/bin/true"}},
		{"python print(1)", hello, []string{"python3", "-c", "print(1)"}},
		{"node console.log(1)", glovebox.Program{Language: "node", Source: "console.log(1)"}, []string{"node", "-e", "console.log(1)"}},
	}
	for i, p := range programs {
		n := *rounds
		if i > 0 {
			n = max(n/4, 10)
		}
		fork := &subject{name: "fork + exec " + p.name, once: func() error { return exec.Command(p.plain[0], p.plain[1:]...).Run() }}
		library := &subject{name: "library " + p.name, once: in(box, p.p)}
		http := &subject{name: "HTTP ?wait " + p.name, once: s.waited(p.p)}
		if err := interleave(n, fork, library, http); err != nil {
			return err
		}
		tails(p.name+", one client", fork, library, http)
		fmt.Printf("%-34s %9.2f ms more than the library, of medians\n", "HTTP", ms(http.median())-ms(library.median()))
		for _, clients := range []int{2, 8, 32} {
			library.took, http.took = nil, nil
			for _, subject := range []*subject{library, http} {
				if err := together(clients, n, subject); err != nil {
					return err
				}
			}
			tails(fmt.Sprintf("%s, %d clients at once", p.name, clients), library, http)
		}
	}
	for _, readers := range []int{1, 100} {
		if err := s.watchers(readers); err != nil {
			return err
		}
	}
	return refusals()
}

func tails(title string, subjects ...*subject) {
	fmt.Printf("\n%s (%d)\n%-34s %9s %9s %9s\n", title, len(subjects[0].took), "", "median ms", "p95", "p99")
	for _, s := range subjects {
		fmt.Printf("%-34s %9.2f %9.2f %9.2f\n", s.name, ms(s.median()), ms(quantile(s.took, 0.95)), ms(quantile(s.took, 0.99)))
	}
}

// together has so many callers do something n times in all, and keeps how long each took.
func together(callers, n int, s *subject) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range callers {
		wg.Go(func() {
			for range max(n/callers, 3) {
				begin := time.Now()
				err := s.once()
				took := time.Since(begin)
				mu.Lock()
				s.took, failed = append(s.took, took), errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// watchers measures how late a line of a program comes to those who watch its run: it
// prints the time, by the clock that it shares with this machine.
func (s *served) watchers(n int) error {
	lines := glovebox.Program{Language: "python", Source: "import time\ntime.sleep(1)\nfor i in range(100):\n print(time.time(), flush=True)\n time.sleep(0.02)\n"}
	_, run, err := s.post(lines, "")
	if err != nil {
		return err
	}
	late := &subject{name: fmt.Sprintf("%d watchers of one run", n)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range n {
		wg.Go(func() {
			took, err := s.follow(run.ID)
			mu.Lock()
			late.took, failed = append(late.took, took...), errors.Join(failed, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	tails("from print to a watcher, over SSE", late)
	return nil
}

// follow reads the events of a run to its end, and says how late each line came.
func (s *served) follow(id string) (late []time.Duration, err error) {
	a, err := s.client.Get(s.url + "/v1/runs/" + id + "/events")
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	in := bufio.NewScanner(a.Body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		var f api.Frame
		if !ok || json.Unmarshal([]byte(data), &f) != nil || f.Type != "chunk" {
			continue
		}
		now := time.Now()
		for line := range strings.Lines(f.Data) {
			at, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
			if err != nil {
				return nil, err
			}
			late = append(late, now.Sub(time.UnixMicro(int64(at*1e6))))
		}
	}
	if len(late) != 100 {
		err = fmt.Errorf("%d lines came of 100", len(late))
	}
	return late, errors.Join(err, in.Err())
}

// refusals measures how long a refusal takes when everything is full.
func refusals() error {
	s, err := openService(service.Options{Slots: 2, Backlog: 8})
	if err != nil {
		return err
	}
	defer s.close()
	sleeper := glovebox.Program{Command: []string{"/bin/sleep", "50"}, Limits: glovebox.Limits{WallMS: 60_000}}
	for range 10 {
		if status, _, err := s.post(sleeper, ""); err != nil || status != 202 {
			return fmt.Errorf("status %d, %v", status, err)
		}
	}
	refused := func() error {
		status, _, err := s.post(sleeper, "")
		if err == nil && status != 429 {
			err = fmt.Errorf("status %d", status)
		}
		return err
	}
	var all []*subject
	for _, clients := range []int{1, 8, 32} {
		one := &subject{name: fmt.Sprintf("429, %d clients", clients), once: refused}
		if err := together(clients, max(*rounds*5, 500), one); err != nil {
			return err
		}
		all = append(all, one)
	}
	tails("a refusal, the backlog being full", all...)
	return nil
}
