package js

import (
	"fmt"
	"runtime"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Limits bound one runtime and each of its evaluations. Zero is the default of
// a field; what is below its floor or above its ceiling is refused by name,
// nothing is clamped. Times in ms are of the guest alone: while a function of
// the host runs, HostWaitMS counts instead.
type Limits struct {
	// TimeoutMS ends an evaluation with an error that the guest cannot catch; the
	// runtime survives it. Default 5,000.
	// The engine looks after each quarter of it, or 250 ms if that is more, of processor
	// time: on a machine that gives the worker little of it HardMS may come first.
	TimeoutMS int64 `json:"timeout_ms"`
	// HardMS is when the worker is killed: what does not stop at TimeoutMS, such as
	// a function of the engine that never looks. While a function of the host
	// runs, only the worker's processor time counts, looked at ten times a second.
	// Default 1,000 more than TimeoutMS.
	HardMS int64 `json:"hard_ms"`
	// CPUMS is processor time of one evaluation, all threads. Default twice HardMS.
	CPUMS int64 `json:"cpu_ms"`
	// MemoryBytes is everything the kernel charges to the worker. Default 256 MiB.
	MemoryBytes int64 `json:"memory_bytes"`
	// BufferBytes are the bytes of all ArrayBuffers and typed arrays that live at one
	// time, and 256 more for each: one too many is a RangeError that the guest can
	// catch. The rest of its memory is bounded by MemoryBytes alone. Default a quarter
	// of MemoryBytes.
	BufferBytes int64 `json:"buffer_bytes"`
	// Threads of the worker, the engine's own among them. Default 32.
	Threads int64 `json:"threads"`
	// HostCalls are calls of functions of the host in the life of a runtime.
	// Default 1,000,000.
	HostCalls int64 `json:"host_calls"`
	// InFlight are calls without an answer at one time. Default 256.
	InFlight int64 `json:"in_flight"`
	// HostWaitMS is how long one evaluation may wait for functions of the host, all
	// together. Default 60,000.
	HostWaitMS int64 `json:"host_wait_ms"`
	// ConsoleBytes is console text of one evaluation; the rest is cut. Default 1 MiB.
	ConsoleBytes int64 `json:"console_bytes"`
	// ResultBytes is an encoded result; ArgumentBytes the encoded arguments of one
	// call, and of all that have no answer at one time. Default 16 MiB less 4 KiB, which is what a frame holds.
	ResultBytes   int64 `json:"result_bytes"`
	ArgumentBytes int64 `json:"argument_bytes"`
	// Nodes and Depth are of one value that crosses. Default 1,000,000 and 128.
	Nodes int64 `json:"nodes"`
	Depth int64 `json:"depth"`
	// HostBytes is what values of the runtime may take of this program's memory at
	// one time: the arguments of calls that have no answer, answers that the worker
	// has not read, and a result while it is made. What it does not leave room for is
	// refused: a call throws, a result is [ResultLimit]. What functions make of their
	// arguments is theirs. Default 128 MiB, which any one value fits.
	HostBytes int64 `json:"host_bytes"`
	// WriteStallMS is how long the worker may leave what it is sent unread while it
	// owes nothing else. Default 5,000.
	WriteStallMS int64 `json:"write_stall_ms"`
}

// bound is one field with its place in the table.
type bound struct {
	name           string
	value          *int64
	def            func(*Limits) int64
	floor, ceiling int64
}

func fixed(n int64) func(*Limits) int64 { return func(*Limits) int64 { return n } }

const hour = 3_600_000

func (l *Limits) table() []bound {
	return []bound{
		{"timeout_ms", &l.TimeoutMS, fixed(5_000), 1, hour},
		{"hard_ms", &l.HardMS, func(l *Limits) int64 { return l.TimeoutMS + 1_000 }, 10, 2 * hour},
		{"cpu_ms", &l.CPUMS, func(l *Limits) int64 { return 2 * l.HardMS }, 10, 4 * hour},
		{"memory_bytes", &l.MemoryBytes, fixed(256 << 20), 48 << 20, 64 << 30},
		{"buffer_bytes", &l.BufferBytes, func(l *Limits) int64 { return l.MemoryBytes / 4 }, 64 << 10, 64 << 30},
		{"threads", &l.Threads, fixed(32), 16, 256},
		{"host_calls", &l.HostCalls, fixed(1_000_000), 1, 1 << 40},
		{"in_flight", &l.InFlight, fixed(256), 1, 1 << 16},
		{"host_wait_ms", &l.HostWaitMS, fixed(60_000), 1, 24 * hour},
		{"console_bytes", &l.ConsoleBytes, fixed(1 << 20), 1, 64 << 20},
		{"result_bytes", &l.ResultBytes, fixed(wire.MaxValue), 64, wire.MaxValue},
		{"argument_bytes", &l.ArgumentBytes, fixed(wire.MaxValue), 64, wire.MaxValue},
		{"nodes", &l.Nodes, fixed(1_000_000), 1, 1_000_000},
		{"depth", &l.Depth, fixed(128), 1, 128},
		{"host_bytes", &l.HostBytes, fixed(128 << 20), 1 << 10, 64 << 30},
		{"write_stall_ms", &l.WriteStallMS, fixed(5_000), 10, hour},
	}
}

// Bounds are the smallest and the largest values of the limits, for a front end
// that says so before it has a runtime.
func Bounds() (floor, ceiling Limits) {
	lo, hi := floor.table(), ceiling.table()
	for i, b := range lo {
		*b.value, *hi[i].value = b.floor, b.ceiling
	}
	return floor, ceiling
}

// resolve fills in defaults and refuses what is out of bounds. The error is a
// *api.FieldError.
func (l Limits) resolve() (Limits, error) {
	for _, b := range l.table() {
		if *b.value == 0 {
			*b.value = min(b.def(&l), b.ceiling)
		}
		if *b.value < b.floor || *b.value > b.ceiling {
			return l, &api.FieldError{Field: "limits." + b.name, Value: *b.value,
				Reason: fmt.Sprintf("must be from %d to %d, or 0 for the default", b.floor, b.ceiling)}
		}
	}
	if l.HardMS <= l.TimeoutMS {
		return l, &api.FieldError{Field: "limits.hard_ms", Value: l.HardMS, Reason: fmt.Sprintf("must be above timeout_ms, which is %d", l.TimeoutMS)}
	}
	return l, nil
}

// passed is the error of a limit that ended a worker: which one, and its value.
func (l *Limits) passed(k Kind) *Error {
	switch k {
	case CPULimit:
		return failed(k, "it took more processor time than cpu_ms, %d ms", l.CPUMS)
	case MemoryLimit:
		return failed(k, "the worker needed more memory than memory_bytes, %d bytes", l.MemoryBytes)
	case HostWait:
		return failed(k, "functions of the host took longer than host_wait_ms, %d ms, and the worker was killed", l.HostWaitMS)
	case CallLimit:
		return failed(k, "it called functions of the host more often than host_calls, %d times", l.HostCalls)
	case WriteStall:
		return failed(k, "the worker did not read what it was sent for longer than write_stall_ms, %d ms", l.WriteStallMS)
	}
	return failed(HardTimeout, "it took longer than hard_ms, %d ms, and the worker was killed", l.HardMS)
}

// within are the limits of an evaluation with a shorter time, 0 for the usual one.
func (l Limits) within(timeout int64) Limits {
	if timeout == 0 || timeout >= l.TimeoutMS {
		return l
	}
	l.HardMS -= l.TimeoutMS - timeout
	l.TimeoutMS, l.CPUMS = timeout, min(l.CPUMS, 2*l.HardMS)
	return l
}

// cell are the limits of the worker's cell. Its time is bounded by evaluation,
// not here: a worker is idle most of its life.
func (l *Limits) cell() api.Limits {
	return api.Limits{
		WallMS: lifetime, CPUMS: lifetime, CPUPercent: 100 * int64(runtime.NumCPU()), MemoryBytes: l.MemoryBytes, Pids: l.Threads,
		StdoutBytes: noticeBytes, StderrBytes: noticeBytes, FileBytes: 0, OpenFiles: 64, DiskBytes: 64 << 10, DiskFiles: 16,
	}
}

// lifetime of a worker in ms, and what is kept of its notices: the engine and
// the C library write to descriptors 1 and 2, a guest cannot.
const (
	lifetime    = hour
	noticeBytes = 64 << 10
)

// wire are the limits that the worker is told of.
func (l *Limits) wire() wire.Limits {
	return wire.Limits{
		Nodes: uint64(l.Nodes), Depth: uint64(l.Depth), Elements: 1 << 20, ResultBytes: uint64(l.ResultBytes), ArgumentBytes: uint64(l.ArgumentBytes),
		ConsoleBytes: uint64(l.ConsoleBytes), BufferBytes: uint64(l.BufferBytes), HostCalls: uint64(l.HostCalls), InFlight: uint64(l.InFlight),
	}
}

// budget bounds a value that comes from the worker, or goes there.
func (l *Limits) budget() wire.Budget { return wire.Budget{Nodes: int(l.Nodes), Depth: int(l.Depth)} }
