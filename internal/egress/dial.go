package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxAddresses is how many addresses a name may have.
const maxAddresses = 64

// Resolver finds the addresses of a name. *net.Resolver is one. A name with a
// dot in it is asked for with a dot at its end, so that no search domain of the
// host is tried.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// AddressError says that a name leads to an address where nothing may go.
type AddressError struct {
	Host    string
	Address netip.Addr
	Reason  string
}

// Error names host, address and reason: it is for the host's eyes.
func (e *AddressError) Error() string {
	return fmt.Sprintf("%s is at %s, %s", e.Host, e.Address, e.Reason)
}

// Dialer connects to public addresses. The zero value uses the host's resolver.
// It is safe for concurrent use once it is set.
type Dialer struct {
	// Resolver is asked once for each connection. Nil is net.DefaultResolver.
	Resolver Resolver
	// Allow lists addresses that may be reached though they are not public, or
	// are the host's own.
	Allow []netip.Prefix
	// Local returns the addresses of this host, which are refused like private
	// ones. Nil is net.InterfaceAddrs.
	Local func() ([]net.Addr, error)
}

// DialContext connects as net.Dialer does, for net/http. Every address of the
// host is judged first and one that must not be reached refuses all, with an
// *AddressError; the connection goes to one of those that were judged.
func (d *Dialer) DialContext(ctx context.Context, network, hostPort string) (net.Conn, error) {
	if network != "tcp" {
		return nil, fmt.Errorf("no network %q", network)
	}
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var failures []error
	for i, a := range addrs {
		c, err := dialPinned(ctx, netip.AddrPortFrom(a, uint16(port)), len(addrs)-i)
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

// resolve returns the addresses of a host, all of which may be reached.
func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 || len(addrs) > maxAddresses {
		return nil, fmt.Errorf("%s has %d addresses, which must be 1 to %d", host, len(addrs), maxAddresses)
	}
	judged := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		if why := d.judge(a); why != nil {
			return nil, &AddressError{host, a, why.Error()}
		}
		judged = append(judged, a.Unmap())
	}
	return judged, nil
}

func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if strings.Contains(host, ".") {
		host += "."
	}
	var r Resolver = net.DefaultResolver
	if d.Resolver != nil {
		r = d.Resolver
	}
	return r.LookupNetIP(ctx, "ip", host)
}

// judge says why an address must not be reached, or nil.
func (d *Dialer) judge(a netip.Addr) error {
	if a.Zone() == "" && within(a.Unmap(), d.Allow) {
		return nil
	}
	if err := Public(a); err != nil {
		return err
	}
	local := d.Local
	if local == nil {
		local = net.InterfaceAddrs
	}
	own, err := local()
	if err != nil {
		return fmt.Errorf("and this host's own addresses cannot be read: %w", err)
	}
	for _, o := range own {
		if p, ok := o.(*net.IPNet); ok {
			if mine, ok := netip.AddrFromSlice(p.IP); ok && mine.Unmap() == a.Unmap() {
				return fmt.Errorf("an address of this host itself")
			}
		}
	}
	return nil
}

// dialPinned connects to one address, in its share of the time when several are
// left. What the socket is told is compared with it once more, where the kernel
// gets it.
func dialPinned(ctx context.Context, to netip.AddrPort, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		share, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
		ctx = share
	}
	dialer := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if got, err := netip.ParseAddrPort(address); err != nil || got != to {
			return fmt.Errorf("a connection to %s was about to go to %s", to, address)
		}
		return nil
	}}
	return dialer.DialContext(ctx, "tcp", to.String())
}
