package netaddr

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for _, c := range []struct {
		addr   string
		public bool
	}{
		{"93.184.216.34", true},
		{"8.8.8.8", true},
		{"172.32.0.1", true},
		{"100.128.0.1", true},
		{"2606:2800:220:1:248:1893:25c8:1946", true},

		{"127.0.0.1", false}, {"127.255.255.254", false}, {"0.0.0.0", false}, {"0.1.2.3", false},
		{"10.0.0.1", false}, {"172.16.0.1", false}, {"172.31.255.255", false}, {"192.168.1.1", false},
		{"169.254.169.254", false}, {"100.64.0.1", false}, {"100.100.100.200", false}, {"168.63.129.16", false},
		{"192.0.0.192", false}, {"192.0.2.1", false}, {"198.18.0.1", false}, {"198.51.100.1", false}, {"203.0.113.1", false},
		{"192.88.99.1", false}, {"224.0.0.1", false}, {"239.1.2.3", false}, {"240.0.0.1", false}, {"255.255.255.255", false},
		{"::", false}, {"::1", false}, {"::7f00:1", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fec0::1", false},
		{"fc00::1", false}, {"fd00:ec2::254", false}, {"ff02::1", false},
		{"::ffff:127.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"::ffff:169.254.169.254", false}, {"::ffff:8.8.8.8", true},
		{"64:ff9b::7f00:1", false}, {"64:ff9b::808:808", false}, {"64:ff9b:1::1", false},
		{"2002:7f00:1::", false}, {"2001::1", false}, {"2001:db8::1", false}, {"3fff::1", false}, {"100::1", false}, {"4000::1", false},
		{"2606:2800::1%eth0", false},
	} {
		err := Public(netip.MustParseAddr(c.addr))
		if (err == nil) != c.public {
			t.Errorf("%s: %v, want public %v", c.addr, err, c.public)
		}
	}
}
