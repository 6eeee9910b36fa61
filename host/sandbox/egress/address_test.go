package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

// neighbourhood is a network that reaches loopback, and remembers it.
type neighbourhood struct{ *network }

func (n neighbourhood) DialPrivate(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, "private "+addr.String())
	n.mu.Unlock()
	return host{}.DialPrivate(ctx, addr)
}

// at says where the host of a credential is.
func at(t *testing.T, place string) func(*Credential) {
	addr, plain, err := ParseAddress(place)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Credential) { c.Upgrade, c.Address, c.Plain = true, addr, plain }
}

// placedAt is a proxy for which example.com is at an address of loopback, and other.t.example where its name leads.
func placedAt(t *testing.T, server *httptest.Server, place string, adjust ...func(*Config)) guarded {
	t.Helper()
	g := guard(t, server, nil, credential(t, "example.com", at(t, place)))
	g.proxy.config.Network = neighbourhood{g.network}
	g.network.answers["example.com"] = [][]string{{public}}
	for _, f := range adjust {
		f(&g.proxy.config)
	}
	return g
}

// TestHostAtAnAddress: a model gateway on the operator's own network gets the requests with the key, and its name is not resolved.
func TestHostAtAnAddress(t *testing.T) {
	server := newAPI(t, "example.com")
	gateway := httptest.NewServer(http.HandlerFunc(server.serve))
	defer gateway.Close()
	for _, c := range []struct{ name, place string }{{"plain", gateway.URL}, {"TLS", server.URL}} {
		t.Run(c.name, func(t *testing.T) {
			g := placedAt(t, nil, c.place, func(c *Config) { c.Roots = server.roots })
			answer, err := g.through("example.com", inner("POST", "/v1/x", "Authorization: Bearer placeholder", "Content-Length: 3")+"abc")
			if err != nil || !strings.Contains(answer, "POST example.com abc said Bearer *") || strings.Contains(answer, token) {
				t.Errorf("through a tunnel: %q (%v)", answer, err)
			}
			if answer := g.ask(get("example.com")); !strings.Contains(answer, "GET example.com  said Bearer *") {
				t.Errorf("without one: %q", answer)
			}
			if seen := server.seen.Load(); seen.Header.Get("Authorization") != "Bearer "+token || (seen.TLS != nil) != (c.name == "TLS") {
				t.Errorf("the gateway has seen %v, TLS %v", seen.Header, seen.TLS != nil)
			}
			if len(g.network.asked) != 0 {
				t.Errorf("resolved %q", g.network.asked)
			}
			for _, d := range g.decisions {
				if !d.Allowed || d.Reason != "reached as configured, at "+c.place || fmt.Sprint(d.Addrs) != "[127.0.0.1]" {
					t.Errorf("decision %+v", d)
				}
			}
		})
	}
}

// TestNothingElseReachesTheAddress: an address of one host opens no other way, to it or to anything near it.
func TestNothingElseReachesTheAddress(t *testing.T) {
	var seen atomic.Int64
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer gateway.Close()
	port := gateway.URL[strings.LastIndex(gateway.URL, ":")+1:]
	request := func(url, host string) string { return "GET " + url + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	everything := func(c *Config) { // whatever an allowlist can say
		for _, text := range []string{"example.com:" + port, "example.com:8443", "*.t.example:" + port, "*.example.com"} {
			rule, err := netaddr.ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			c.Rules = append(c.Rules, rule)
		}
	}
	for _, c := range []struct {
		name, text string
		adjust     func(*Config)
	}{
		{"the address itself", request("http://127.0.0.1:"+port+"/", "127.0.0.1:"+port), everything},
		{"a tunnel to the address", connect("127.0.0.1:" + port), everything},
		{"the address in IPv6", request("http://[::ffff:7f00:1]:"+port+"/", "[::ffff:7f00:1]:"+port), everything},
		{"loopback by its name", request("http://localhost:"+port+"/", "localhost:"+port), everything},
		{"the host on the gateway's port", request("http://example.com:"+port+"/", "example.com:"+port), everything},
		{"a tunnel to the host on the gateway's port", connect("example.com:" + port), everything},
		{"the host on another port", connect("example.com:8443"), everything},
		{"a name that resolves there", request("http://here.t.example:"+port+"/", "here.t.example:"+port), everything},
		{"a tunnel to a name that resolves there", connect("here.t.example:" + port), everything},
		{"a name below the host", request("http://api.example.com/", "api.example.com"), everything},
		{"a tunnel without an authority", connect("example.com:443"), func(c *Config) { c.Authority = nil }},
		{"no upgrade", request("http://example.com:443/", "example.com:443"), func(c *Config) { c.Credentials[0].Upgrade = false }},
		{"no upgrade on port 80", request("http://example.com/", "example.com"), func(c *Config) { c.Credentials[0].Upgrade = false }},
		{"another method", request("http://example.com/", "example.com"), func(c *Config) { c.Credentials[0].Methods = []string{"POST"} }},
		{"no secret", request("http://example.com/", "example.com"), func(c *Config) { c.Credentials[0].Value = func() string { return "" } }},
		{"a network of public addresses", request("http://example.com/", "example.com"), func(c *Config) { c.Network = c.Network.(neighbourhood).network }},
		{"another agent", request("http://example.com/", "example.com"), func(c *Config) { c.Credentials[0].Address = netip.AddrPort{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := placedAt(t, nil, gateway.URL, c.adjust)
			g.network.answers["here.t.example"], g.network.answers["localhost"] = [][]string{{"127.0.0.1"}}, [][]string{{"127.0.0.1"}}
			answer := g.ask(c.text)
			if !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 502") {
				t.Errorf("got %q", answer)
			}
			if n := seen.Load(); n != 0 || strings.Contains(strings.Join(g.network.dialled, " "), "private") {
				t.Errorf("the gateway has seen %d requests; dialled %q", n, g.network.dialled)
			}
		})
	}
}

// TestRedirectOfAGateway: the proxy follows none, and what a program asks for because of one is decided like any other.
func TestRedirectOfAGateway(t *testing.T) {
	var other atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer elsewhere.Close()
	gateway := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/x", http.StatusTemporaryRedirect))
	defer gateway.Close()
	g := placedAt(t, nil, gateway.URL)
	if answer := g.ask(get("example.com")); !strings.Contains(answer, "Location: "+elsewhere.URL+"/x") {
		t.Errorf("got %q", answer)
	}
	where := strings.TrimPrefix(elsewhere.URL, "http://")
	if answer := g.ask("GET " + elsewhere.URL + "/x HTTP/1.1\r\nHost: " + where + "\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 403") || other.Load() != 0 {
		t.Errorf("got %q, %d requests", answer, other.Load())
	}
}

func TestTheAddressIsVerified(t *testing.T) {
	server := newAPI(t, "somebody.else")
	g := placedAt(t, nil, server.URL, func(c *Config) { c.Roots = server.roots })
	if answer := g.ask(get("example.com")); !strings.HasPrefix(answer, "HTTP/1.1 502") || server.seen.Load() != nil {
		t.Errorf("got %q", answer)
	}
}

func TestParseAddress(t *testing.T) {
	for _, text := range []string{
		"http://192.168.1.10:4000", "https://10.0.0.1:443", "http://127.0.0.1:4000", "http://[::1]:4000", "https://[fd12::1]:4000", "http://100.64.0.7:4000",
	} {
		addr, plain, err := ParseAddress(text)
		if err != nil || (Credential{Address: addr, Plain: plain}).Place() != text {
			t.Errorf("%s: %v, %v, %v", text, addr, plain, err)
		}
	}
	for _, text := range []string{
		"", "192.168.1.10:4000", "http://192.168.1.10", "http://192.168.1.10:0", "http://192.168.1.10:4000/", "http://192.168.1.10:4000/v1", "http://localhost:4000",
		"http://litellm.lan:4000", "http://0.0.0.0:4000", "http://[::]:4000", "http://8.8.8.8:4000", "http://169.254.169.254:80", "http://100.100.100.200:80",
		"http://[fd00:ec2::254]:80", "http://[fd20:ce::254]:80", "http://[::ffff:10.0.0.1]:80", "http://[fe80::1%eth0]:80", "http://010.0.0.1:80", "http://10.1:80",
		"HTTP://10.0.0.1:80", "ftp://10.0.0.1:80", "http://user@10.0.0.1:80", "http://10.0.0.1:00080", "http://10.0.0.1:80\n", "http://224.0.0.1:80", "http://[2002:7f00:1::]:80",
	} {
		if addr, _, err := ParseAddress(text); err == nil {
			t.Errorf("%q is taken as %v", text, addr)
		}
	}
	for _, rule := range []string{"*.example.com:443", "example.com:80", "93.184.216.34:443"} {
		r, err := ParseCredential(rule)
		if err != nil {
			t.Fatal(err)
		}
		if (Credential{Rule: r, Header: "X", Address: netip.MustParseAddrPort("10.0.0.1:4000")}).Check() == nil {
			t.Errorf("%s may be at an address", rule)
		}
	}
}

// TestDialPrivate: no connection is made to an address that is not private.
func TestDialPrivate(t *testing.T) {
	for _, addr := range []string{"169.254.169.254:80", "0.0.0.0:80", public + ":80"} {
		conn, err := host{}.DialPrivate(t.Context(), netip.MustParseAddrPort(addr))
		if err == nil {
			_ = conn.(io.Closer).Close()
		}
		if err == nil || !strings.Contains(err.Error(), "is refused") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
