package headers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func table(t *testing.T, name string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile("../tables/" + name + ".tsv")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseTable(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Each number in the headers installed here is in the tables, and is the same. The tables may know more: the
// headers are often older.
//
// proves T-09
func TestTablesAreTheInstalledHeaders(t *testing.T) {
	own := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for _, name := range Tables {
		header, file, err := Read("/usr/include", name)
		if errors.Is(err, fs.ErrNotExist) && name != own {
			continue // another machine's headers, which this one need not have
		}
		if err != nil {
			t.Fatalf("%v: is linux-libc-dev installed?", err)
		}
		d := Compare(table(t, name), header)
		if len(d.New)+len(d.Changed) > 0 {
			t.Errorf("%s, %s: missing %q, other %q", name, file, d.New, d.Changed)
		}
		// Control: a number that is off by one, and a call left out, are both found.
		wrong := table(t, name)
		for call := range header {
			wrong[call]++
			break
		}
		for call := range header {
			if wrong[call] == header[call] {
				delete(wrong, call)
				break
			}
		}
		if d := Compare(wrong, header); len(d.New) != 1 || len(d.Changed) != 1 {
			t.Errorf("%s: two errors in the table show as %+v", name, d)
		}
	}
}

// The forms of the headers are read: plain numbers, x32's bit, the generic header's conditions and aliases.
func TestParse(t *testing.T) {
	got, err := parse(`#ifndef _ASM_H
#define _ASM_H
#define __NR_read 63
#define __NR_old (__X32_SYSCALL_BIT + 515)
#define __NR_note 64 /* a remark */
#if __BITS_PER_LONG == 32 || defined(__SYSCALL_COMPAT)
#define __NR_time64 403
#else
#define __NR_time 404
#endif
#ifdef __ARCH_WANT_RENAMEAT
#define __NR_renameat 38
#endif /* __ARCH_WANT_RENAMEAT */
#ifdef __ARCH_WANT_SYNC_FILE_RANGE2
#define __NR_sync_file_range2 84
#endif
#define __NR3264_mmap 222
#if __BITS_PER_LONG == 64 && !defined(__SYSCALL_COMPAT)
#define __NR_mmap __NR3264_mmap
#else
#define __NR_mmap2 __NR3264_mmap
#endif
#define __NR_syscalls 500
#endif
`)
	want := "read 63, old 515, note 64, time 404, renameat 38, mmap 222"
	var said []string
	for _, name := range []string{"read", "old", "note", "time", "renameat", "mmap"} {
		if d := Compare(nil, map[string]int{name: got[name]}); len(d.New) == 1 {
			said = append(said, d.New[0])
		}
	}
	if err != nil || strings.Join(said, ", ") != want || len(got) != 6 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"#endif", "#else", "#if 1"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A folder without headers, and one with a header that has next to nothing, are errors and no empty table.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Read(dir, "i386"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no header: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "asm"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "asm/unistd_64.h"), []byte("#define __NR_read 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(dir, "x86_64"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("next to nothing: %v", err)
	}
}

// A table written anew takes what is new and changed from the headers, keeps what they lack, and reads back.
func TestFormat(t *testing.T) {
	text := Format("x86_64", "a test", map[string]int{"read": 0, "gone": 7, "open": 3}, map[string]int{"read": 0, "open": 2, "new": 9})
	back, err := ParseTable(text)
	if err != nil || len(back) != 4 || back["open"] != 2 || back["gone"] != 7 || back["new"] != 9 {
		t.Errorf("%v, %v", back, err)
	}
	lines := strings.Split(text, "\n")
	if !slices.Contains(lines, "# Origin: a test.") || !slices.Contains(lines, "# Kept from before: gone 7.") || lines[3] != "read\t0" {
		t.Error(text)
	}
}
