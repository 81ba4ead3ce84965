package telemetry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

var routes = []string{"POST /v1/runs", "GET /v1/runs/{id}", "GET /metrics"}

// full has every gauge.
func full() telemetry.Options {
	return telemetry.Options{
		Languages: []string{"python", "node"}, Routes: routes, Version: "v1.2.3",
		Gauges: telemetry.Gauges{
			Waiting: func() int { return 3 }, Backlog: func() int { return 64 }, Running: func() int { return 2 }, Slots: func() int { return 4 },
			Stored: func() int64 { return 1 << 20 }, StoreCap: func() int64 { return 1 << 30 }, Ready: func() bool { return true }, Draining: func() bool { return false },
		},
	}
}

func get(t *testing.T, m *telemetry.Metrics, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w
}

// series are all that a reader sees, with their values.
func series(t *testing.T, m *telemetry.Metrics) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(get(t, m, nil).Body.String()) {
		if !strings.HasPrefix(line, "#") {
			i := strings.LastIndexByte(line, ' ')
			out[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return out
}

// hostile is a text that somebody would like to see as a label.
func hostile(i int) string {
	return [...]string{"lang%d", "\n# TYPE x%d counter\nx 1\n", "%d\"} 1\nglovebox_ready{a=\"", "\x1b]0;%d\a", "\xff\xfe%d", "../../%d", "%d\u202e",
		strings.Repeat("A", 200) + "%d", "/v1/runs/%032x?key=gbk_secret", "python%d"}[i%10] + fmt.Sprint(i)
}

// TestClosedSets: whatever comes, there are the series that there were; each event is
// in one of them. The control is a counter that takes labels as they come.
//
// proves part of H-85
func TestClosedSets(t *testing.T) {
	const n = 100_000
	m := telemetry.New(full())
	before := series(t, m)
	raw := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "raw"}, []string{"language"})
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := part; i < n; i += 4 {
				s := hostile(i)
				m.Accepted(s)
				m.Refused(api.Code(s))
				m.Finished(&api.Result{Verdict: api.Verdict(s), WallMS: float64(i)}, s)
				m.Began()
				m.Request(s, i, time.Duration(i), int64(-i), int64(i))
				m.Stream(s)()
				m.Webhook(s)
				m.Key(s)
				m.Audit(s)
				if i%100 == 0 {
					raw.WithLabelValues(strings.ToValidUTF8(s, "?")).Inc()
				}
			}
		})
	}
	wg.Wait()
	after := series(t, m)
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("a series more: %q", name)
		}
	}
	if len(after) != len(before) || len(before) < 150 {
		t.Errorf("%d series, before %d", len(after), len(before))
	}
	for _, name := range []string{
		`glovebox_runs_accepted_total{language="other"}`, `glovebox_runs_refused_total{code="other"}`,
		`glovebox_runs_finished_total{language="other",verdict="other"}`, `glovebox_streams_opened_total{kind="other"}`,
		`glovebox_webhooks_total{outcome="other"}`, `glovebox_keys_total{outcome="other"}`, `glovebox_audit_entries_total{outcome="other"}`,
		`glovebox_http_request_seconds_count{route="other"}`,
	} {
		if after[name] != "100000" {
			t.Errorf("%s is %s", name, after[name])
		}
	}
	if after["glovebox_http_requests_in_flight"] != "0" || after[`glovebox_streams_open{kind="other"}`] != "0" {
		t.Error("what has ended is counted as open")
	}
	if got := testutil.CollectAndCount(raw); got != n/100 {
		t.Errorf("the control has %d series", got)
	}
}

// A service with more languages than there may be values has a bound all the same.
func TestBoundedSets(t *testing.T) {
	o := full()
	for i := range 100_000 {
		o.Languages = append(o.Languages, fmt.Sprintf("l%d", i))
		o.Routes = append(o.Routes, fmt.Sprintf("GET /%d", i))
	}
	o.Languages = append(o.Languages, "\xff", "a\nb")
	if n := len(series(t, telemetry.New(o))); n > 15_000 {
		t.Errorf("%d series", n)
	}
}

// TestCounts: each method counts where it says.
//
// proves part of X-19
func TestCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	o := full()
	o.Now = func() time.Time { return now }
	m := telemetry.New(o)
	now = now.Add(90 * time.Second)
	m.Accepted("python")
	m.Accepted("")
	m.Refused(api.CodeBacklog)
	cpu := 500.0
	m.Finished(&api.Result{Verdict: api.OK, QueueMS: 20, SetupMS: 2, WallMS: 700, CPUMS: &cpu, Warm: true, Stdout: "12345", Stderr: "1"}, "node")
	m.Finished(&api.Result{Verdict: api.Interrupted}, "node")
	m.Finished(&api.Result{Verdict: api.SetupFailed, QueueMS: 1}, "")
	m.Finished(&api.Result{Verdict: api.OK, QueueMS: -1, SetupMS: -1, WallMS: -1}, "python")
	m.Finished(nil, "python")
	m.Began()
	m.Began()
	m.Request("POST /v1/runs", 202, 30*time.Millisecond, 100, 200)
	closed := m.Stream(telemetry.StreamWebSocket)
	m.Stream(telemetry.StreamEvents)()
	m.Webhook(telemetry.WebhookDelivered)
	m.Key(telemetry.KeyIssued)
	m.Audit(telemetry.AuditWritten)
	got := series(t, m)
	for name, want := range map[string]string{
		`runs_accepted_total{language="python"}`: "1", `runs_accepted_total{language="command"}`: "1", `runs_accepted_total{language="other"}`: "0",
		`runs_refused_total{code="backlog"}`:                    "1",
		`runs_finished_total{language="node",verdict="ok"}`:     "1",
		`runs_finished_total{language="python",verdict="ok"}`:   "1",
		`runs_finished_total{language="node",verdict="denied"}`: "0", `runs_finished_total{language="command",verdict="setup_failed"}`: "1",
		"run_queue_seconds_count": "2", "run_setup_seconds_count": "1", "run_wall_seconds_count": "1", `run_wall_seconds_bucket{le="0.5"}`: "0",
		`run_wall_seconds_bucket{le="1"}`: "1", "run_wall_seconds_sum": "0.7", "run_cpu_seconds_total": "0.5", "runs_warm_total": "1",
		`run_output_bytes_total{stream="stdout"}`: "5", `run_output_bytes_total{stream="stderr"}`: "1",
		`http_requests_total{class="2xx",route="POST /v1/runs"}`: "1", `http_request_seconds_count{route="POST /v1/runs"}`: "1",
		"http_requests_in_flight": "1", "http_received_bytes_total": "100", "http_sent_bytes_total": "200",
		`streams_open{kind="websocket"}`: "1", `streams_open{kind="sse"}`: "0", `streams_opened_total{kind="sse"}`: "1",
		`webhooks_total{outcome="delivered"}`: "1", `keys_total{outcome="issued"}`: "1", `audit_entries_total{outcome="written"}`: "1",
		"queue_waiting": "3", "queue_capacity": "64", "slots_in_use": "2", "slots": "4", "store_bytes": "1.048576e+06", "ready": "1", "draining": "0",
		"uptime_seconds": "90",
	} {
		if got["glovebox_"+name] != want {
			t.Errorf("%s is %q, want %s", name, got["glovebox_"+name], want)
		}
	}
	closed()
	if got := series(t, m)[`glovebox_streams_open{kind="websocket"}`]; got != "0" {
		t.Errorf("%s sockets are open", got)
	}
}

// TestForms: the text is Prometheus' own, without what its linter finds, and JSON
// says the same.
//
// proves part of X-19
func TestForms(t *testing.T) {
	m := telemetry.New(full())
	m.Accepted("python")
	m.Finished(&api.Result{Verdict: api.OK, WallMS: 30}, "python")
	w := get(t, m, nil)
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	text := w.Body.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		t.Errorf("lint: %s: %s", p.Metric, p.Text)
	}
	if err != nil {
		t.Error(err)
	}
	if bad, _ := promlint.New(strings.NewReader("# TYPE gloveboxRuns counter\ngloveboxRuns 1\n")).Lint(); len(bad) == 0 {
		t.Error("the linter finds nothing in what is wrong")
	}
	w = get(t, m, func(r *http.Request) { r.Header.Set("Accept", "application/json") })
	var got api.Metrics
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Content-Type") != "application/json" || got.APIVersion != api.Version {
		t.Fatalf("%v %v\n%.300s", err, w.Header(), w.Body)
	}
	if len(got.Families) != len(families) {
		t.Errorf("%d families in JSON, %d in text", len(got.Families), len(families))
	}
	for name, f := range families {
		if j := got.Families[name]; j.Type != strings.ToLower(f.GetType().String()) || j.Help != f.GetHelp() || len(j.Samples) != len(f.GetMetric()) {
			t.Errorf("%s: %+v", name, j)
		}
	}
	ran := got.Families["glovebox_run_wall_seconds"].Samples[0]
	if ran.Value != nil || *ran.Count != 1 || *ran.Sum != 0.03 || len(ran.Buckets) != 18 || ran.Buckets[4] != (api.MetricBucket{LE: .025}) || ran.Buckets[5] != (api.MetricBucket{LE: .05, Count: 1}) {
		t.Errorf("%+v", ran)
	}
	sum := 0.0
	for _, s := range got.Families["glovebox_runs_accepted_total"].Samples {
		if sum += *s.Value; *s.Value == 1 && s.Labels["language"] != "python" {
			t.Errorf("%+v", s)
		}
	}
	if sum != 1 {
		t.Errorf("%v runs", sum)
	}
}

// Who gets JSON.
func TestAccept(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	for accept, want := range map[string]string{
		"": "text/plain", "*/*": "text/plain", "text/html": "text/plain", "application/json": "application/json", "application/json;q=0.5": "application/json",
		"text/plain, application/json;q=0.9": "text/plain", "application/json, text/plain;q=0.9": "application/json", "application/json;q=0": "text/plain",
		"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.5,*/*;q=0.1": "text/plain", "application/json;q=2": "text/plain",
		"application/json;q=NaN": "text/plain", ";;,=,\x00": "text/plain", strings.Repeat("a/b,", 1000) + "application/json": "text/plain",
	} {
		w := get(t, m, func(r *http.Request) { r.Header.Set("Accept", accept) })
		if got := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(got, want) {
			t.Errorf("%.60q: %d %s", accept, w.Code, got)
		}
	}
}

// TestPassword: without both right parts there is nothing; each of the wrong ones is
// a neighbour of what opens.
//
// proves part of X-11 X-19
func TestPassword(t *testing.T) {
	o := full()
	o.Password = "tr0ub4dor"
	m := telemetry.New(o)
	for name, auth := range map[string]func(*http.Request){
		"nothing": nil, "empty": func(r *http.Request) { r.SetBasicAuth("", "") },
		"another user":  func(r *http.Request) { r.SetBasicAuth("gloveboX", o.Password) },
		"no user":       func(r *http.Request) { r.SetBasicAuth("", o.Password) },
		"no password":   func(r *http.Request) { r.SetBasicAuth("glovebox", "") },
		"a part":        func(r *http.Request) { r.SetBasicAuth("glovebox", o.Password[:8]) },
		"longer":        func(r *http.Request) { r.SetBasicAuth("glovebox", o.Password+"\x00") },
		"swapped":       func(r *http.Request) { r.SetBasicAuth(o.Password, "glovebox") },
		"bearer":        func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+o.Password) },
		"in the query":  func(r *http.Request) { r.URL.RawQuery = "password=" + o.Password },
		"not base64":    func(r *http.Request) { r.Header.Set("Authorization", "Basic %%%") },
		"without colon": func(r *http.Request) { r.Header.Set("Authorization", "Basic Z2xvdmVib3g=") },
	} {
		w := get(t, m, auth)
		var body api.ErrorBody
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 401 || body.Error.Code != api.CodeUnauthorized || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "glovebox_") || strings.Contains(w.Body.String(), o.Password) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	if w := get(t, m, func(r *http.Request) { r.SetBasicAuth("glovebox", o.Password) }); w.Code != 200 || !strings.Contains(w.Body.String(), "glovebox_ready 1") {
		t.Errorf("control: %d", w.Code)
	}
	o.Password = ""
	if w := get(t, telemetry.New(o), nil); w.Code != 200 {
		t.Errorf("control without a password: %d", w.Code)
	}
}

// TestDocument: docs/metrics.md has a row for each name, and no other.
//
// proves part of X-19
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m, err := telemetry.New(full()).Read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for name, f := range m.Families {
		if !strings.HasPrefix(name, "glovebox_") {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s begins with nothing that the document has", name)
			}
			continue
		}
		labels := map[string]bool{}
		for l := range f.Samples[0].Labels {
			labels["`"+l+"`"] = true
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", name, f.Type, strings.Join(sorted(labels), " "), f.Help)
		want[row] = true
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("docs/metrics.md lacks\n%s", row)
		}
	}
	for line := range strings.Lines(string(text)) {
		if row := strings.TrimSpace(line); strings.HasPrefix(row, "| `glovebox_") && !want[row] {
			t.Errorf("docs/metrics.md has what is not there:\n%s", row)
		}
	}
}
