package admission

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// BenchmarkAdmit is a run that is admitted and ends: without quotas, with them for
// clients of a network each, and for one that has used its quota up.
func BenchmarkAdmit(b *testing.B) {
	for name, o := range map[string]Options{"plain": {}, "quotas": {Quotas: true}, "refused": {Quotas: true}} {
		b.Run(name, func(b *testing.B) {
			a := open(b, o)
			n := 0
			for b.Loop() {
				n++
				c := a.anonymous(peerOf(fmt.Sprintf("[2001:db8:%x::1]:1", n&0xffff)))
				if name == "refused" {
					c = a.anonymous(peerOf("192.0.2.1:1"))
				}
				p, err := a.Admit(b.Context(), c, Request{ID: credential.Run.New(), SourceHash: "aa", Bytes: 100})
				if err == nil {
					p.Accepted()
					a.Done(p.r.ID)
				}
			}
		})
	}
}

// BenchmarkIdentify is a request with a key.
func BenchmarkIdentify(b *testing.B) {
	a := open(b, Options{})
	made, err := a.CreateKey(b.Context(), a.anonymous(peerOf("192.0.2.1:1")))
	must(b, err)
	r := request("192.0.2.1:1", "Authorization", "Bearer "+made.Key)
	for b.Loop() {
		_, err := a.Identify(r)
		must(b, err)
	}
}

// BenchmarkOpen says how much heap an idle one takes beside its queue.
func BenchmarkOpen(b *testing.B) {
	q := newQueue(b, queue.Options{})
	before := heap()
	for b.Loop() {
		a := open(b, Options{Queue: q})
		b.ReportMetric(float64(heap()-before)/1024, "KiB")
		runtime.KeepAlive(a)
	}
}
