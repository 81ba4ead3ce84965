package library

import (
	"debug/elf"
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The release that the file says is the one that its package has, where the
// package is Debian's.
//
// proves part of T-18
func TestRelease(t *testing.T) {
	lib, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Release(lib.Path)
	if err != nil || !regexp.MustCompile(`^2\.\d+\.\d+$`).MatchString(got) {
		t.Fatalf("%q, %v", got, err)
	}
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "libjavascriptcoregtk-"+lib.Version[:3]+"-"+map[string]string{"6.0": "1", "4.1": "0", "4.0": "18"}[lib.Version[:3]]).Output()
	if err == nil && !strings.HasPrefix(string(out), got+"-") {
		t.Errorf("the file says %s, its package %s", got, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{self, "/bin/sh", "/etc/passwd", "/nonexistent"} {
		if got, err := Release(path); err == nil {
			t.Errorf("%s says that it is release %s", path, got)
		}
	}
}

// What the three functions look like on both architectures, and what does not count.
func TestReturned(t *testing.T) {
	for _, c := range []struct {
		machine elf.Machine
		code    string
		want    uint32
		ok      bool
	}{
		{elf.EM_X86_64, "b832000000c3", 50, true},
		{elf.EM_X86_64, "f30f1efab802000000c3", 2, true},
		{elf.EM_X86_64, "31c0c3", 0, true},
		{elf.EM_X86_64, "b832000000", 0, false},
		{elf.EM_X86_64, "b83200000090c3", 0, false},
		{elf.EM_X86_64, "", 0, false},
		{elf.EM_AARCH64, "40068052c0035fd6", 50, true},
		{elf.EM_AARCH64, "5f2403d540068052c0035fd6", 50, true},
		{elf.EM_AARCH64, "00008052c0035fd6", 0, true},
		{elf.EM_AARCH64, "41068052c0035fd6", 0, false}, // w1
		{elf.EM_AARCH64, "40068052", 0, false},
		{elf.EM_386, "b832000000c3", 0, false},
	} {
		code, err := hex.DecodeString(c.code)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := returned(c.machine, code); got != c.want || (err == nil) != c.ok {
			t.Errorf("%v %s: %d, %v", c.machine, c.code, got, err)
		}
	}
}
