package jsc

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Mapping is one line of /proc/self/maps.
type Mapping struct {
	Range string // first and last address, in hexadecimal
	Perms string // such as r-xp
	Path  string // of a file, a name in brackets, or empty for anonymous memory
}

// Mappings reads what is mapped into the process.
func Mappings() ([]Mapping, error) {
	text, err := readPlain("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var all []Mapping
	for line := range strings.Lines(text) {
		// The name is what follows the fifth field, blanks and all.
		rest, fields := strings.TrimSuffix(line, "\n"), make([]string, 5)
		for i := range fields {
			fields[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		all = append(all, Mapping{Range: fields[0], Perms: fields[1], Path: strings.TrimLeft(rest, " ")})
	}
	return all, nil
}

// readPlain reads a file of the kernel by plain system calls: an os.File would
// start the runtime's poller, which wants calls that a sealed process may not make.
func readPlain(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	var text strings.Builder
	buf := make([]byte, 64<<10)
	for text.Len() < 16<<20 {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if n == 0 {
			return text.String(), nil
		}
		text.Write(buf[:n])
	}
	return "", fmt.Errorf("%s is too long", path)
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
