package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answers is a resolver that gives one answer after the other; the last stays.
type answers struct {
	lists [][]netip.Addr
	asked atomic.Int64
	name  atomic.Value
}

func (a *answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a.name.Store(host)
	n := int(a.asked.Add(1)) - 1
	return append([]netip.Addr(nil), a.lists[min(n, len(a.lists)-1)]...), nil
}

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// listen counts the connections to an address of loopback, on a port.
func listen(t *testing.T, hostPort string) (port string, hits *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", hostPort)
	if err != nil {
		t.Fatal(err)
	}
	hits = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, hits
}

// reach dials and reads the greeting, so that the listener has counted.
func reach(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), hostPort string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := dial(ctx, "tcp", hostPort)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 5))
	return err
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// TestDialRefuses: a name that leads to loopback is refused and nobody is
// reached; so is one of whose addresses a single one does. The control: the same
// name with that address allowed arrives.
//
// proves part of S-16
func TestDialRefuses(t *testing.T) {
	port, hits := listen(t, "127.0.0.1:0")
	for name, list := range map[string][]netip.Addr{
		"loopback": addrs("127.0.0.1"), "mapped": addrs("::ffff:127.0.0.1"), "one of two": addrs("8.8.8.8", "127.0.0.1"), "the other": addrs("127.0.0.1", "8.8.8.8"),
	} {
		r := &answers{lists: [][]netip.Addr{list}}
		err := reach(t, (&Dialer{Resolver: r}).DialContext, "api.test:"+port)
		if _, ok := errors.AsType[*AddressError](err); !ok || hits.Load() != 0 {
			t.Errorf("%s: %v, %d connections", name, err, hits.Load())
		}
		if r.name.Load() != "api.test." {
			t.Errorf("the resolver was asked for %q", r.name.Load())
		}
	}
	for _, list := range [][]netip.Addr{addrs("127.0.0.1"), addrs("::ffff:127.0.0.1")} {
		d := &Dialer{Resolver: &answers{lists: [][]netip.Addr{list}}, Allow: loopback}
		if err := reach(t, d.DialContext, "api.test:"+port); err != nil {
			t.Errorf("the control: %v", err)
		}
	}
	if hits.Load() != 2 {
		t.Errorf("the control made %d connections, want 2", hits.Load())
	}
}

// TestDialPins: a name whose answer changes between check and connection is
// connected to where it was checked. The control checks, then lets the name be
// resolved again, and arrives at the other.
//
// proves part of S-16
func TestDialPins(t *testing.T) {
	port, bad := listen(t, "127.0.0.1:0")
	_, good := listen(t, "127.0.0.2:"+port)
	rebinding := func() *answers { return &answers{lists: [][]netip.Addr{addrs("127.0.0.2"), addrs("127.0.0.1")}} }
	only := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}

	r := rebinding()
	if err := reach(t, (&Dialer{Resolver: r, Allow: only}).DialContext, "api.test:"+port); err != nil {
		t.Fatal(err)
	}
	if r.asked.Load() != 1 || good.Load() != 1 || bad.Load() != 0 {
		t.Errorf("asked %d times; %d connections to what was checked, %d to the other", r.asked.Load(), good.Load(), bad.Load())
	}

	d := &Dialer{Resolver: rebinding(), Allow: only}
	naive := func(ctx context.Context, network, hostPort string) (net.Conn, error) {
		if _, err := d.resolve(ctx, "api.test"); err != nil {
			return nil, err
		}
		list, err := d.lookup(ctx, "api.test")
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(list[0].String(), port))
	}
	if err := reach(t, naive, "api.test:"+port); err != nil || bad.Load() != 1 {
		t.Errorf("the control: %v, %d connections to the other", err, bad.Load())
	}
}

// An address of this host that looks public is refused like loopback.
//
// proves part of S-16
func TestDialOwnAddress(t *testing.T) {
	local := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	d := &Dialer{Local: local}
	if err := d.judge(netip.MustParseAddr("8.8.4.4")); err == nil || !strings.Contains(err.Error(), "this host") {
		t.Errorf("its own address: %v", err)
	}
	if err := d.judge(netip.MustParseAddr("::ffff:8.8.4.4")); err == nil {
		t.Error("its own address, mapped, passes")
	}
	if err := d.judge(netip.MustParseAddr("8.8.4.5")); err != nil {
		t.Errorf("the control, its neighbour: %v", err)
	}
	d.Local = func() ([]net.Addr, error) { return nil, errors.New("no") }
	if d.judge(netip.MustParseAddr("8.8.4.5")) == nil {
		t.Error("passes though the host's own addresses are not known")
	}
}

// Too many addresses, none, no port, another network: an error, no connection.
func TestDialOdd(t *testing.T) {
	many := make([]netip.Addr, maxAddresses+1)
	for i := range many {
		many[i] = netip.MustParseAddr("127.0.0.1")
	}
	for name, list := range map[string][]netip.Addr{"none": nil, "many": many} {
		d := &Dialer{Resolver: &answers{lists: [][]netip.Addr{list}}, Allow: loopback}
		if _, err := d.DialContext(t.Context(), "tcp", "api.test:1"); err == nil || !strings.Contains(err.Error(), "addresses") {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := &Dialer{Allow: loopback}
	for _, c := range [][2]string{{"udp", "127.0.0.1:1"}, {"tcp", "127.0.0.1"}, {"tcp", "127.0.0.1:x"}} {
		if _, err := d.DialContext(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%v connects", c)
		}
	}
}

// The second address is tried when the first does not answer.
func TestDialNext(t *testing.T) {
	port, hits := listen(t, "127.0.0.2:0")
	d := &Dialer{Resolver: &answers{lists: [][]netip.Addr{addrs("127.0.0.1", "127.0.0.2")}}, Allow: loopback}
	if err := reach(t, d.DialContext, "api.test:"+port); err != nil || hits.Load() != 1 {
		t.Errorf("%v, %d connections", err, hits.Load())
	}
}
