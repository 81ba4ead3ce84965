package redteam

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
)

// scene is what the runner makes for one run of an attack, and looks at again
// afterwards. All of it is gone with close.
type scene struct {
	values  map[string]string // what {name} stands for in arguments and expected lines
	undo    []func()
	canary  string // path
	before  []byte // state of the canary
	arrived atomic.Int64
	limits  api.Limits
	result  *api.Result
}

// newScene makes one with the facts of the host that every scene has; the runner
// reads them itself.
func newScene(l api.Limits, more map[string]string) *scene {
	s := &scene{values: maps.Clone(more), limits: l}
	s.values["hostname"], _ = os.Hostname()
	s.values["bootid"] = word(readText("/proc/sys/kernel/random/boot_id"), 0)
	for name, path := range map[string]string{"cmdline": "/proc/cmdline", "passwd": "/etc/passwd"} {
		s.values[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(readText(path))))[:12]
	}
	s.values["memtotal"] = word(readText("/proc/meminfo"), 1)
	if lines := strings.SplitN(readText("/proc/cpuinfo"), "\n", 3); len(lines) > 1 {
		_, after, _ := strings.Cut(lines[1], ":")
		s.values["vendor"] = word(after, 0)
	}
	s.values["upclass"] = "new"
	if up, err := strconv.ParseFloat(word(readText("/proc/uptime"), 0), 64); err == nil && up >= 20 {
		s.values["upclass"] = "old"
	}
	return s
}

func readText(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// word is a word of a text, empty if there are not so many.
func word(text string, n int) string {
	if f := strings.Fields(text); n < len(f) {
		return f[n]
	}
	return ""
}

func (s *scene) close() {
	for _, f := range slices.Backward(s.undo) {
		f()
	}
}

// fill puts the values into a text.
func (s *scene) fill(text string) string {
	for name, v := range s.values {
		text = strings.ReplaceAll(text, "{"+name+"}", v)
	}
	return text
}

// fixtures are what an attack can ask for by name.
var fixtures = map[string]func(*scene) error{
	"canary":   (*scene).makeCanary,
	"tcp":      func(s *scene) error { return s.listen("tcp", "127.0.0.1:0") },
	"unix":     func(s *scene) error { return s.listen("unix", "") },
	"abstract": func(s *scene) error { return s.listen("abstract", "") },
	"segment":  (*scene).makeSegment,
}

// folderPrefix begins the name of every folder that this process makes.
func folderPrefix() string { return fmt.Sprintf("glovebox-redteam-%d-", os.Getpid()) }

// folder makes a folder that every user may enter, read and write, so that
// permissions are not what stops an attack. It is not below /tmp, since a
// control that keeps the host's root covers that.
func (s *scene) folder() (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", folderPrefix())
	if err != nil {
		return "", err
	}
	s.undo = append(s.undo, func() { os.RemoveAll(dir) })
	return dir, os.Chmod(dir, 0o777)
}

// makeCanary makes a file with a secret that everybody may read and write:
// {canary} is its path, {dir} its folder, {secret} its content.
func (s *scene) makeCanary() error {
	dir, err := s.folder()
	if err != nil {
		return err
	}
	s.canary = filepath.Join(dir, "canary")
	s.values["canary"], s.values["dir"], s.values["secret"] = s.canary, dir, fmt.Sprintf("secret-%d", time.Now().UnixNano())
	if err := os.WriteFile(s.canary, []byte(s.values["secret"]), 0o666); err != nil {
		return err
	}
	if err := os.Chmod(s.canary, 0o666); err != nil {
		return err
	}
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(s.canary, old, old); err != nil {
		return err
	}
	s.before, err = s.look()
	return err
}

// look describes the canary and what lies beside it, all that a guest could
// have changed of it.
func (s *scene) look() ([]byte, error) {
	var b bytes.Buffer
	var st unix.Stat_t
	if err := unix.Lstat(s.canary, &st); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(s.canary)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "%s mode %o uid %d gid %d links %d mtime %d\n", text, st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim.Nano())
	attrs := make([]byte, 4096)
	n, err := unix.Listxattr(s.canary, attrs)
	if err == nil {
		fmt.Fprintf(&b, "attributes %q\n", attrs[:n])
	}
	entries, err := os.ReadDir(filepath.Dir(s.canary))
	for _, e := range entries {
		fmt.Fprintln(&b, "beside", e.Name())
	}
	return b.Bytes(), err
}

// listen opens a listener that counts who connects: {port}, {socket}, {abstract}.
func (s *scene) listen(network, address string) error {
	name := ""
	switch network {
	case "unix":
		dir, err := s.folder()
		if err != nil {
			return err
		}
		address = filepath.Join(dir, "socket")
		name = address
	case "abstract":
		name = fmt.Sprintf("glovebox-redteam-%d", time.Now().UnixNano())
		network, address = "unix", "@"+name
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	var ended sync.WaitGroup
	s.undo = append(s.undo, func() { ln.Close(); ended.Wait() })
	switch {
	case network == "tcp":
		s.values["port"] = strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
		s.values["hexport"] = fmt.Sprintf("%04X", ln.Addr().(*net.TCPAddr).Port)
		if c, err := net.Dial("udp", ln.Addr().String()); err == nil { // so that the host's loopback has had traffic
			_, _ = c.Write([]byte("x"))
			c.Close()
		}
	case address[0] == '@':
		s.values["abstract"] = name
	default:
		s.values["socket"] = name
		if err := os.Chmod(name, 0o777); err != nil {
			return err
		}
	}
	ended.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.arrived.Add(1)
			_, _ = c.Write([]byte("x"))
			c.Close()
		}
	})
	return nil
}

// makeSegment makes a segment of shared memory on the host, open to everybody:
// {key} is its key, {secret} what stands at its beginning.
func (s *scene) makeSegment() error {
	key := 0x676c6f76 ^ int(time.Now().UnixNano()&0xffffff)
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	s.values["key"], s.values["secret"] = strconv.Itoa(key), fmt.Sprintf("secret-%d", time.Now().UnixNano())
	copy(b, s.values["secret"]+"\x00")
	return unix.SysvShmDetach(b)
}

// checks are what the host itself looks at after a run; the text is what
// follows the name in the file.
var checks = map[string]func(s *scene, text string) error{
	"canary-unchanged":   func(s *scene, _ string) error { return s.changed(false) },
	"canary-changed":     func(s *scene, _ string) error { return s.changed(true) },
	"nobody-connected":   func(s *scene, _ string) error { return s.connected(0) },
	"somebody-connected": func(s *scene, _ string) error { return s.connected(1) },
	"oom-killed":         func(s *scene, _ string) error { return counter("oom_kills", s.result.OOMKills, 1) },
	"forks-refused":      func(s *scene, _ string) error { return counter("pids_max_hits", s.result.PidsMaxHits, 1) },
	"peak-within-limit":  peakWithin,
	"cpu-below":          cpuBelow,
	"cpu-above":          cpuAbove,
	"refused":            artifactRefused,
	"given":              artifactGiven,
	"given-name":         artifactNamed,
	"none-given":         noneGiven,
	"no-secret":          noSecret,
	"secret":             func(s *scene, _ string) error { return not(noSecret(s, ""), "the secret is in nothing that came out") },
	"compiler-says":      compilerSays,
	"kept":               kept,
}

func not(err error, otherwise string) error {
	if err == nil {
		return errors.New(otherwise)
	}
	return nil
}

func (s *scene) changed(want bool) error {
	now, err := s.look()
	switch {
	case err != nil && !want:
		return fmt.Errorf("the canary: %w", err)
	case bytes.Equal(now, s.before) && want:
		return errors.New("the canary is as it was")
	case !bytes.Equal(now, s.before) && !want:
		return fmt.Errorf("the canary was %q and is %q", s.before, now)
	}
	return nil
}

func (s *scene) connected(want int64) error {
	if n := s.arrived.Load(); (n > 0) != (want > 0) {
		return fmt.Errorf("%d connections arrived", n)
	}
	return nil
}

func counter(name string, v *int64, least int64) error {
	if v == nil || *v < least {
		return fmt.Errorf("%s is not %d or more", name, least)
	}
	return nil
}

func peakWithin(s *scene, _ string) error {
	if p := s.result.PeakBytes; p == nil || *p > s.limits.MemoryBytes {
		return errors.New("the peak is above the memory limit, or unknown")
	}
	return nil
}

func cpuBelow(s *scene, text string) error {
	if n, err := strconv.ParseFloat(text, 64); err != nil || s.result.CPUMS == nil || *s.result.CPUMS > n {
		return fmt.Errorf("the processor time is not below %s ms", text)
	}
	return nil
}

func cpuAbove(s *scene, text string) error {
	return not(cpuBelow(s, text), "the processor time is below "+text+" ms")
}

// artifactRefused wants "NAME REASON".
func artifactRefused(s *scene, text string) error {
	for _, r := range s.result.RefusedArtifacts {
		if r.Name+" "+r.Reason == text {
			return nil
		}
	}
	return fmt.Errorf("not refused: %s; refused are %v", text, s.result.RefusedArtifacts)
}

// artifactGiven wants "NAME CONTENT".
func artifactGiven(s *scene, text string) error {
	for _, a := range s.result.Artifacts {
		if a.Name+" "+strings.TrimSpace(string(a.Content)) == text {
			return nil
		}
	}
	return fmt.Errorf("not given: %s", text)
}

// artifactNamed wants "NAME", whatever its content.
func artifactNamed(s *scene, text string) error {
	if !slices.ContainsFunc(s.result.Artifacts, func(a api.Artifact) bool { return a.Name == text }) {
		return fmt.Errorf("not given: %s", text)
	}
	return nil
}

func noneGiven(s *scene, _ string) error {
	if len(s.result.Artifacts) > 0 {
		return fmt.Errorf("%d files were given", len(s.result.Artifacts))
	}
	return nil
}

// noSecret looks for the canary's content in all that came out of the cell.
func noSecret(s *scene, _ string) error {
	r := s.result
	texts := []string{r.Stdout, r.Stderr, r.Message}
	if r.Compile != nil {
		texts = append(texts, r.Compile.Stdout, r.Compile.Stderr)
	}
	for _, a := range r.Artifacts {
		texts = append(texts, string(a.Content))
	}
	if slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, s.values["secret"]) }) {
		return errors.New("the secret came out")
	}
	return nil
}

func compilerSays(s *scene, text string) error {
	if c := s.result.Compile; c == nil || !strings.Contains(c.Stderr, text) {
		return fmt.Errorf("the compiler does not say %q", text)
	}
	return nil
}

// kept wants a number of bytes at most on stdout.
func kept(s *scene, text string) error {
	if n, err := strconv.Atoi(text); err != nil || len(s.result.Stdout) > n {
		return fmt.Errorf("%d bytes of stdout were kept", len(s.result.Stdout))
	}
	return nil
}
