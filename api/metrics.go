package api

// Metrics is the answer to GET /metrics for those who ask for JSON. The families and
// their labels are those of the text form, listed in docs/metrics.md.
type Metrics struct {
	APIVersion string `json:"api_version" for:"library"`
	// Families are by name, "glovebox_runs_accepted_total" for example.
	Families map[string]MetricFamily `json:"families" for:"library"`
}

// MetricFamily is one name: what it counts, and the samples.
type MetricFamily struct {
	// Type is "counter", "gauge", "histogram" or "summary".
	Type    string         `json:"type" for:"library"`
	Help    string         `json:"help" for:"library"`
	Samples []MetricSample `json:"samples" for:"library"`
}

// MetricSample is what a family has for one set of labels. A counter or gauge has a
// Value; a histogram or summary has Count and Sum.
type MetricSample struct {
	Labels map[string]string `json:"labels,omitempty" for:"library"`
	Value  *float64          `json:"value,omitempty" for:"library"`
	Count  *uint64           `json:"count,omitempty" for:"library"`
	Sum    *float64          `json:"sum,omitempty" for:"library"`
	// Buckets are those of a histogram, growing; what is beyond the last is in Count
	// alone.
	Buckets []MetricBucket `json:"buckets,omitempty" for:"library"`
}

// MetricBucket is how many observations of a histogram were at most LE.
type MetricBucket struct {
	LE    float64 `json:"le" for:"library"`
	Count uint64  `json:"count" for:"library"`
}
