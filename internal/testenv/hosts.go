package testenv

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// OnVM is the name part of tests that change settings of the whole kernel, or
// need one that lacks something; .ci/run starts them in machines of their own.
const OnVM = "OnVM"

// OnChromium is the name part of tests that click in a browser, OnBundle that of those
// that need what make build bundles for its pages.
const (
	OnChromium = "OnChromium"
	OnBundle   = "OnBundle"
)

// OnNginx, OnHAProxy and OnCurl are the name parts of tests that need these programs.
const (
	OnNginx   = "OnNginx"
	OnHAProxy = "OnHAProxy"
	OnCurl    = "OnCurl"
)

// Program is where the program that a name part stands for lies, empty if it does not.
func Program(part string) string {
	name := strings.ToLower(strings.TrimPrefix(part, "On"))
	for _, dir := range []string{"/usr/sbin/", "/usr/bin/"} {
		if _, err := os.Stat(dir + name); err == nil {
			return dir + name
		}
	}
	return ""
}

// Chromium is the browser of this host, empty if there is none.
func Chromium() string {
	for _, name := range []string{"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"} {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return ""
}

// Deselect is called first by a TestMain whose package has tests for certain
// hosts. Unless -test.skip is given it leaves out, by the parts of their names,
// those that are not for this host, and says which parts those are.
func Deselect() {
	flag.Parse()
	if f := flag.Lookup("test.skip"); f == nil || f.Value.String() != "" {
		return
	}
	parts := deselected()
	if err := flag.Set("test.skip", SkipPattern(parts)); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "deselected by name on this host:", strings.Join(parts, " "))
}

// deselected are the name parts of tests for other hosts than this.
func deselected() []string {
	parts := []string{CgroupDeselect()}
	if os.Geteuid() == 0 {
		parts = append(parts, "AsUser")
	} else {
		parts = append(parts, "AsRoot")
	}
	if line, err := os.ReadFile("/proc/cmdline"); err != nil || !strings.Contains(string(line), "glovebox.matrix=1") {
		parts = append(parts, OnVM)
	}
	for _, part := range []string{OnNginx, OnHAProxy, OnCurl} {
		if Program(part) == "" {
			parts = append(parts, part)
		}
	}
	if Chromium() == "" {
		parts = append(parts, OnChromium)
	}
	if _, err := os.Stat(filepath.Join(Root(), "web", "dist", "editor.js")); err != nil {
		parts = append(parts, OnBundle)
	}
	return parts
}

// SkipPattern is the argument of go test -skip for tests, and parts of tests,
// whose name has one of these in it. Whole tests come first: the first
// alternative that could match a part of a test ends the search in a test's name.
func SkipPattern(parts []string) string {
	return strings.Join(parts, "|") + "|/" + strings.Join(parts, "|/")
}

// CgroupDeselect is the name part of the cgroup version that this host does not
// have for memory.
func CgroupDeselect() string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return CgroupPart(string(mounts))
}

// CgroupPart is the same for the mounts of another host.
func CgroupPart(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		_, right, _ := strings.Cut(line, " - ")
		f := strings.Fields(right)
		if len(f) > 2 && f[0] == "cgroup" && strings.Contains(","+f[2]+",", ",memory,") {
			return "OnV2"
		}
	}
	return "OnV1"
}
