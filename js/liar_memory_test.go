package js

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
)

// rawValue is a value with this structure, and neither text nor bytes.
func rawValue(words []float64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(words)))
	b = append(b, make([]byte, 12)...)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(w))
	}
	return b
}

// bulk is a value that is larger than a script may be: words, then a pattern of
// words n times, then words; its text is n times as well, Latin-1. One of the
// patterns may be none.
func bulk(first, pattern []float64, n int, last []float64, text string) []script.Part {
	words := len(first) + len(pattern)*n + len(last)
	head := binary.LittleEndian.AppendUint32(nil, uint32(words))
	head = binary.LittleEndian.AppendUint32(head, 0)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(text)*n))
	head = binary.LittleEndian.AppendUint32(head, 0)
	parts := []script.Part{{Bytes: append(binary.AppendUvarint(nil, uint64(16+8*words+len(text)*n)), head...)}, {Bytes: rawValue(first)[16:]}}
	if len(pattern) > 0 {
		parts = append(parts, script.Part{Bytes: rawValue(pattern)[16:], Times: n})
	}
	parts = append(parts, script.Part{Bytes: rawValue(last)[16:]})
	if text != "" {
		parts = append(parts, script.Part{Bytes: []byte(text), Times: n})
	}
	return parts
}

// heapPeak is the most memory that the heap had in use while f ran, beyond what it
// had before.
func heapPeak(f func()) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	end := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	})
	f()
	close(end)
	look.Wait()
	return int64(peak - before)
}
