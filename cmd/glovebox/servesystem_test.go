package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// family is a process and all that it has started.
func family(pid int) []int {
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", out[i]))
		for _, t := range tasks {
			b, _ := os.ReadFile(t)
			for _, f := range strings.Fields(string(b)) {
				var child int
				if _, err := fmt.Sscan(f, &child); err == nil && !slices.Contains(out, child) {
					out = append(out, child)
				}
			}
		}
	}
	return out
}

// heard lists where processes can be reached from outside: listening TCP sockets, UDP
// sockets, and unix sockets with a name.
func heard(t *testing.T, pids []int) []string {
	t.Helper()
	var out []string
	for _, pid := range pids {
		owned := map[string]bool{}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
				owned[strings.Trim(link, "socket:[]")] = true
			}
		}
		for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "unix"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
			if err != nil {
				continue // it has ended
			}
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				switch {
				case table == "unix" && len(f) == 8 && owned[f[6]]:
					out = append(out, "unix "+f[7])
				case table != "unix" && len(f) > 9 && owned[f[9]] && (f[3] == "0A" || strings.HasPrefix(table, "udp")):
					var port int
					_, _ = fmt.Sscanf(f[1][strings.Index(f[1], ":")+1:], "%X", &port)
					out = append(out, fmt.Sprintf("%s port %d", table[:3], port))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Nothing but --addr can be reached: not the queue, nor anything else of the service
// and of what it starts.
//
// proves part of H-71
func TestServeListensOnce(t *testing.T) {
	l, addr := free(t) // the control: what listens is found
	if got := heard(t, []int{os.Getpid()}); !slices.Contains(got, "tcp port "+addr[strings.LastIndex(addr, ":")+1:]) {
		t.Fatalf("control: a listener at %s is not among %q", addr, got)
	}
	_ = l.Close()
	s := serve(t)
	s.submit(t, "?wait=30s", "true")
	s.submit(t, "", "sleep", "5")
	want := []string{"tcp port " + s.url[strings.LastIndex(s.url, ":")+1:]}
	if got := heard(t, family(s.Process.Pid)); !slices.Equal(got, want) {
		t.Errorf("heard at %q, not %q alone", got, want)
	}
}

// notifications is a service manager's socket.
func notifications(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nt") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return path, func() string {
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

// The service manager hears when the service is ready, that it lives, and that it ends.
func TestServeNotifies(t *testing.T) {
	path, next := notifications(t)
	s := prepareServe(t)
	s.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=200000")
	s.start(t)
	if got := next(); !strings.HasPrefix(got, "READY=1\n") || !strings.Contains(got, s.url) {
		t.Errorf("first: %q", got)
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("then: %q", got)
		}
	}
	s.signal(t, unix.SIGTERM)
	for {
		got := next()
		if strings.HasPrefix(got, "STOPPING=1\n") {
			break
		}
		if got != "WATCHDOG=1" {
			t.Errorf("at the end: %q", got)
		}
	}
	s.ends(t, 0)
}

// activated starts the service on a listener of the test, as a service manager does.
// The shell is there since LISTEN_PID has to be the number of the process itself.
func activated(t *testing.T, l net.Listener, args ...string) *process {
	t.Helper()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &process{Cmd: exec.Command("/bin/sh", append([]string{"-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"`, "sh", program(), "serve", "--data", filepath.Join(t.TempDir(), "data")}, args...)...)}
	p.Stderr = &p.stderr
	p.ExtraFiles = []*os.File{f}
	pipe, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(pipe)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// A service manager's socket is served in the place of --addr, and judged as that is.
func TestServeActivated(t *testing.T) {
	l, addr := free(t)
	p := activated(t, l)
	for {
		if line := p.line(t); strings.HasPrefix(line, "serving at ") {
			if line != "serving at http://"+addr+"\n" {
				t.Errorf("%q is not at %s", line, addr)
			}
			break
		}
	}
	_ = l.Close()
	want := []string{"tcp port " + addr[strings.LastIndex(addr, ":")+1:]}
	if got := heard(t, family(p.Process.Pid)); !slices.Equal(got, want) {
		t.Errorf("heard at %q, not %q alone", got, want)
	}
	if err := p.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(t, 0)

	everywhere, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	p = activated(t, everywhere)
	p.ends(t, exitUsage)
	if got := p.stderr.String(); !strings.Contains(got, "is not loopback: needs --tls-cert") {
		t.Errorf("stderr %q", got)
	}
}
