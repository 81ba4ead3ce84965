package telemetry

import (
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	prefix = "glovebox_"
	// other stands for every value that a label does not have.
	other = "other"
	// maxValues is how many values a label has at most.
	maxValues = 256
)

// labelSet is a label with all the values that it will ever have.
type labelSet struct {
	name string
	has  map[string]bool
	list []string
}

func closed(name string, values ...string) labelSet {
	l := labelSet{name: name, has: map[string]bool{other: true}, list: []string{other}}
	for _, v := range values {
		if len(l.list) <= maxValues && v != "" && len(v) <= 128 && v == plain(v) && !l.has[v] {
			l.has[v], l.list = true, append(l.list, v)
		}
	}
	return l
}

func (l labelSet) values() []string { return l.list }

// of is the value that stands for v.
func (l labelSet) of(v string) string {
	if l.has[v] {
		return v
	}
	return other
}

// plain is what of a text may be a label's value.
func plain(s string) string {
	if !utf8.ValidString(s) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

// counters is a family of counters with all its series.
type counters struct {
	vec    *prometheus.CounterVec
	labels []labelSet
}

func (m *Metrics) counters(name, help string, labels ...labelSet) *counters {
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.name
	}
	c := &counters{prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, names), labels}
	m.registry.MustRegister(c.vec)
	c.fill(nil)
	return c
}

// fill makes the series that begin with these values.
func (c *counters) fill(values []string) {
	if len(values) == len(c.labels) {
		c.vec.WithLabelValues(values...)
		return
	}
	for _, v := range c.labels[len(values)].values() {
		c.fill(append(values[:len(values):len(values)], v))
	}
}

// add adds n >= 0 to the series that stands for these values.
func (c *counters) add(n float64, values ...string) {
	for i := range values {
		values[i] = c.labels[i].of(values[i])
	}
	c.vec.WithLabelValues(values...).Add(n)
}
