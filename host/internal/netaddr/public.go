package netaddr

import (
	"fmt"
	"net/netip"
	"slices"
)

// Public refuses every address that is not on the public internet: a connection for a model must not reach into the
// network of the host. An IPv4 address in the form of IPv6 counts as the IPv4 address.
func Public(a netip.Addr) error {
	ip := a.Unmap()
	if ip.Zone() == "" {
		for _, refused := range refusedPrefixes(ip) {
			if refused.Contains(ip) {
				return fmt.Errorf("address %s is refused: it is not public (%s)", ip, refused)
			}
		}
		// All IPv6 unicast in use lies in 2000::/3; ranges that IANA adds elsewhere are refused until they are known.
		if ip.Is4() || netip.MustParsePrefix("2000::/3").Contains(ip) {
			return nil
		}
	}
	return fmt.Errorf("address %s is refused: it is not public", ip)
}

// Private refuses every address but those of loopback and of private networks, where an operator may name one service. Metadata
// addresses of clouds are refused there, too.
func Private(a netip.Addr) error {
	if a.Zone() == "" && !a.Is4In6() {
		metadata := []string{"100.100.100.200/32", "fd00:ec2::/32", "fd20:ce::/32"} // of Alibaba, AWS and Google
		private := []string{"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "::1/128"}
		if !within(a, metadata) && within(a, private) {
			return nil
		}
	}
	return fmt.Errorf("address %s is refused: it is neither a loopback address nor one of a private network", a)
}

func within(a netip.Addr, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return netip.MustParsePrefix(p).Contains(a) })
}

// refusedPrefixes are the special-purpose ranges of RFC 6890 and its registries, and the metadata addresses of clouds.
// Ranges that carry an IPv4 address inside (NAT64, 6to4, Teredo) are refused whole.
func refusedPrefixes(ip netip.Addr) []netip.Prefix {
	texts := []string{
		"2001::/23",     // protocol assignments, Teredo among them
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4
		"3fff::/20",     // documentation
		"64:ff9b::/96",  // NAT64
		"64:ff9b:1::/48",
		"fc00::/7",  // unique local
		"fe80::/10", // link local
		"ff00::/8",  // multicast
		"::/96",     // unspecified, loopback, IPv4-compatible
	}
	if ip.Is4() {
		texts = []string{
			"0.0.0.0/8",          // this network
			"10.0.0.0/8",         // private
			"100.64.0.0/10",      // carrier-grade NAT; 100.100.100.200 of Alibaba
			"127.0.0.0/8",        // loopback
			"168.63.129.16/32",   // Azure's wire server
			"169.254.0.0/16",     // link local; 169.254.169.254 of most clouds
			"172.16.0.0/12",      // private
			"192.0.0.0/24",       // protocol assignments; 192.0.0.192 of Oracle
			"192.0.2.0/24",       // documentation
			"192.88.99.0/24",     // 6to4 relays
			"192.168.0.0/16",     // private
			"198.18.0.0/15",      // benchmarks
			"198.51.100.0/24",    // documentation
			"203.0.113.0/24",     // documentation
			"224.0.0.0/4",        // multicast
			"240.0.0.0/4",        // reserved
			"255.255.255.255/32", // broadcast
		}
	}
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}
