package js

import (
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

type record struct {
	ID    int      `json:"id"`
	Name  string   `json:"name"`
	Score float64  `json:"score"`
	Tags  []string `json:"tags"`
	On    bool     `json:"on"`
}

// records are 22,000 objects, about 2 MB of JSON.
func records() []record {
	all := make([]record, 22_000)
	for i := range all {
		all[i] = record{i, fmt.Sprint("a name of some length ", i), float64(i) / 3, []string{"red", "green"}, i%2 == 0}
	}
	return all
}

func BenchmarkRecords(b *testing.B) {
	all := records()
	encoded, err := encodeValue("v", all, wire.Budget{})
	if err != nil {
		b.Fatal(err)
	}
	v, err := decodeValue("v", encoded, wire.Budget{})
	if err != nil {
		b.Fatal(err)
	}
	plain := v.Any()
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(encoded)))
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("tree of structs", func() error { _, err := encodeTree("v", all, wire.Budget{}); return err })
	run("wire of structs", func() error { _, err := encodeValue("v", all, wire.Budget{}); return err })
	run("wire of maps", func() error { _, err := encodeValue("v", plain, wire.Budget{}); return err })
	run("value of wire", func() error { _, err := decodeValue("v", encoded, wire.Budget{}); return err })
	run("Any", func() error { v.Any(); return nil })
	run("Decode", func() error { var out []record; return v.Decode(&out) })
	run("MarshalJSON", func() error { _, err := v.MarshalJSON(); return err })
}
