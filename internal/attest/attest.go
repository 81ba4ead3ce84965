// Package attest proves the confinement of a cell before a guest exists.
//
// It has two halves, one for each witness. Inside, [Run] tries forbidden
// things in the very thread that will exec the guest; each is harmless if it
// should work (bad descriptors, null pointers, signal 0, an unnamed file).
// Outside, [Witness] reads what the kernel says of the sealed threads. [Judge]
// compares the answers with the table: a refusal counts only with the errno of
// the layer it is meant to prove, so that a missing file is no proof.
package attest

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// Probe is one forbidden thing.
type Probe struct {
	Name string
	// Layer is what refuses it.
	Layer string
	// Want are the answers that this layer gives, and no other layer.
	Want []unix.Errno
	try  func() unix.Errno
}

// Names returns the probes whose layer is not in off. With loopback, internet
// sockets are what the cell is for, so that probe is not asked.
func Names(off []string, loopback bool) []string {
	var names []string
	for _, p := range table {
		if !slices.Contains(off, p.Layer) && !(loopback && p.Name == inetSocket) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Run tries the named probes on the calling thread.
func Run(names []string) []cellproto.ProbeResult {
	out := make([]cellproto.ProbeResult, 0, len(names))
	for i := range table {
		if p := &table[i]; slices.Contains(names, p.Name) {
			out = append(out, cellproto.ProbeResult{Name: p.Name, Errno: uint64(p.try())})
		}
	}
	return out
}

// Breach is a probe that was not refused as it must be.
type Breach struct {
	Probe Probe
	Got   unix.Errno
	// Missing says that no answer came.
	Missing bool
}

func (b Breach) Error() string {
	switch {
	case b.Missing:
		return fmt.Sprintf("probe %s (%s) was not answered", b.Probe.Name, b.Probe.Layer)
	case b.Got == 0:
		return fmt.Sprintf("probe %s got through: %s does not hold", b.Probe.Name, b.Probe.Layer)
	}
	return fmt.Sprintf("probe %s was refused with %s, which is not the answer of %s", b.Probe.Name, unix.ErrnoName(b.Got), b.Probe.Layer)
}

// Judge compares what was answered with the table. The names are those that
// were asked for; the result has one entry for each that failed.
func Judge(names []string, results []cellproto.ProbeResult) []Breach {
	var bad []Breach
	for _, p := range table {
		if !slices.Contains(names, p.Name) {
			continue
		}
		i := slices.IndexFunc(results, func(r cellproto.ProbeResult) bool { return r.Name == p.Name })
		switch {
		case i < 0:
			bad = append(bad, Breach{Probe: p, Missing: true})
		case !slices.Contains(p.Want, unix.Errno(results[i].Errno)):
			bad = append(bad, Breach{Probe: p, Got: unix.Errno(results[i].Errno)})
		}
	}
	return bad
}

// Inside summarises the probes of one layer for the evidence.
func Inside(layer string, results []cellproto.ProbeResult) string {
	var said []string
	for _, p := range table {
		if p.Layer != layer {
			continue
		}
		for _, r := range results {
			if r.Name == p.Name {
				said = append(said, p.Name+" "+errnoName(unix.Errno(r.Errno)))
			}
		}
	}
	return strings.Join(said, ", ")
}

func errnoName(e unix.Errno) string {
	if e == 0 {
		return "OK"
	}
	return unix.ErrnoName(e)
}
