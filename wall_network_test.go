package glovebox_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// familiesC tries to make a socket and a pair of every family and type. For
// each family it prints the answers, parted by "|".
const familiesC = wallC + `
static int types[] = {1, 2, 3, 4, 5, 6, 10, 1 | SOCK_CLOEXEC, 2 | SOCK_NONBLOCK};
static int protocols[] = {0, 1, 6, 17, 255};
static void tell(const char *what, int family, int *seen) {
	char sep = ' ';
	printf("%s-%d", what, family);
	for (int e = 0; e < 200; e++) if (seen[e]) { printf("%c%s", sep, e ? strerrorname_np(e) : "OK"); sep = '|'; }
	printf("\n");
}
int main(void) {
	for (int family = 0; family <= 45; family++) {
		int one[200] = {0}, two[200] = {0}, p[2];
		for (int t = 0; t < sizeof types / sizeof *types; t++) for (int k = 0; k < 5; k++) {
			int fd = socket(family, types[t], protocols[k]);
			one[fd < 0 ? errno : 0] = 1;
			if (fd >= 0) close(fd);
			fd = socketpair(family, types[t], protocols[k], p);
			two[fd < 0 ? errno : 0] = 1;
			if (fd >= 0) { close(p[0]); close(p[1]); }
		}
		tell("socket", family, one);
		tell("pair", family, two);
	}
	return 0;
}`

// No socket of any family and type can be made, and no pair but a local stream;
// without the filter the kernel makes them.
//
// proves O-03
// proves part of O-21 T-06
func TestWallNetworkFamilies(t *testing.T) {
	prog := cProgram(t, familiesC)
	got := answers(run(t, box(t), prog).Stdout)
	if len(got) != 2*46 {
		t.Fatalf("%d answers", len(got))
	}
	for name, a := range got {
		want := "EAFNOSUPPORT"
		switch {
		case name == "socket-1":
			want = "EACCES"
		case name == "pair-1": // a stream pair, and what the kernel says of one with a protocol
			want = "OK|EACCES|EPROTONOSUPPORT"
		case strings.HasPrefix(name, "pair-"):
			want = "EACCES"
		}
		if a != want {
			t.Errorf("%s: %s, want %s", name, a, want)
		}
	}
	open := answers(run(t, without(t, "seccomp"), prog).Stdout)
	for _, name := range []string{"socket-1", "socket-2", "socket-16", "pair-1"} {
		if !strings.HasPrefix(open[name], "OK|") {
			t.Errorf("control: %s: %s", name, open[name])
		}
	}
}

// count accepts connections until the end of the test and counts them.
func count(t *testing.T, network, address string) (net.Listener, *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			c.Write([]byte("x"))
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln, &n
}

// connectPy connects to listeners of the host: TCP by port, a local one by
// path, one by abstract name. It waits for the byte that each of them sends.
const connectPy = `import socket, sys
for name, family, address in [("tcp", socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))),
        ("path", socket.AF_UNIX, sys.argv[2]), ("abstract", socket.AF_UNIX, "\0" + sys.argv[3])]:
    try:
        s = socket.socket(family, socket.SOCK_STREAM)
        s.settimeout(5)
        s.connect(address)
        s.recv(1)
        print(name, "OK")
    except OSError as e:
        print(name, e.errno)
`

// A listener of the host, by TCP, by path or by abstract name, is reached by
// nobody: it counts no connection. Each layer is enough: with any one of them
// on the rest may be off. Only with all of them off, which are named, do the
// connections arrive.
//
// proves part of T-04 H-24 O-03
func TestWallNetworkListeners(t *testing.T) {
	tcp, tcpN := count(t, "tcp", "127.0.0.1:0")
	path := filepath.Join(openDir(t), "listener")
	_, pathN := count(t, "unix", path)
	abstract := "glovebox-wall-" + filepath.Base(filepath.Dir(path))
	_, abstractN := count(t, "unix", "@"+abstract)
	mustChmod(t, path)
	prog := python(connectPy)
	prog.Args = []string{fmt.Sprint(tcp.Addr().(*net.TCPAddr).Port), path, abstract}
	for _, c := range []struct {
		off                 []string
		tcp, path, abstract string
	}{
		{nil, "EAFNOSUPPORT", "EACCES", "EACCES"},
		{[]string{"net", "landlock", "root"}, "EAFNOSUPPORT", "EACCES", "EACCES"},  // the filter alone
		{[]string{"seccomp", "landlock"}, "ENETUNREACH", "ENOENT", "ECONNREFUSED"}, // the namespaces and the root alone
		{[]string{"seccomp", "net", "root"}, "EACCES", "OK", "EPERM"},              // Landlock alone, which does not speak of sockets with a path
		{[]string{"seccomp", "net", "root", "landlock"}, "OK", "OK", "OK"},
	} {
		b := box(t)
		if c.off != nil {
			b = without(t, c.off...)
		}
		before := []int64{tcpN.Load(), pathN.Load(), abstractN.Load()}
		r := run(t, b, prog)
		got := answers(r.Stdout)
		for i, s := range []struct {
			name, want string
			now        int64
		}{{"tcp", c.tcp, tcpN.Load()}, {"path", c.path, pathN.Load()}, {"abstract", c.abstract, abstractN.Load()}} {
			if got[s.name] != s.want {
				t.Errorf("without %v: %s answered %q, want %s %s", c.off, s.name, got[s.name], s.want, r.Stderr)
			}
			if arrived := s.now - before[i]; (arrived == 1) != (s.want == "OK") || arrived > 1 {
				t.Errorf("without %v: %d connections arrived at %s", c.off, arrived, s.name)
			}
		}
	}
}

// A cell with a loopback network reaches itself and not the host's loopback,
// and is refused raw and netlink sockets. With the network namespace left out
// it reaches the host.
//
// proves part of O-21 H-24
func TestWallNetworkLoopback(t *testing.T) {
	tcp, n := count(t, "tcp", "127.0.0.1:0")
	prog := python(`import socket, sys
def say(name, f):
    try: f(); print(name, "OK", flush=True)
    except OSError as e: print(name, e.errno, flush=True)
def own():
    s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname(), 5); a, _ = s.accept(); a.send(b"x"); assert c.recv(1) == b"x"
say("own", own)
say("host", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).recv(1))
say("out", lambda: socket.create_connection(("192.0.2.1", 80), 1))
say("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
say("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
say("unix", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
`)
	prog.Network, prog.Args = "loopback", []string{fmt.Sprint(tcp.Addr().(*net.TCPAddr).Port)}
	got := answers(run(t, box(t), prog).Stdout)
	for name, want := range map[string]string{"own": "OK", "host": "ECONNREFUSED", "out": "ENETUNREACH", "raw": "EPROTONOSUPPORT",
		"netlink": "EAFNOSUPPORT", "unix": "EACCES"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %s", name, got[name], want)
		}
	}
	if n.Load() != 0 {
		t.Errorf("%d connections arrived", n.Load())
	}
	if got = answers(run(t, without(t, "net"), prog).Stdout); got["host"] != "OK" || n.Load() != 1 {
		t.Errorf("control: host %q, %d connections", got["host"], n.Load())
	}
}

// pairC uses a local pair in the ways that have led out of other sandboxes.
const pairC = wallC + `
int main(void) {
	int s[2], d[2];
	char b[8] = {0}, c[CMSG_SPACE(sizeof(int))] = {0};
	struct sockaddr_un a = {AF_UNIX, "\0nobody"};
	struct iovec v = {b, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	say("stream", socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	say("datagram", socketpair(AF_UNIX, SOCK_DGRAM, 0, d));
	say("seqpacket", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, d));
	say("high-family", syscall(SYS_socketpair, AF_UNIX | (1UL << 32), SOCK_DGRAM, 0, d));
	say("high-type", syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM | (1UL << 32), 0, d));
	say("send", send(s[0], b, 1, 0));
	say("recv", recv(s[1], b, 1, 0));
	say("send-oob", send(s[0], "O", 1, MSG_OOB));
	say("recv-oob", recv(s[1], b, 1, MSG_OOB | MSG_DONTWAIT));
	printf("byte %s\n", b[0] == 'O' ? "arrived" : "none");
	say("sendmsg-oob", sendmsg(s[0], &m, MSG_OOB));
	say("recvmsg-oob", recvmsg(s[1], &m, MSG_OOB | MSG_DONTWAIT));
	say("sendto", sendto(s[0], b, 1, 0, (void *)&a, sizeof a));
	say("send-zerocopy", send(s[0], b, 1, MSG_ZEROCOPY));
	say("send-high", syscall(SYS_sendto, s[0], b, 1, (1UL << 32) | MSG_OOB, 0, 0));
	say("bind", bind(s[0], (void *)&a, 2));
	say("connect", connect(s[0], (void *)&a, sizeof a));
	say("listen", listen(s[0], 1));
	say("setsockopt", setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &(int){1 << 16}, 4));
	return 0;
}`

// A local pair carries bytes and nothing else: no datagram, no address, no
// out-of-band byte, which arrives where the filter is off.
//
// proves part of H-11 O-03
func TestWallNetworkPairs(t *testing.T) {
	compare(t, cProgram(t, pairC), []outcome{
		{"stream", "OK", "OK"}, {"datagram", "EACCES", "OK"}, {"seqpacket", "EACCES", "OK"}, {"high-family", "EACCES", "OK"},
		{"high-type", "EACCES", "OK"}, {"send", "OK", "OK"}, {"recv", "OK", "OK"}, {"send-oob", "EOPNOTSUPP|ENOTSUP", "OK"},
		{"recv-oob", "EOPNOTSUPP|ENOTSUP", "OK"}, {"byte", "none", "arrived"}, {"sendmsg-oob", "EOPNOTSUPP|ENOTSUP", "OK"},
		{"recvmsg-oob", "EOPNOTSUPP|ENOTSUP", "OK"}, {"sendto", "EACCES", "EISCONN"}, {"send-zerocopy", "EOPNOTSUPP|ENOTSUP", "OK"},
		{"send-high", "EOPNOTSUPP|ENOTSUP", "OK"}, {"bind", "EACCES", "OK"}, {"connect", "EACCES", "ECONNREFUSED|EISCONN"},
		{"listen", "EACCES", "OK|EINVAL"}, {"setsockopt", "EPERM", "OK"},
	}, "seccomp")
}
