package selftest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	proxyRow     = "proxy tricks"
	proxySetting = "upgrade Flynn: its proxy must refuse this; until then write network = \"none\" in [sandbox]"
	proxyAddress = "127.0.0.1:3128"
)

// nowhere is the network of the suite's proxies: an attacker's name server, and no connections.
type nowhere struct{}

func (nowhere) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	texts := map[string][]string{
		"private.t.example": {"10.0.0.1"}, "loopback.t.example": {"127.0.0.1"}, "metadata.t.example": {"169.254.169.254"},
		"mapped.t.example": {"::ffff:169.254.169.254"}, "shared.t.example": {"100.64.0.1"}, "mixed.t.example": {"93.184.216.34", "192.168.0.1"},
		"listed.t.example": {"93.184.216.34"},
	}[name]
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("no such host as %s", name)
	}
	return addrs, nil
}

func (nowhere) Dial(context.Context, netip.AddrPort) (net.Conn, error) {
	return nil, errors.New("the self-test connects to nothing")
}

// proxied returns the attacked sandbox with the proxy that it would have, whatever its own network.
func proxied(s spec.Spec) spec.Spec {
	s.Network, s.Allowlist, s.Credentials = "allowlist", []string{"*.t.example"}, nil
	return withBridge(s)
}

// asking attacks the proxy.
func asking(text string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		behind := *s
		behind.Target = s.Proxied
		return program("ask "+proxyAddress+" "+base64.StdEncoding.EncodeToString([]byte(text)))(ctx, &behind)
	}
}

// proxyProbes request what no proxy may give. In the controls, a proxy that gives everything replaces it.
func proxyProbes() []Probe {
	plain := func(host string) string { return "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	tunnel := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	// It answers everything on the proxy's port (0C38), unless something already listens there.
	standIn := "grep -q ':0C38 .* 0A ' /proc/net/tcp && exit 0\n" + serving("tcp", proxyAddress)
	const inside = "the proxy stands on the host, and what it reaches there is the owner's own"
	var probes []Probe
	for _, p := range []struct{ name, why, text string }{
		{"not-listed", "data leaves to anybody", plain("evil.example")},
		{"tunnel-to-address", "an address stands on no list", tunnel("1.1.1.1:443")},
		{"tunnel-to-metadata", "the cloud's metadata service hands out the machine's credentials", tunnel("169.254.169.254:80")},
		{"decimal-address", "an address in another spelling passes checks of names", tunnel("2852039166:80")},
		{"final-dot", "two spellings of one name pass two checks", plain("listed.t.example.")},
		{"mixed-case", "two spellings of one name pass two checks", plain("Listed.T.Example")},
		{"name-of-loopback", inside, plain("loopback.t.example")},
		{"name-of-private", inside, plain("private.t.example")},
		{"name-of-metadata", inside, plain("metadata.t.example")},
		{"name-of-mapped", inside, plain("mapped.t.example")},
		{"name-of-shared", inside, plain("shared.t.example")},
		{"one-bad-address", "a name with a good address and a bad one is dialled at either", plain("mixed.t.example")},
		{"other-host-field", "the server obeys the field, and the list looks at the target", "GET http://listed.t.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
		{"bare-line-feed", "what one reads as one request another reads as two", "GET http://listed.t.example/ HTTP/1.1\nHost: listed.t.example\n\n"},
	} {
		probes = append(probes, Probe{
			Name: "proxy/" + p.name, Row: proxyRow, Why: p.why, Setting: proxySetting, Run: asking(p.text),
			Control: always(Control{Weakness: docker.Weakness{Powerful: true}, Root: true, Setup: standIn}),
		})
	}
	return probes
}
