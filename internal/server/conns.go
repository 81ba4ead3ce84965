package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// limitListener bounds the connections that are open at once, and those of one address,
// of which there are three quarters at most: others get in, whatever it does.
type limitListener struct {
	net.Listener
	places chan struct{}

	mu  sync.Mutex
	had map[netip.Addr]int
}

func newLimitListener(l net.Listener, conns int) *limitListener {
	return &limitListener{Listener: l, places: make(chan struct{}, conns), had: map[netip.Addr]int{}}
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		l.places <- struct{}{}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.places
			return nil, err
		}
		from := addressOf(c.RemoteAddr())
		if !l.enter(from) {
			_ = c.Close()
			<-l.places
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok { // by itself the kernel keeps up to 4 MiB for a client who does not read
			_ = tcp.SetWriteBuffer(sendBuffer)
		}
		return &limitedConn{Conn: c, leave: func() { l.exit(from) }}, nil
	}
}

// addressOf is what counts as one address: of IPv6 the network that a host has.
func addressOf(a net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	ip := p.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip
	}
	return netip.PrefixFrom(ip, 64).Masked().Addr()
}

func (l *limitListener) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.had[from] >= max(1, cap(l.places)/4*3) {
		return false
	}
	l.had[from]++
	return true
}

func (l *limitListener) exit(from netip.Addr) {
	l.mu.Lock()
	if l.had[from]--; l.had[from] == 0 {
		delete(l.had, from)
	}
	l.mu.Unlock()
	<-l.places
}

type limitedConn struct {
	net.Conn
	left  atomic.Bool
	leave func()
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	if c.left.CompareAndSwap(false, true) {
		c.leave()
	}
	return err
}
