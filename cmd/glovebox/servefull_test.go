package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
)

// smallDisk starts a service whose data folder is on a disk of 96 MiB, in a mount
// namespace of its own, and returns the path by which the test reaches that disk, and
// what is in the log.
func smallDisk(t *testing.T) (s *server, disk string, log func() string) {
	t.Helper()
	dir := t.TempDir()
	s = prepareServe(t, "--data", filepath.Join(dir, "data"), "--min-free", "16MiB", "--max-store", "1GiB", "--slots", "2")
	s.Cmd = exec.Command("/bin/sh", append([]string{"-c", `mount -t tmpfs -o size=96m,mode=0755 tmpfs "$1" && shift && exec "$@"`, "sh", dir}, s.Args...)...)
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s.Stderr = file
	s.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	s.start(t)
	return s, fmt.Sprintf("/proc/%d/root%s", s.Process.Pid, dir), func() string {
		b, _ := os.ReadFile(file.Name())
		return string(b)
	}
}

// A disk that others fill to the last byte stops the store: nothing is accepted that
// would be lost, the service opens its store again when there is room, and each run
// that was accepted has one result.
//
// proves part of H-47
// proves part of X-17
func TestServeDiskFullAsRoot(t *testing.T) {
	s, disk, log := smallDisk(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log())
		}
	})
	var accepted []string
	for range 4 {
		accepted = append(accepted, s.submit(t, "", "sh", "-c", "sleep 1; head -c 100000 /dev/zero").ID)
	}
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = fill.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	status, b := s.ask(t, "POST", "/v1/runs", map[string]any{"command": []string{"true"}})
	var refused api.ErrorBody
	if err := json.Unmarshal(b, &refused); err != nil || status != 503 || refused.Error.Code != api.CodeStorage {
		t.Fatalf("on a full disk: %d %s", status, b)
	}
	awaitThat(t, "the store has stopped", func() bool { return strings.Contains(log(), "the store has stopped; it is opened again") })
	awaitThat(t, "it refuses without a store", func() bool {
		status, b := s.ask(t, "GET", "/v1/limits", nil)
		return status == 503 && strings.Contains(string(b), `"storage"`)
	})
	if status, _ := s.ask(t, "GET", "/healthz", nil); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	if err := errors.Join(fill.Close(), os.Remove(fill.Name())); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "the store is open again", func() bool { return strings.Contains(log(), "there is room again") })
	awaitThat(t, "it is ready", func() bool { status, _ := s.ask(t, "GET", "/readyz", nil); return status == 200 })
	if r := s.submit(t, "?wait=30s", "echo", "on").Result; r == nil || r.Stdout != "on\n" {
		t.Errorf("with room again: %+v", r)
	}
	for _, id := range accepted {
		if r := s.result(t, id); r.Verdict != api.OK && r.Verdict != api.Interrupted {
			t.Errorf("%s: %+v", id, r)
		}
	}
	s.signal(t, unix.SIGTERM)
	s.ends(t, 0)
}
