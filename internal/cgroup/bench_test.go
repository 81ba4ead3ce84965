//go:build linux

package cgroup

import "testing"

// benchParent opens this machine's groups for a benchmark.
func benchParent(b *testing.B) *Parent {
	h, err := Find()
	if err != nil {
		b.Fatal(err)
	}
	p, err := h.Open()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p
}

// timed measures one step of a group's life; the others are made with the clock stopped.
func timed(b *testing.B, step int) {
	p := benchParent(b)
	for b.Loop() {
		var g *Group
		var err error
		for i, f := range []func() error{
			func() error { g, err = p.NewGroup(); return err },
			func() error { return g.SetLimits(roomy) },
			func() error { _, err := g.EntryFiles(); return err },
			func() error { return g.CheckLimits(roomy) },
			func() error { return g.Remove() },
		} {
			if i != step {
				b.StopTimer()
			}
			err := f()
			if i != step {
				b.StartTimer()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkNewGroup(b *testing.B)    { timed(b, 0) }
func BenchmarkSetLimits(b *testing.B)   { timed(b, 1) }
func BenchmarkEntryFiles(b *testing.B)  { timed(b, 2) }
func BenchmarkCheckLimits(b *testing.B) { timed(b, 3) }
func BenchmarkRemove(b *testing.B)      { timed(b, 4) }

func BenchmarkCounters(b *testing.B) {
	g, err := benchParent(b).NewGroup()
	if err != nil {
		b.Fatal(err)
	}
	defer g.Remove()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Counters(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCPUUsec(b *testing.B) {
	g, err := benchParent(b).NewGroup()
	if err != nil {
		b.Fatal(err)
	}
	defer g.Remove()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.CPUUsec(); err != nil {
			b.Fatal(err)
		}
	}
}
