//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits is what one cell may use.
type Limits struct {
	// MemoryBytes bounds memory, swap included. Bytes; rounded down to whole pages;
	// at least one page.
	MemoryBytes int64
	// Tasks bounds processes and threads, init's own included; on v1 also the
	// launcher's thread while it is in the group. At least 1.
	Tasks int64
	// CPUPercent bounds the rate of CPU use: 100 is one core, 250 two and a half.
	// 0 is no bound.
	CPUPercent int64
}

// ErrLimits is wrapped by the errors for limits that make no sense.
var ErrLimits = errors.New("cgroup: limits out of range")

// The CPU period, in microseconds. A short one spreads a share evenly, so that a cell
// at its bound stops for milliseconds at a time and not for the better part of
// 100 ms; quotas below the kernel's minimum of 1 ms need the long one.
const (
	shortPeriod = 20_000
	longPeriod  = 100_000
	minQuota    = 1_000
)

// check refuses what the kernel would misread.
func (l Limits) check() error {
	switch {
	case l.MemoryBytes < int64(os.Getpagesize()):
		return fmt.Errorf("%w: memory %d bytes", ErrLimits, l.MemoryBytes)
	case l.Tasks < 1 || l.Tasks > math.MaxInt32:
		return fmt.Errorf("%w: %d tasks", ErrLimits, l.Tasks)
	case l.CPUPercent < 0 || l.CPUPercent > 1_000_000:
		return fmt.Errorf("%w: %d %% of CPU", ErrLimits, l.CPUPercent)
	}
	return nil
}

// pages is the memory limit as the kernel keeps it.
func (l Limits) pages() string {
	page := int64(os.Getpagesize())
	return strconv.FormatInt(l.MemoryBytes/page*page, 10)
}

// quota gives the CPU quota and period in microseconds.
func (l Limits) quota() (quota, period int64) {
	period = shortPeriod
	if l.CPUPercent*shortPeriod/100 < minQuota {
		period = longPeriod
	}
	return l.CPUPercent * period / 100, period
}

// setting is one control file with the value it must have; readback is set where the
// kernel spells it differently.
type setting struct {
	controller string
	file       string
	value      string
	readback   string
	optional   bool // a kernel without the file is accepted
}

// want is what the file must read as.
func (s setting) want() string {
	if s.readback != "" {
		return s.readback
	}
	return s.value
}

// settingsV2 lists the files of the unified tree, in the order of writing.
func settingsV2(l Limits, cpu bool) []setting {
	out := []setting{
		{controller: "memory", file: "memory.swap.max", value: "0", optional: true},
		{controller: "memory", file: "memory.zswap.max", value: "0", optional: true},
		{controller: "memory", file: "memory.oom.group", value: "1"},
		{controller: "memory", file: "memory.max", value: l.pages()},
		{controller: "pids", file: "pids.max", value: strconv.FormatInt(l.Tasks, 10)},
	}
	if cpu {
		q, period := l.quota()
		value := fmt.Sprintf("%d %d", q, period)
		if l.CPUPercent == 0 {
			value = fmt.Sprintf("max %d", longPeriod)
		}
		out = append(out, setting{controller: "cpu", file: "cpu.max", value: value})
	}
	return out
}

// settingsV1 lists the files of v1, without those of memory's order (see setMemoryV1).
func settingsV1(l Limits, cpu, inherited bool) []setting {
	out := []setting{{controller: "pids", file: "pids.max", value: strconv.FormatInt(l.Tasks, 10)}}
	if !cpu {
		return out
	}
	q, period := l.quota()
	if l.CPUPercent == 0 || inherited {
		return append(out, setting{controller: "cpu", file: "cpu.cfs_quota_us", value: "-1"})
	}
	return append(out,
		setting{controller: "cpu", file: "cpu.cfs_period_us", value: strconv.FormatInt(period, 10)},
		setting{controller: "cpu", file: "cpu.cfs_quota_us", value: strconv.FormatInt(q, 10)})
}

// memoryV1 lists the memory files of v1.
func memoryV1(l Limits) (limit, memsw setting) {
	return setting{controller: "memory", file: "memory.limit_in_bytes", value: l.pages()},
		setting{controller: "memory", file: "memory.memsw.limit_in_bytes", value: l.pages(), optional: true}
}

// SetLimits writes all limits. It is meant to be called before the first member is
// in; lowering the memory of a running cell ends in its OOM kill (v2) or in EBUSY
// (v1). An error leaves the group with a part of the limits: remove it.
func (g *Group) SetLimits(l Limits) error {
	if err := l.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return ErrRemoved
	}
	cpu := g.find("cpu") != nil
	if !cpu && l.CPUPercent > 0 {
		return fmt.Errorf("%w: the cpu controller is missing", ErrLimits)
	}
	if g.parent.host.unified() {
		return g.write(settingsV2(l, cpu))
	}
	if err := g.setMemoryV1(l); err != nil {
		return err
	}
	g.inherited = false
	err := g.write(settingsV1(l, cpu, false))
	if errors.Is(err, unix.EINVAL) && l.CPUPercent > 0 && g.ancestorTighter(l) {
		g.inherited = true
		err = g.write(settingsV1(l, cpu, true))
	}
	return err
}

// setMemoryV1 writes memory and memory+swap. The kernel keeps memory <= memsw at
// every moment, so the order depends on the direction: down, memory first; up, memsw
// first.
func (g *Group) setMemoryV1(l Limits) error {
	limit, memsw := memoryV1(l)
	err := g.write([]setting{limit, memsw})
	if errors.Is(err, unix.EINVAL) {
		err = g.write([]setting{memsw, limit})
	}
	return err
}

// ancestorTighter tells whether a group above bounds the CPU at least as much. A v1
// kernel then refuses the wider quota below it (EINVAL), and none is needed.
func (g *Group) ancestorTighter(l Limits) bool {
	pt := g.find("cpu")
	dir := filepath.Dir(pt.dir)
	for range maxDepth {
		q, errQ := readNumber(filepath.Join(dir, "cpu.cfs_quota_us"))
		p, errP := readNumber(filepath.Join(dir, "cpu.cfs_period_us"))
		if errQ != nil || errP != nil {
			return false
		}
		if q > 0 && p > 0 && q*100 <= l.CPUPercent*p {
			return true
		}
		dir = filepath.Dir(dir)
	}
	return false
}

// readNumber reads a control file that holds one number.
func readNumber(path string) (int64, error) {
	text, err := readFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
}

// SetTasks changes the bound on tasks alone, at any time. A bound below the present
// number stops further forks and harms nobody.
func (g *Group) SetTasks(n int64) error {
	if n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("%w: %d tasks", ErrLimits, n)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return ErrRemoved
	}
	return g.write([]setting{{controller: "pids", file: "pids.max", value: strconv.FormatInt(n, 10)}})
}

// CheckLimits reads the files again and fails on any difference from the limits, for
// use at hand-over of a cell that has been waiting.
func (g *Group) CheckLimits(l Limits) error {
	if err := l.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return ErrRemoved
	}
	cpu := g.find("cpu") != nil
	if !cpu && l.CPUPercent > 0 {
		return fmt.Errorf("%w: the cpu controller is missing", ErrLimits)
	}
	var list []setting
	if g.parent.host.unified() {
		list = settingsV2(l, cpu)
	} else {
		limit, memsw := memoryV1(l)
		list = append(settingsV1(l, cpu, g.inherited), limit, memsw)
		if g.inherited && !g.ancestorTighter(l) {
			return errors.New("cgroup: the ancestor's CPU quota was lifted")
		}
	}
	for _, s := range list {
		got, err := readAt(g.find(s.controller).fd, s.file)
		if s.optional && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cgroup: check: %w", err)
		}
		if got = strings.TrimSuffix(got, "\n"); got != s.want() {
			return fmt.Errorf("cgroup: check: %s is %q, not %q", s.file, got, s.want())
		}
	}
	return nil
}

// write writes the settings in order. The caller holds the lock.
func (g *Group) write(list []setting) error {
	for _, s := range list {
		err := writeAt(g.find(s.controller).fd, s.file, s.value)
		if s.optional && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cgroup: limits: %w", err)
		}
	}
	return nil
}

// find gives the part that carries the controller, or nil.
func (g *Group) find(controller string) *part {
	for i := range g.parts {
		if g.parts[i].tree.has(controller) {
			return &g.parts[i]
		}
	}
	return nil
}
