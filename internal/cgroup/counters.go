//go:build linux

package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Counters is a reading of a group. Every value counts from the making of the group;
// nil means that this kernel cannot tell.
type Counters struct {
	CPUUsec     *int64 // CPU time of all members, past ones included, in microseconds
	MemoryBytes *int64 // charged now, in bytes; includes file pages and the kernel's own batches
	PeakBytes   *int64 // most ever charged, in bytes (v2: since Linux 5.19)
	OOMKills    *int64 // processes killed because the memory limit was reached
	PidsMaxHits *int64 // forks refused because the task limit was reached
	Tasks       *int64 // processes and threads now
}

// The counters, as indices into Group.counters.
const (
	cntCPU = iota
	cntMemory
	cntPeak
	cntOOM
	cntPidsMax
	cntTasks
	numCounters
)

// States of a counter's descriptor other than open.
const (
	fdUnopened = -1
	fdAbsent   = -2
)

// source says where a counter is: the file, and the key of its line where it has
// several ("" for a bare number).
type source struct {
	controller string
	file       string
	key        string
	divide     int64 // the file's unit in ours; 0 is 1
}

// The sources of both versions, by counter.
var (
	sourcesV1 = [numCounters]source{
		cntCPU:     {controller: "cpuacct", file: "cpuacct.usage", divide: 1000},
		cntMemory:  {controller: "memory", file: "memory.usage_in_bytes"},
		cntPeak:    {controller: "memory", file: "memory.max_usage_in_bytes"},
		cntOOM:     {controller: "memory", file: "memory.oom_control", key: "oom_kill"},
		cntPidsMax: {controller: "pids", file: "pids.events", key: "max"},
		cntTasks:   {controller: "pids", file: "pids.current"},
	}
	sourcesV2 = [numCounters]source{
		// cpu.stat has the time even where the cpu controller is missing.
		cntCPU:     {controller: "memory", file: "cpu.stat", key: "usage_usec"},
		cntMemory:  {controller: "memory", file: "memory.current"},
		cntPeak:    {controller: "memory", file: "memory.peak"},
		cntOOM:     {controller: "memory", file: "memory.events", key: "oom_kill"},
		cntPidsMax: {controller: "pids", file: "pids.events", key: "max"},
		cntTasks:   {controller: "pids", file: "pids.current"},
	}
)

// Counters reads all counters. The files stay open between calls, so that a reading is
// one pread each; it may be called every few milliseconds.
func (g *Group) Counters() (Counters, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var c Counters
	if g.removed {
		return c, ErrRemoved
	}
	dest := [numCounters]**int64{
		cntCPU: &c.CPUUsec, cntMemory: &c.MemoryBytes, cntPeak: &c.PeakBytes,
		cntOOM: &c.OOMKills, cntPidsMax: &c.PidsMaxHits, cntTasks: &c.Tasks,
	}
	values := new([numCounters]int64)
	for i := range dest {
		v, ok, err := g.counter(i)
		if err != nil {
			return Counters{}, err
		}
		if ok {
			values[i] = v
			*dest[i] = &values[i]
		}
	}
	return c, nil
}

// ErrNoCounter is the error of CPUUsec where the kernel cannot tell.
var ErrNoCounter = errors.New("cgroup: no such counter on this host")

// CPUUsec reads the CPU time alone, in microseconds: one pread.
func (g *Group) CPUUsec() (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return 0, ErrRemoved
	}
	v, ok, err := g.counter(cntCPU)
	if err == nil && !ok {
		err = ErrNoCounter
	}
	return v, err
}

// counter reads one counter. It is false where the kernel has none.
func (g *Group) counter(i int) (int64, bool, error) {
	src := &sourcesV1[i]
	if g.parent.host.unified() {
		src = &sourcesV2[i]
	}
	if g.counters[i] == fdUnopened {
		if err := g.openCounter(i, src); err != nil {
			return 0, false, err
		}
	}
	if g.counters[i] == fdAbsent {
		return 0, false, nil
	}
	var buf [1024]byte
	n, err := preadFD(g.counters[i], buf[:])
	if err != nil {
		return 0, false, fmt.Errorf("cgroup: read %s: %w", src.file, err)
	}
	v, ok := field(buf[:n], src.key)
	if src.divide > 1 {
		v /= src.divide
	}
	return v, ok, nil
}

// openCounter opens a counter's file, or notes that there is none.
func (g *Group) openCounter(i int, src *source) error {
	pt := g.find(src.controller)
	if pt == nil {
		g.counters[i] = fdAbsent
		return nil
	}
	fd, err := openAt(pt.fd, src.file, unix.O_RDONLY)
	switch {
	case errors.Is(err, unix.ENOENT):
		g.counters[i] = fdAbsent
	case err != nil:
		return fmt.Errorf("cgroup: open %s: %w", src.file, err)
	default:
		g.counters[i] = fd
	}
	return nil
}

// field finds the number on the line that begins with the key, or the number that
// is all there is if the key is empty. It allocates nothing.
func field(text []byte, key string) (int64, bool) {
	for len(text) > 0 {
		line := text
		for i, c := range text {
			if c == '\n' {
				line = text[:i]
				break
			}
		}
		text = text[min(len(line)+1, len(text)):]
		if key == "" {
			return number(line)
		}
		if len(line) > len(key) && string(line[:len(key)]) == key && line[len(key)] == ' ' {
			return number(line[len(key)+1:])
		}
	}
	return 0, false
}

// number reads a decimal number without a sign. It is false for anything else, also
// for "max" and for what does not fit.
func number(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}
