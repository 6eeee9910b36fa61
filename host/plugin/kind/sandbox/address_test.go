package sandbox

import (
	"strings"
	"testing"
)

func TestCheckEndpoint(t *testing.T) {
	for _, c := range []struct {
		network, address string
		public, ok       bool
	}{
		{"unix", "/run/flynn/s", false, true},
		{"unix", "run/s", true, false},
		{"unix", "@abstract", true, false},
		{"unix", "\x00abstract", true, false},
		{"unix", "/run/\x00s", true, false},
		{"unix", "/run/../etc/s", true, false},
		{"unix", "/", true, false},
		{"unix", "", true, false},
		{"unix", "/" + strings.Repeat("x", maxSocket), true, false},
		{"tcp", "127.0.0.1:7000", false, true},
		{"tcp", "[::1]:7000", false, true},
		{"tcp", "10.1.2.3:7000", false, true},
		{"tcp", "172.17.0.2:7000", false, true},
		{"tcp", "[fd00::7]:7000", false, true},
		{"tcp", "93.184.216.34:7000", false, false},
		{"tcp", "93.184.216.34:7000", true, true},
		{"tcp", "169.254.169.254:80", true, false},
		{"tcp", "[fd00:ec2::254]:80", true, false},
		{"tcp", "100.100.100.200:80", true, false},
		{"tcp", "0.0.0.0:7000", true, false},
		{"tcp", "[::]:7000", true, false},
		{"tcp", "224.0.0.1:7000", true, false},
		{"tcp", "255.255.255.255:7000", true, false},
		{"tcp", "[fe80::1%eth0]:7000", true, false},
		{"tcp", "[::ffff:10.0.0.1]:7000", true, false},
		{"tcp", "localhost:7000", true, false},
		{"tcp", "10.0.0.1:http", true, false},
		{"tcp", "10.0.0.1:0", true, false},
		{"tcp", "10.0.0.1:70000", true, false},
		{"tcp", "10.0.0.1", true, false},
		{"tcp", " 10.0.0.1:7", true, false},
		{"tcp", "010.0.0.1:7", true, false},
		{"udp", "10.0.0.1:7", true, false},
		{"", "", true, false},
	} {
		if err := checkEndpoint(c.network, c.address, c.public); (err == nil) != c.ok {
			t.Errorf("%s %q, public %v: %v", c.network, c.address, c.public, err)
		}
	}
}

// FuzzEndpoint: whatever a driver says, an accepted address means one place.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{"/s", "127.0.0.1:1", "[::1]:2", "a\x00:3"} {
		f.Add("unix", seed)
		f.Add("tcp", seed)
	}
	f.Fuzz(func(t *testing.T, network, address string) {
		if checkEndpoint(network, address, true) == nil && strings.ContainsAny(address, "\x00\n @%") && network == "tcp" {
			t.Errorf("%s %q is accepted", network, address)
		}
	})
}
