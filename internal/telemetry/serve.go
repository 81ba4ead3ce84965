package telemetry

import (
	"bytes"
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
)

// Authorized tells whether a request has what a reader of metrics needs. User and
// password are both compared, in constant time, whichever is wrong.
func (m *Metrics) Authorized(r *http.Request) bool {
	if m.o.Password == "" {
		return true
	}
	user, password, given := r.BasicAuth()
	sameUser, samePassword := credential.Equal(user, m.o.User), credential.Equal(password, m.o.Password)
	return given && sameUser && samePassword
}

// Challenge is the header WWW-Authenticate of an answer to who is not authorized.
const Challenge = `Basic realm="glovebox metrics", charset="UTF-8"`

const (
	typeJSON = "application/json"
	typeText = "text/plain; version=0.0.4; charset=utf-8"
)

func (m *Metrics) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	if !m.Authorized(r) {
		h.Set("WWW-Authenticate", Challenge)
		refuse(w, api.CodeUnauthorized, "metrics need a user and a password")
		return
	}
	kind := typeText
	render := m.text
	if wantsJSON(r.Header.Values("Accept")) {
		kind, render = typeJSON, m.json
	}
	body, err := render()
	if err != nil { // a gauge that panicked would not come here: this is a mistake of the program
		refuse(w, api.CodeInternal, "the metrics cannot be read")
		return
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // who has gone needs nothing
}

func refuse(w http.ResponseWriter, code api.Code, message string) {
	body, err := json.Marshal(api.ErrorBody{Error: api.ServiceError{Code: code, Message: message}})
	if err != nil {
		body = nil // cannot be
	}
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(code.HTTPStatus())
	_, _ = w.Write(body)
}

// text is the text form of Prometheus, version 0.0.4.
func (m *Metrics) text() ([]byte, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// json is the same as api.Metrics.
func (m *Metrics) json() ([]byte, error) {
	v, err := m.Read()
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Read returns what all metrics say now.
func (m *Metrics) Read() (*api.Metrics, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	out := &api.Metrics{APIVersion: api.Version, Families: make(map[string]api.MetricFamily, len(families))}
	for _, f := range families {
		family := api.MetricFamily{Type: strings.ToLower(f.GetType().String()), Help: f.GetHelp(), Samples: []api.MetricSample{}}
		for _, s := range f.GetMetric() {
			family.Samples = append(family.Samples, sample(s))
		}
		out.Families[f.GetName()] = family
	}
	return out, nil
}

func sample(s *dto.Metric) api.MetricSample {
	var out api.MetricSample
	for _, l := range s.GetLabel() {
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[l.GetName()] = l.GetValue()
	}
	switch {
	case s.Counter != nil:
		out.Value = finite(s.Counter.GetValue())
	case s.Gauge != nil:
		out.Value = finite(s.Gauge.GetValue())
	case s.Untyped != nil:
		out.Value = finite(s.Untyped.GetValue())
	case s.Summary != nil:
		n := s.Summary.GetSampleCount()
		out.Count, out.Sum = &n, finite(s.Summary.GetSampleSum())
	case s.Histogram != nil:
		n := s.Histogram.GetSampleCount()
		out.Count, out.Sum = &n, finite(s.Histogram.GetSampleSum())
		for _, b := range s.Histogram.GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 0) {
				out.Buckets = append(out.Buckets, api.MetricBucket{LE: b.GetUpperBound(), Count: b.GetCumulativeCount()})
			}
		}
	}
	return out
}

// finite is nil for what JSON has no number for.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// wantsJSON tells whether a client prefers application/json to text: it names it, and
// nothing of text with a quality as good. What it sends without need is ignored.
func wantsJSON(accept []string) bool {
	asJSON, asText := 0.0, 0.0
	for i, part := range strings.Split(strings.Join(accept, ","), ",") {
		if i == 32 {
			break
		}
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if v, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(v, 64); err != nil || !(q >= 0 && q <= 1) {
				continue
			}
		}
		switch kind {
		case typeJSON:
			asJSON = max(asJSON, q)
		case "text/plain", "text/*", "application/openmetrics-text":
			asText = max(asText, q)
		}
	}
	return asJSON > asText
}
