package journal

import (
	"path/filepath"
	"testing"
)

// BenchmarkCall is what one tool call adds to a journal: its start and its
// answer, with 200 bytes each.
func BenchmarkCall(b *testing.B) {
	file := func(b *testing.B, noSync bool) Appender {
		f, err := CreateFile(filepath.Join(b.TempDir(), "j"))
		if err != nil {
			b.Fatal(err)
		}
		f.NoSync = noSync
		b.Cleanup(func() { _ = f.Close() })
		return f
	}
	for name, to := range map[string]func(*testing.B) Appender{
		"memory": func(*testing.B) Appender { return &Memory{} },
		"file":   func(b *testing.B) Appender { return file(b, true) },
		"fsync":  func(b *testing.B) Appender { return file(b, false) },
	} {
		b.Run(name, func(b *testing.B) {
			begin := beginOf(b, settings)
			w, err := Create(to(b), begin)
			if err == nil {
				_, err = w.Append(Record{TypeFeed, &Feed{Feed: 1}, nil})
			}
			value := make([]byte, 200)
			for b.Loop() {
				if err != nil {
					b.Fatal(err)
				}
				call := w.NextCall("tool")
				if _, err = w.Append(Record{TypeStart, call, value}); err != nil {
					b.Fatal(err)
				}
				if w.Size() > MaxBytes-1<<20 || w.state.records > MaxRecords-10 {
					b.StopTimer()
					if w, err = Create(to(b), begin); err == nil {
						_, err = w.Append(Record{TypeFeed, &Feed{Feed: 1}, nil})
					}
					b.StartTimer()
					continue
				}
				_, err = w.Append(Record{TypeAnswer, &Answer{Call: call.Call}, value})
			}
		})
	}
}

// BenchmarkLoad loads a journal of 1,000 events.
func BenchmarkLoad(b *testing.B) {
	m := &Memory{}
	w, err := Create(m, beginOf(b, settings))
	if err == nil {
		_, err = w.Append(Record{TypeFeed, &Feed{Feed: 1}, nil})
	}
	for range 500 {
		if err != nil {
			b.Fatal(err)
		}
		call := w.NextCall("tool")
		if _, err = w.Append(Record{TypeStart, call, make([]byte, 200)}); err == nil {
			_, err = w.Append(Record{TypeAnswer, &Answer{Call: call.Call}, make([]byte, 200)})
		}
	}
	o := optionsOf(b, settings)
	for b.Loop() {
		if _, err := Load(m.Bytes, o); err != nil {
			b.Fatal(err)
		}
	}
}
