package mcpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// serveAt serves a socket until the test ends.
func serveAt(t testing.TB, s *Server, path string, uidOf func(*net.UnixConn) (int, error)) {
	t.Helper()
	l, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.serveSocket(ctx, l, uidOf) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ServeSocket: %v", err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
}

// The SDK's client runs a program over a socket, which is its owner's alone.
//
// proves part of H-67
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serveAt(t, server(t), path, peerUID)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v %v", info, err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	cs := connect(t, c, c, nil)
	if got, _ := callTool(t, cs, "run_code", obj{"language": "bash", "source": "echo $((6 * 7))"}); at(got, "untrusted", "stdout") != "42\n" {
		t.Errorf("%v", got)
	}
}

// What stands where a socket shall be stays there, unless it is a socket that a dead
// server left.
//
// proves part of H-67
func TestSocketPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "dead"), link); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(dir, "live")
	serveAt(t, server(t), live, peerUID)
	for path, want := range map[string]string{file: "no socket", link: "no socket", live: "another server", dir: "no socket", filepath.Join(dir, "none", "s"): "no such file", filepath.Join(dir, strings.Repeat("x", 110)): "invalid"} {
		if l, err := ListenSocket(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v, want %q", path, l, err, want)
		}
	}
	dead := filepath.Join(dir, "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	serveAt(t, server(t), dead, peerUID)
}

// visitorEnv makes this program a client of another user at a socket.
const visitorEnv = "GLOVEBOX_TEST_VISITOR"

func init() {
	path := os.Getenv(visitorEnv)
	if path == "" {
		return
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		if errors.Is(err, unix.EACCES) {
			os.Exit(13)
		}
		os.Exit(99)
	}
	_, _ = io.WriteString(c, initialize+"\n")
	b := make([]byte, 100)
	if n, _ := c.Read(b); n > 0 {
		os.Exit(42)
	}
	os.Exit(14)
}

// visit is how another user fares: 13 he may not connect, 14 he is sent away without
// an answer, 42 he is answered.
func visit(t testing.TB, path string) int {
	t.Helper()
	self := filepath.Join(t.TempDir(), "visitor")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(self); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(self)
	cmd.Env = []string{visitorEnv + "=" + path}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// Another user cannot connect; where the socket's mode lets him, the kernel's word of
// who he is sends him away; where nobody asks, he is in.
//
// proves part of H-67
func TestAnotherUserAsRoot(t *testing.T) {
	dir := t.TempDir()
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, open := filepath.Join(dir, "s"), filepath.Join(dir, "open")
	serveAt(t, server(t), path, peerUID)
	if code := visit(t, path); code != 13 {
		t.Errorf("mode 0600: %d", code)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if code := visit(t, path); code != 14 {
		t.Errorf("mode 0666: %d", code)
	}
	serveAt(t, server(t), open, func(*net.UnixConn) (int, error) { return os.Geteuid(), nil })
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	if code := visit(t, open); code != 42 {
		t.Errorf("control: %d", code)
	}
}

// A socket has so many sessions, and a client that goes mid-run leaves nothing.
//
// proves part of H-67
func TestSocketSessions(t *testing.T) {
	o := options()
	o.Sessions = 2
	s := newServer(t, o)
	path := filepath.Join(t.TempDir(), "s")
	serveAt(t, s, path, peerUID)
	dialRaw := func() (net.Conn, *raw) {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, rawClient(t, c, c)
	}
	first, r := dialRaw()
	dialRaw()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the third: %d %v", n, err)
	}
	args, alive := sleeper(t)
	r.write(toolCall(1, "run_code", string(encode(args))))
	eventually(t, "it runs", alive)
	_ = first.Close()
	eventually(t, "it is gone", func() bool { return !alive() })
	eventually(t, "there is room", func() bool {
		c, err := net.Dial("unix", path)
		if err != nil {
			return false
		}
		defer c.Close()
		_, _ = io.WriteString(c, initialize+"\n")
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	})
}
