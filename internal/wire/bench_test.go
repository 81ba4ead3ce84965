package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// records is a structured value of 22,000 objects that is 2 MB as JSON.
func records() []any {
	var all []any
	for i := range 22_000 {
		all = append(all, &wire.Object{
			Keys:   []string{"id", "name", "score", "active", "tag"},
			Values: []any{float64(i), fmt.Sprintf("record number %d", i), float64(i) / 7, i%2 == 0, "alpha-beta-gamma"},
		})
	}
	return all
}

func BenchmarkEncodeRecords(b *testing.B) {
	v := records()
	var buf []byte
	b.ReportAllocs()
	least(b, func() {
		var err error
		if buf, err = wire.AppendValue(buf[:0], v, wire.Budget{}); err != nil {
			b.Fatal(err)
		}
	})
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeRecords(b *testing.B) {
	v, err := wire.Encode(records(), wire.Budget{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(v)))
	b.ReportAllocs()
	least(b, func() {
		if _, err := wire.Decode(v, wire.Budget{}); err != nil {
			b.Fatal(err)
		}
	})
}

// least also reports the fastest round, which other programs on the machine
// disturb less than the mean.
func least(b *testing.B, f func()) {
	fastest := time.Hour
	for b.Loop() {
		begin := time.Now()
		f()
		fastest = min(fastest, time.Since(begin))
	}
	b.ReportMetric(float64(fastest.Microseconds())/1000, "least-ms")
}
