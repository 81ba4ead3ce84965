// Package telemetry is how an operator sees what a service does: metrics, a log of
// requests and an audit log. What comes from outside is a number in the first, and
// a quoted text with an end in the others; programs, their input, keys and tokens are
// in none of them.
package telemetry

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/glovebox-dev/glovebox/api"
)

// Options say what the labels of metrics may be and who may read them. The zero value
// has no languages and no routes, and everybody may.
type Options struct {
	// Languages and Routes are the values that the labels of these names have; every
	// other one is "other". The first 256 of each count.
	Languages []string
	Routes    []string
	// Version is the program's, for glovebox_build_info.
	Version string
	// User and Password are what a reader has to give by HTTP's basic authentication.
	// Without a password everybody may read. No user is "glovebox".
	User, Password string
	// Gauges are asked each time that somebody reads.
	Gauges Gauges
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Gauges are what is read off the service. Each is called at each reading, beside
// others, and must not wait. Nil is a metric that is not there.
type Gauges struct {
	Waiting  func() int // runs that wait
	Backlog  func() int // how many may wait and run together
	Running  func() int // slots that are in use
	Slots    func() int
	Stored   func() int64 // bytes of the data folder
	StoreCap func() int64 // how many it may have
	Ready    func() bool  // what /readyz says
	Draining func() bool
}

// Metrics counts. It is safe for concurrent use, and no number of different values
// makes it grow.
type Metrics struct {
	o        Options
	begun    time.Time
	registry *prometheus.Registry

	accepted, refused, finished, requests, opened, webhooks, keys, audit, output *counters

	inFlight       prometheus.Gauge
	open           *prometheus.GaugeVec
	received       prometheus.Counter
	sent           prometheus.Counter
	warm, cpu      prometheus.Counter
	requestTime    *prometheus.HistogramVec
	wait, set, ran prometheus.Histogram
}

// Webhook outcomes, see [Metrics.Webhook].
const (
	WebhookQueued    = "queued"    // taken for delivery
	WebhookDelivered = "delivered" // the receiver said 2xx
	WebhookRetried   = "retried"   // a try failed, and there will be another
	WebhookFailed    = "failed"    // the last try failed
	WebhookDropped   = "dropped"   // not tried: too many for this host or key
)

// Kinds of streams, see [Metrics.Stream].
const (
	StreamWebSocket = "websocket"
	StreamEvents    = "sse"
)

// What becomes of keys, see [Metrics.Key].
const (
	KeyIssued  = "issued"
	KeyRevoked = "revoked"
	KeyRefused = "refused"
)

// What becomes of an entry for the audit log, see [Metrics.Audit].
const (
	AuditWritten = "written"
	AuditDropped = "dropped" // too many at once; the log says how many
	AuditFailed  = "failed"
)

// Command is the language of a run that has a command instead.
const Command = "command"

var verdicts = []string{
	string(api.OK), string(api.Error), string(api.Timeout), string(api.MemoryLimit), string(api.OutputLimit), string(api.CompileError),
	string(api.Denied), string(api.Canceled), string(api.Interrupted), string(api.SetupFailed),
}

// New makes all series of all metrics.
func New(o Options) *Metrics {
	if o.User == "" {
		o.User = "glovebox"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Metrics{o: o, begun: o.Now(), registry: prometheus.NewRegistry()}
	codes := make([]string, 0, len(api.Codes()))
	for _, c := range api.Codes() {
		codes = append(codes, string(c))
	}
	languages, routes := closed("language", append([]string{Command}, o.Languages...)...), closed("route", o.Routes...)
	m.accepted = m.counters("runs_accepted_total", "Runs that were accepted.", languages)
	m.refused = m.counters("runs_refused_total", "Submissions that were refused, by the code of the refusal.", closed("code", codes...))
	m.finished = m.counters("runs_finished_total", "Runs that have ended.", closed("verdict", verdicts...), languages)
	m.output = m.counters("run_output_bytes_total", "Bytes of output that were kept of runs.", closed("stream", "stdout", "stderr"))
	m.requests = m.counters("http_requests_total", "HTTP requests that were answered.", routes, closed("class", "1xx", "2xx", "3xx", "4xx", "5xx"))
	m.opened = m.counters("streams_opened_total", "Streams of events that were opened.", closed("kind", StreamWebSocket, StreamEvents))
	m.webhooks = m.counters("webhooks_total", "Webhooks and tries to deliver them.", closed("outcome", WebhookQueued, WebhookDelivered, WebhookRetried, WebhookFailed, WebhookDropped))
	m.keys = m.counters("keys_total", "Keys that were issued, revoked, or not issued because of a quota.", closed("outcome", KeyIssued, KeyRevoked, KeyRefused))
	m.audit = m.counters("audit_entries_total", "Entries for the audit log.", closed("outcome", AuditWritten, AuditDropped, AuditFailed))
	m.single(routes)
	m.gauges()
	m.registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics()), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Buckets, in seconds.
var (
	short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	long  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
)

// single makes the metrics whose labels are not counters'.
func (m *Metrics) single(routes labelSet) {
	add := func(c prometheus.Collector) { m.registry.MustRegister(c) }
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
		add(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
		add(h)
		return h
	}
	m.warm = counter("runs_warm_total", "Runs that found a cell that was armed already.")
	m.cpu = counter("run_cpu_seconds_total", "Processor time of guests.")
	m.received = counter("http_received_bytes_total", "Bytes of bodies of HTTP requests.")
	m.sent = counter("http_sent_bytes_total", "Bytes of bodies of HTTP answers.")
	m.wait = histogram("run_queue_seconds", "Time that a run waited for its turn.", long)
	m.set = histogram("run_setup_seconds", "Time from a run's turn to the guest's exec.", short)
	m.ran = histogram("run_wall_seconds", "Time from the guest's exec to its exit.", long)
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "http_requests_in_flight", Help: "HTTP requests that are being answered."})
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "streams_open", Help: "Streams of events that are open."}, []string{"kind"})
	m.requestTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "http_request_seconds",
		Help: "Time to answer an HTTP request; a stream's is its life.", Buckets: short}, []string{routes.name})
	for _, r := range routes.values() {
		m.requestTime.WithLabelValues(r)
	}
	for _, k := range m.opened.labels[0].values() {
		m.open.WithLabelValues(k)
	}
	add(m.inFlight)
	add(m.open)
	add(m.requestTime)
}

// gauges makes what is asked at each reading.
func (m *Metrics) gauges() {
	add := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, f))
	}
	count := func(name, help string, f func() int) {
		if f != nil {
			add(name, help, func() float64 { return float64(f()) })
		}
	}
	size := func(name, help string, f func() int64) {
		if f != nil {
			add(name, help, func() float64 { return float64(f()) })
		}
	}
	truth := func(name, help string, f func() bool) {
		if f != nil {
			add(name, help, func() float64 {
				if f() {
					return 1
				}
				return 0
			})
		}
	}
	g := m.o.Gauges
	count("queue_waiting", "Runs that wait.", g.Waiting)
	count("queue_capacity", "Runs that may wait and run together.", g.Backlog)
	count("slots_in_use", "Runs that are being executed.", g.Running)
	count("slots", "Runs that may be executed at a time.", g.Slots)
	size("store_bytes", "Bytes that the data folder holds.", g.Stored)
	size("store_capacity_bytes", "Bytes that the data folder may hold.", g.StoreCap)
	truth("ready", "1 when the service takes runs, else 0.", g.Ready)
	truth("draining", "1 when the service is about to end, else 0.", g.Draining)
	add("uptime_seconds", "Time since the service began.", func() float64 { return max(0, m.o.Now().Sub(m.begun).Seconds()) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "build_info", Help: "1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": plain(m.o.Version), "go_version": runtime.Version(), "api_version": api.Version}})
	info.Set(1)
	m.registry.MustRegister(info)
}

// Accepted counts a run that was accepted. No language is a command's run.
func (m *Metrics) Accepted(language string) { m.accepted.add(1, orCommand(language)) }

// Refused counts a run that was not.
func (m *Metrics) Refused(code api.Code) { m.refused.add(1, string(code)) }

// Finished counts a run that has ended, and what it took.
func (m *Metrics) Finished(r *api.Result, language string) {
	if r == nil {
		return
	}
	m.finished.add(1, string(r.Verdict), orCommand(language))
	m.output.add(float64(len(r.Stdout)), "stdout")
	m.output.add(float64(len(r.Stderr)), "stderr")
	if r.Verdict == api.Interrupted { // nobody measured it
		return
	}
	observe(m.wait, r.QueueMS/1000)
	if r.Verdict == api.SetupFailed {
		return
	}
	observe(m.set, r.SetupMS/1000)
	observe(m.ran, r.WallMS/1000)
	if r.Warm {
		m.warm.Inc()
	}
	if r.CPUMS != nil && *r.CPUMS > 0 {
		m.cpu.Add(*r.CPUMS / 1000)
	}
}

func orCommand(language string) string {
	if language == "" {
		return Command
	}
	return language
}

// observe leaves out what cannot be: it would spoil the sum for ever.
func observe(h prometheus.Observer, seconds float64) {
	if seconds >= 0 && seconds < 1e9 {
		h.Observe(seconds)
	}
}

// Began says that a request is being answered, until Request says that it has been.
func (m *Metrics) Began() { m.inFlight.Inc() }

// Request counts a request that has been answered, by the pattern of its route, and
// the bytes of both bodies.
func (m *Metrics) Request(route string, status int, took time.Duration, received, sent int64) {
	m.inFlight.Dec()
	class := other
	if status >= 100 && status < 600 {
		class = string([]byte{'0' + byte(status/100), 'x', 'x'})
	}
	m.requests.add(1, route, class)
	observe(m.requestTime.WithLabelValues(m.requests.labels[0].of(route)), took.Seconds())
	m.received.Add(float64(max(0, received)))
	m.sent.Add(float64(max(0, sent)))
}

// Stream counts a stream that was opened; what it returns says that it was closed.
func (m *Metrics) Stream(kind string) (closed func()) {
	m.opened.add(1, kind)
	g := m.open.WithLabelValues(m.opened.labels[0].of(kind))
	g.Inc()
	return g.Dec
}

// Webhook counts what became of a webhook, one of the constants.
func (m *Metrics) Webhook(outcome string) { m.webhooks.add(1, outcome) }

// Key counts what became of a key, one of the constants.
func (m *Metrics) Key(outcome string) { m.keys.add(1, outcome) }

// Audit counts what became of an entry for the audit log, one of the constants.
func (m *Metrics) Audit(outcome string) { m.audit.add(1, outcome) }

// Handler answers with all metrics: in the text form of Prometheus, or as
// [api.Metrics] to who prefers application/json. Who has not the password gets
// 401 and an [api.ErrorBody].
func (m *Metrics) Handler() http.Handler { return http.HandlerFunc(m.serve) }
