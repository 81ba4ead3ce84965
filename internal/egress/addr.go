package egress

import (
	"fmt"
	"net/netip"
)

// special are the IPv4 blocks that are no public unicast addresses, by IANA's
// registry of special purposes, and one public address that is a cloud's own
// (168.63.129.16, Azure). Those of other clouds lie within the blocks.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

// special6 are the blocks within 2000::/3 that are not public: protocols of the
// IETF with Teredo, documentation.
var special6 = prefixes("2001::/23", "2001:db8::/32", "3fff::/20")

var (
	unicast6  = netip.MustParsePrefix("2000::/3")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Public returns nil for an address of the public internet, and otherwise an
// error that says what it is instead. An IPv6 address that carries an IPv4
// address (mapped, NAT64 of 64:ff9b::/96, 6to4, ISATAP) is judged by that one
// too. A NAT64 prefix of a single network cannot be known here.
func Public(a netip.Addr) error {
	if !a.IsValid() || a.Zone() != "" {
		return fmt.Errorf("no address without a zone")
	}
	a = a.Unmap()
	if a.Is4() {
		if within(a, special) {
			return fmt.Errorf("an IPv4 address that is not public")
		}
		return nil
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return carried(b, 12)
	case !unicast6.Contains(a), within(a, special6):
		return fmt.Errorf("an IPv6 address that is not public")
	case sixToFour.Contains(a):
		return carried(b, 2)
	case (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return carried(b, 12)
	}
	return nil
}

// carried judges the IPv4 address that lies at byte i.
func carried(b [16]byte, i int) error {
	if within(netip.AddrFrom4([4]byte(b[i:i+4])), special) {
		return fmt.Errorf("an IPv6 address that carries an IPv4 address that is not public")
	}
	return nil
}
