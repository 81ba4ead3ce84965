package api

import "fmt"

// Limits bound a run. Zero means the default, never unlimited. A value below
// the floor or above the ceiling is refused by [Limits.Resolve]; nothing is
// clamped in silence.
type Limits struct {
	WallMS      int64 `json:"wall_ms,omitempty" for:"library,operator,client"`      // ms from the guest's exec to its exit
	CPUMS       int64 `json:"cpu_ms,omitempty" for:"library,operator,client"`       // ms of processor time, all processes
	CPUPercent  int64 `json:"cpu_percent,omitempty" for:"library,operator,client"`  // per cent of one core
	MemoryBytes int64 `json:"memory_bytes,omitempty" for:"library,operator,client"` // everything the kernel charges, tmpfs included
	Pids        int64 `json:"pids,omitempty" for:"library,operator,client"`         // processes and threads of the guest
	StdoutBytes int64 `json:"stdout_bytes,omitempty" for:"library,operator,client"` // bytes kept and streamed
	StderrBytes int64 `json:"stderr_bytes,omitempty" for:"library,operator,client"` // bytes kept and streamed
	FileBytes   int64 `json:"file_bytes,omitempty" for:"library,operator,client"`   // bytes a file
	OpenFiles   int64 `json:"open_files,omitempty" for:"library,operator,client"`   // descriptors a process
	DiskBytes   int64 `json:"disk_bytes,omitempty" for:"library,operator,client"`   // /box, /tmp and /dev/shm together
	DiskFiles   int64 `json:"disk_files,omitempty" for:"library,operator,client"`   // inodes of the same

	// Compile bounds the compiler by the same names; it has none of its own.
	Compile *Limits `json:"compile,omitempty" for:"library,operator,client"`
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// DefaultLimits are the limits of a run whose Program and language say nothing.
func DefaultLimits() Limits {
	return Limits{
		WallMS: 10_000, CPUMS: 10_000, CPUPercent: 100, MemoryBytes: 256 * mib, Pids: 64,
		StdoutBytes: mib, StderrBytes: mib, FileBytes: 64 * mib, OpenFiles: 256,
		DiskBytes: 128 * mib, DiskFiles: 10_000,
	}
}

// DefaultCompileLimits are the limits of a compiler whose Program and language
// say nothing.
func DefaultCompileLimits() Limits {
	l := DefaultLimits()
	l.WallMS, l.CPUMS, l.CPUPercent, l.MemoryBytes, l.Pids = 30_000, 30_000, 200, gib, 128
	return l
}

// MaxLimits are the ceilings of the library on a machine with the given number
// of cores and bytes of memory.
func MaxLimits(cores int, memory int64) Limits {
	return Limits{
		WallMS: 3_600_000, CPUMS: 3_600_000, CPUPercent: 100 * int64(cores), MemoryBytes: memory, Pids: 4096,
		StdoutBytes: 64 * mib, StderrBytes: 64 * mib, FileBytes: 4 * gib, OpenFiles: 65_536,
		DiskBytes: 4 * gib, DiskFiles: 1_000_000,
	}
}

// ServiceMaxLimits are the ceilings of what a client of a service may ask for.
func ServiceMaxLimits(cores int) Limits {
	return Limits{
		WallMS: 60_000, CPUMS: 60_000, CPUPercent: 100 * int64(cores), MemoryBytes: gib, Pids: 256,
		StdoutBytes: 4 * mib, StderrBytes: 4 * mib, FileBytes: 256 * mib, OpenFiles: 1024,
		DiskBytes: 512 * mib, DiskFiles: 100_000,
	}
}

// limitField is one row of the table of limits.
type limitField struct {
	name  string
	floor int64
	of    func(*Limits) *int64
}

var limitFields = []limitField{
	{"wall_ms", 50, func(l *Limits) *int64 { return &l.WallMS }},
	{"cpu_ms", 10, func(l *Limits) *int64 { return &l.CPUMS }},
	{"cpu_percent", 5, func(l *Limits) *int64 { return &l.CPUPercent }},
	{"memory_bytes", 8 * mib, func(l *Limits) *int64 { return &l.MemoryBytes }},
	{"pids", 1, func(l *Limits) *int64 { return &l.Pids }},
	{"stdout_bytes", 0, func(l *Limits) *int64 { return &l.StdoutBytes }},
	{"stderr_bytes", 0, func(l *Limits) *int64 { return &l.StderrBytes }},
	{"file_bytes", 0, func(l *Limits) *int64 { return &l.FileBytes }},
	{"open_files", 16, func(l *Limits) *int64 { return &l.OpenFiles }},
	{"disk_bytes", 64 * kib, func(l *Limits) *int64 { return &l.DiskBytes }},
	{"disk_files", 16, func(l *Limits) *int64 { return &l.DiskFiles }},
}

// MinLimits are the floors of the limits.
func MinLimits() Limits {
	var l Limits
	for _, f := range limitFields {
		*f.of(&l) = f.floor
	}
	return l
}

// Resolve fills the zero fields from def and checks every field against its
// floor and against max, in which every field must be set. The error is a *[FieldError] naming the field as "limits.NAME".
func (l Limits) Resolve(def, max Limits) (Limits, error) {
	return l.resolve("limits.", def, max)
}

// ResolveCompile does the same for the limits of the compiler, which errors name
// as "limits.compile.NAME".
func (l Limits) ResolveCompile(def, max Limits) (Limits, error) {
	if l.Compile == nil {
		return Limits{}.resolve("", def, max)
	}
	if l.Compile.Compile != nil {
		return Limits{}, &FieldError{Field: "limits.compile.compile", Reason: "is not known"}
	}
	return l.Compile.resolve("limits.compile.", def, max)
}

func (l Limits) resolve(prefix string, def, max Limits) (Limits, error) {
	out := l
	out.Compile = nil
	for _, f := range limitFields {
		v := f.of(&out)
		if *v == 0 {
			*v = min(*f.of(&def), *f.of(&max))
		}
		lo, hi := f.floor, *f.of(&max)
		if *v < lo || *v > hi {
			return Limits{}, &FieldError{Field: prefix + f.name, Value: *v,
				Reason: fmt.Sprintf("must be between %d and %d, or 0 for the default", lo, hi)}
		}
	}
	return out, nil
}

// CheckCeilings checks limits that are meant as ceilings: a field that is set
// must not be below the floor. The error is a *[FieldError] naming the field as
// "MaxLimits.NAME".
func (l Limits) CheckCeilings() error {
	for _, f := range limitFields {
		if v := *f.of(&l); v < 0 || v > 0 && v < f.floor {
			return &FieldError{Field: "MaxLimits." + f.name, Value: v, Reason: fmt.Sprintf("must be 0 or at least %d", f.floor)}
		}
	}
	return nil
}

// Lower returns l with every field taken from by that is set there and smaller.
func (l Limits) Lower(by Limits) Limits {
	for _, f := range limitFields {
		if b := *f.of(&by); b > 0 && b < *f.of(&l) {
			*f.of(&l) = b
		}
	}
	return l
}

// Over returns l with its zero fields taken from def.
func (l Limits) Over(def Limits) Limits {
	for _, f := range limitFields {
		if *f.of(&l) == 0 {
			*f.of(&l) = *f.of(&def)
		}
	}
	return l
}
