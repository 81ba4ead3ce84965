package jsc

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// Mapping is one line of /proc/self/maps.
type Mapping struct {
	Range string // first and last address, in hexadecimal
	Perms string // such as r-xp
	Path  string // of a file, a name in brackets, or empty for anonymous memory
}

// Mappings reads what is mapped into the process.
func Mappings() ([]Mapping, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Mapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// The name is what follows the fifth field, blanks and all.
		rest, fields := lines.Text(), make([]string, 5)
		for i := range fields {
			fields[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		all = append(all, Mapping{Range: fields[0], Perms: fields[1], Path: strings.TrimLeft(rest, " ")})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("maps: %w", err)
	}
	return all, nil
}

// Generated returns the mappings that code can be generated into or was: those
// executable and of no file, and those writable and executable. The kernel's
// own ([vdso], [vsyscall]) are not among them. In the interpreter's mode there
// is none.
func Generated() ([]Mapping, error) {
	all, err := Mappings()
	if err != nil {
		return nil, err
	}
	var found []Mapping
	for _, m := range all {
		kernel := m.Path == "[vdso]" || m.Path == "[vsyscall]"
		file := strings.HasPrefix(m.Path, "/") && !strings.HasSuffix(m.Path, " (deleted)") && !strings.HasPrefix(m.Path, "/memfd:")
		if strings.Contains(m.Perms, "x") && !kernel && (!file || strings.Contains(m.Perms, "w")) {
			found = append(found, m)
		}
	}
	return found, nil
}
