package seccomp

import (
	"embed"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Arch is one system call ABI. Only X86_64 and Aarch64 can be compiled for; I386 and X32 exist so that
// a refused call of theirs can be named.
type Arch int

// The ABIs whose tables are embedded.
const (
	X86_64 Arch = iota
	Aarch64
	I386
	X32
)

// Values of seccomp_data.arch (linux/audit.h): ELF machine, 64-bit flag, little-endian flag.
const (
	auditX86_64  = 0xc000003e
	auditI386    = 0x40000003
	auditAarch64 = 0xc00000b7
	auditARM     = 0x40000028
)

// x32Bit marks an x32 call in a number that otherwise claims to be x86_64.
const x32Bit = 0x40000000

//go:embed tables/*.tsv
var tableFiles embed.FS

// Host is the ABI of the running program. ok is false where the package has no table for it.
func Host() (a Arch, ok bool) {
	switch runtime.GOARCH {
	case "amd64":
		return X86_64, true
	case "arm64":
		return Aarch64, true
	}
	return 0, false
}

// String is the name of the table: x86_64, aarch64, i386 or x32.
func (a Arch) String() string {
	switch a {
	case X86_64:
		return "x86_64"
	case Aarch64:
		return "aarch64"
	case I386:
		return "i386"
	case X32:
		return "x32"
	}
	return "arch" + strconv.Itoa(int(a))
}

// audit is the seccomp_data.arch value of a call by this ABI.
func (a Arch) audit() uint32 {
	switch a {
	case Aarch64:
		return auditAarch64
	case I386:
		return auditI386
	default:
		return auditX86_64
	}
}

// table holds one ABI's numbers both ways round.
type table struct {
	number map[string]int
	name   map[int]string
	text   string
}

var tables = sync.OnceValues(func() (map[Arch]*table, error) {
	all := make(map[Arch]*table, 4)
	for _, a := range []Arch{X86_64, Aarch64, I386, X32} {
		t, err := readTable("tables/" + a.String() + ".tsv")
		if err != nil {
			return nil, err
		}
		all[a] = t
	}
	return all, nil
})

func readTable(file string) (*table, error) {
	raw, err := tableFiles.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	t := &table{number: map[string]int{}, name: map[int]string{}, text: string(raw)}
	for i, line := range strings.Split(t.text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		name, num, found := strings.Cut(line, "\t")
		n, err := strconv.Atoi(num)
		if !found || err != nil {
			return nil, fmt.Errorf("seccomp: %s:%d: want name, tab, number", file, i+1)
		}
		if _, double := t.number[name]; double || t.name[n] != "" {
			return nil, fmt.Errorf("seccomp: %s:%d: %s or %d occurs twice", file, i+1, name, n)
		}
		t.number[name], t.name[n] = n, name
	}
	return t, nil
}

// lookup is nil for an unknown ABI or when the embedded tables do not parse, which Load reports.
func lookup(a Arch) *table {
	all, err := tables()
	if err != nil {
		return nil
	}
	return all[a]
}

// Name is the name of call nr in the ABI's table, "" if the table has none. An x32 number is given
// without bit 30.
func Name(a Arch, nr int) string {
	t := lookup(a)
	if t == nil {
		return ""
	}
	if s := t.name[nr]; s != "" || a != X32 {
		return s
	}
	if nr >= 512 {
		return ""
	}
	// Below 512 x32 shares the numbers of x86_64.
	return Name(X86_64, nr)
}

// Number is the number of the named call in the ABI's table.
func Number(a Arch, name string) (int, bool) {
	t := lookup(a)
	if t == nil {
		return 0, false
	}
	n, ok := t.number[name]
	return n, ok
}

// Describe names a call from the two fields that the kernel reports (seccomp_data.arch and nr): "ptrace"
// for the machine's own ABI, "i386:ptrace", "x32:ptrace" or "arm:26" for a foreign one, and the plain
// number for one that no table has.
func Describe(audit uint32, nr int32) string {
	arch, prefix := X86_64, ""
	switch audit {
	case auditX86_64:
		if nr >= x32Bit {
			arch, prefix, nr = X32, "x32:", nr-x32Bit
		}
	case auditAarch64:
		arch = Aarch64
	case auditI386:
		arch, prefix = I386, "i386:"
	case auditARM:
		return "arm:" + strconv.Itoa(int(nr))
	default:
		return fmt.Sprintf("%#x:%d", audit, nr)
	}
	if s := Name(arch, int(nr)); s != "" {
		return prefix + s
	}
	return prefix + strconv.Itoa(int(nr))
}
