package egress

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestPublic has the first and last address of each block, and the addresses
// beside them.
//
// proves part of S-16
func TestPublic(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.255.255.255",
		"169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.0", "239.255.255.255", "240.0.0.0",
		"255.255.255.255", "168.63.129.16",
		"::", "::1", "::169.254.169.254", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:0:808:808", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::808:808", "100::1", "100:0:0:1::1", "2001::1", "2001:0:808:808::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1", "2001:db8::1",
		"2002:a9fe:a9fe::", "2002:7f00:1::1", "2002:c0a8:101::", "3fff::1", "3fff:fff:ffff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1",
		"ff02::1", "ff0e::1", "fe80::1%eth0", "2606:4700::1%eth0", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "1fff:ffff::1",
	} {
		if Public(netip.MustParseAddr(s)) == nil {
			t.Errorf("%s is called public", s)
		}
	}
	for _, s := range []string{
		"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.15", "168.63.129.17",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0",
		"192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "203.0.114.0", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2606:4700:4700::1111", "3ffe::1",
		"2606:4700::5efe:8.8.8.8", "2001:db9::1", "2003::1",
	} {
		if err := Public(netip.MustParseAddr(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	if Public(netip.Addr{}) == nil {
		t.Error("no address at all is called public")
	}
}

// TestPublicBesideNetip: whatever the standard library calls private, local or
// multicast is not public, on a hundred thousand random addresses.
func TestPublicBesideNetip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], r.Uint64())
		binary.BigEndian.PutUint64(b[8:], r.Uint64())
		if r.IntN(2) == 0 {
			b[0], b[1] = 0xfc|b[0]&3, b[1]&0xc0 // fc00::/6: ULA, link-local, multicast
		}
		for _, a := range []netip.Addr{netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[:4])), netip.AddrFrom4([4]byte(b[12:]))} {
			inside := a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()
			if inside && Public(a) == nil {
				t.Fatalf("%s is called public", a)
			}
		}
	}
}
