// Package headers reads system call numbers out of the kernel's headers, as
// Debian's package linux-libc-dev has them, and compares them with the tables
// of package seccomp. The command in refresh does so by hand, a test of this
// package with whatever headers are installed.
package headers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tables are the names of the tables, each also the name of a file NAME.tsv.
var Tables = []string{"x86_64", "aarch64", "i386", "x32"}

// files are where the headers of a table may be below the include folder. The
// generic header, which aarch64 used until Linux 6.11, is read as aarch64
// reads it.
var files = map[string][]string{
	"x86_64":  {"x86_64-linux-gnu/asm/unistd_64.h", "asm/unistd_64.h"},
	"aarch64": {"aarch64-linux-gnu/asm/unistd_64.h", "asm-generic/unistd.h"},
	"i386":    {"x86_64-linux-gnu/asm/unistd_32.h", "i386-linux-gnu/asm/unistd_32.h", "asm/unistd_32.h"},
	"x32":     {"x86_64-linux-gnu/asm/unistd_x32.h", "asm/unistd_x32.h"},
}

// firstX32 is the first number that only x32 has; below, its numbers are those
// of x86_64.
const firstX32 = 512

// Read returns the numbers of a table from the headers below a folder such as
// /usr/include, and the header's name there. The error wraps fs.ErrNotExist if
// there is no such header.
func Read(include, table string) (numbers map[string]int, file string, err error) {
	for _, file := range files[table] {
		raw, err := os.ReadFile(filepath.Join(include, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		numbers, err := parse(string(raw))
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", file, err)
		}
		if table == "x32" {
			maps.DeleteFunc(numbers, func(_ string, n int) bool { return n < firstX32 })
		}
		if len(numbers) < 30 {
			return nil, "", fmt.Errorf("%s: only %d numbers", file, len(numbers))
		}
		return numbers, file, nil
	}
	return nil, "", fmt.Errorf("no header of %s below %s: %w", table, include, fs.ErrNotExist)
}

var define = regexp.MustCompile(`^#\s*define\s+__NR(\w*?)_(\w+)\s+\(?(?:__X32_SYSCALL_BIT \+ )?(\w+)\)?\s*(?:/\*.*)?$`)

// parse reads the definitions of a header whose conditions hold for a 64-bit
// machine of today.
func parse(text string) (map[string]int, error) {
	numbers, aliases := map[string]int{}, map[string]int{}
	var conds conditions
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		live, err := conds.line(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		m := define.FindStringSubmatch(line)
		if !live || m == nil {
			continue
		}
		n, err := strconv.Atoi(m[3])
		switch {
		case m[1] == "3264" && err == nil:
			aliases["__NR3264_"+m[2]] = n
		case m[1] != "":
		case err == nil && m[2] != "syscalls" && m[2] != "arch_specific_syscall":
			numbers[m[2]] = n
		case err != nil:
			if n, ok := aliases[m[3]]; ok {
				numbers[m[2]] = n
			}
		}
	}
	if len(conds) != 0 {
		return nil, errors.New("an #if has no end")
	}
	return numbers, nil
}

// conditions are the open #if of a header, innermost last: whether each holds.
type conditions []bool

// line looks at one line and says whether what follows counts.
func (c *conditions) line(line string) (bool, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), " ")
	switch {
	case !strings.HasPrefix(line, "#"):
	case word == "if":
		*c = append(*c, holds(rest))
	case word == "ifdef":
		*c = append(*c, holds("defined("+strings.Fields(rest)[0]+")"))
	case word == "ifndef":
		*c = append(*c, holds("!defined("+strings.Fields(rest)[0]+")"))
	case word == "else" || strings.HasPrefix(word, "endif"):
		if len(*c) == 0 {
			return false, fmt.Errorf("#%s without #if", word)
		}
		if word == "else" {
			(*c)[len(*c)-1] = !(*c)[len(*c)-1]
		} else {
			*c = (*c)[:len(*c)-1]
		}
	}
	return !slices.Contains(*c, false), nil
}

// wanted are the macros of arm64's own unistd.h, as it was when it included
// the generic one.
var wanted = []string{"__ARCH_WANT_RENAMEAT", "__ARCH_WANT_NEW_STAT", "__ARCH_WANT_SET_GET_RLIMIT",
	"__ARCH_WANT_TIME32_SYSCALLS", "__ARCH_WANT_SYS_CLONE3", "__ARCH_WANT_MEMFD_SECRET"}

// holds evaluates the few forms of conditions that these headers have.
func holds(expr string) bool {
	for _, either := range strings.Split(expr, "||") {
		all := true
		for _, atom := range strings.Split(either, "&&") {
			atom = strings.TrimSpace(atom)
			name, negated := strings.CutPrefix(atom, "!")
			name, isDefined := strings.CutPrefix(name, "defined(")
			switch {
			case isDefined:
				name, _, _ = strings.Cut(name, ")")
				all = all && slices.Contains(wanted, name) != negated
			default:
				all = all && (atom == "__BITS_PER_LONG == 64" || atom == "__BITS_PER_LONG != 32")
			}
		}
		if all {
			return true
		}
	}
	return false
}

// ParseTable reads a table: its remarks aside, a name, a tab and a number on
// each line.
func ParseTable(text string) (map[string]int, error) {
	numbers := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		name, number, _ := strings.Cut(line, "\t")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		numbers[name] = n
	}
	return numbers, nil
}

// Diff is how headers differ from a table, each entry "NAME NUMBER".
type Diff struct {
	New     []string // in the headers alone: a row of the policy is missing too
	Changed []string // another number: an error in one of the two
	Older   []string // in the table alone: what newer kernels have, or headers no longer name
}

// Compare holds a table against headers.
func Compare(table, header map[string]int) Diff {
	var d Diff
	for _, name := range byNumber(header) {
		n, ok := table[name]
		switch {
		case !ok:
			d.New = append(d.New, fmt.Sprint(name, " ", header[name]))
		case n != header[name]:
			d.Changed = append(d.Changed, fmt.Sprint(name, " ", n, ", in the headers ", header[name]))
		}
	}
	for _, name := range byNumber(table) {
		if _, ok := header[name]; !ok {
			d.Older = append(d.Older, fmt.Sprint(name, " ", table[name]))
		}
	}
	return d
}

func byNumber(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[a], m[b]), cmp.Compare(a, b)) })
}

// Format writes a table anew. Names that the headers lack are kept: a number
// once given is never given again.
func Format(name, origin string, table, header map[string]int) string {
	all := maps.Clone(table)
	maps.Copy(all, header)
	var b strings.Builder
	fmt.Fprintf(&b, "# System call numbers of %s (facts only): name, tab, number.\n# Origin: %s.\n", name, origin)
	if name == "x32" {
		b.WriteString("# Only what x32 alone has, without bit 30: 512 to 547, closed for ever. Below, its numbers are those of x86_64.\n")
	}
	if kept := Compare(table, header).Older; len(kept) > 0 {
		fmt.Fprintf(&b, "# Kept from before: %s.\n", strings.Join(kept, ", "))
	}
	for _, call := range byNumber(all) {
		fmt.Fprintf(&b, "%s\t%d\n", call, all[call])
	}
	return b.String()
}
