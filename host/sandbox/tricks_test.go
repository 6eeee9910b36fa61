package sandbox_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// trickNetwork resolves as an attacker's name server would, and notes what would be dialled. Only publicAddr leads anywhere.
type trickNetwork struct {
	listener string

	mu      sync.Mutex
	answers map[string][]string // one after the other, the last again and again
	dialled []string
}

func (n *trickNetwork) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.answers[name]
	if len(answers) == 0 {
		return nil, fmt.Errorf("no such host as %s", name)
	}
	if len(answers) > 1 {
		n.answers[name] = answers[1:]
	}
	var addrs []netip.Addr
	for text := range strings.SplitSeq(answers[0], " ") {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

func (n *trickNetwork) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, addr.String())
	n.mu.Unlock()
	if addr.Addr() != publicAddr {
		return nil, fmt.Errorf("the test has no address %s", addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", n.listener)
}

// ownAddr is a public address of the host itself.
var ownAddr = netip.MustParseAddr("93.184.216.35")

func (*trickNetwork) Own() ([]netip.Addr, error) { return []netip.Addr{ownAddr}, nil }

// dials returns what was dialled since it was last asked.
func (n *trickNetwork) dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.dialled
	n.dialled = nil
	return was
}

// Every trick that a request, a name or an address can play, from a program in a real container.
func TestProxyTricks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "served %s %q", r.Host, body)
	}))
	defer server.Close()
	network := &trickNetwork{listener: server.Listener.Addr().String(), answers: map[string][]string{
		"files.example": {publicAddr.String()}, "rebind.t.example": {publicAddr.String(), "127.0.0.1"},
		"private.t.example": {"10.0.0.1"}, "private172.t.example": {"172.16.5.4"}, "private192.t.example": {"192.168.1.1"},
		"loop.t.example": {"127.0.0.1"}, "loop6.t.example": {"::1"}, "link.t.example": {"169.254.0.7"}, "link6.t.example": {"fe80::1"},
		"meta.t.example": {"169.254.169.254"}, "mapped.t.example": {"::ffff:169.254.169.254"}, "nat64.t.example": {"64:ff9b::a9fe:a9fe"},
		"meta6.t.example": {"fd00:ec2::254"}, "cgnat.t.example": {"100.64.0.1"}, "alibaba.t.example": {"100.100.100.200"},
		"azure.t.example": {"168.63.129.16"}, "any.t.example": {"0.0.0.0"}, "own.t.example": {ownAddr.String()}, "bridge.t.example": {"172.17.0.1"},
		"mixed.t.example": {publicAddr.String() + " 127.0.0.1"}, "many.t.example": {"224.0.0.1"}, "teredo.t.example": {"2001::1"},
		"xn--exmple-cua.t.example": {publicAddr.String()},
	}}
	var noted decisions
	m, config := sandboxtest.Engine(t).Manager(t, func(c *sandbox.Config) {
		c.SetNetwork(network)
		c.Egress = &noted
		c.Spec.Network, c.Spec.Allowlist = "allowlist", []string{"files.example", "*.t.example"}
	})
	s := get(t, m, "s", config.Spec)
	ask := func(t *testing.T, text string) string {
		t.Helper()
		r := run(t, s, machine.Command{
			Script: "echo " + base64.StdEncoding.EncodeToString([]byte(text)) + " | base64 -d | nc -w 5 127.0.0.1 3128", Timeout: 20 * time.Second,
		})
		return string(r.Stdout)
	}
	plain := func(host string) string { return "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	tunnel := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	with := func(lines ...string) string {
		return "POST http://files.example/ HTTP/1.1\r\nHost: files.example\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	for _, c := range []struct{ name, text, want string }{
		{"as it should be", plain("files.example"), "200"},
		{"punycode as it is listed", plain("xn--exmple-cua.t.example"), "200"},

		{"NUL in the host", plain("files.example\x00.evil.org"), "400"},
		{"encoded NUL", plain("files.example%00.evil.org"), "400"},
		{"final dot", plain("files.example."), "400"},
		{"mixed case", plain("Files.Example"), "400"},
		{"userinfo", plain("files.example@evil.org"), "400"},
		{"userinfo before it", plain("evil.org@files.example"), "400"},
		{"backslash", plain(`files.example\@evil.org`), "400"},
		{"fragment", plain("evil.org#files.example"), "400"},
		{"other scripts", plain("files.еxample"), "400"},
		{"full-width dot", plain("files。example"), "400"},
		{"port that wraps", plain("files.example:65616"), "400"},
		{"port with a sign", plain("files.example:+80"), "400"},

		{"tunnel to an address", tunnel("1.1.1.1:443"), "403"},
		{"decimal", tunnel("2852039166:80"), "400"},
		{"octal", tunnel("0251.0376.0251.0376:80"), "400"},
		{"hexadecimal", tunnel("0xa9fea9fe:80"), "400"},
		{"hexadecimal parts", tunnel("0xa9.0xfe.0xa9.0xfe:80"), "400"},
		{"two parts", tunnel("127.1:80"), "400"},
		{"leading zeros", tunnel("127.000.000.001:80"), "400"},
		{"mapped", tunnel("[::ffff:169.254.169.254]:80"), "400"},
		{"mapped in hexadecimal", tunnel("[::ffff:a9fe:a9fe]:80"), "400"},
		{"IPv6 loopback", tunnel("[::1]:80"), "403"},
		{"IPv6 at length", tunnel("[0:0:0:0:0:0:0:1]:80"), "400"},
		{"zone", tunnel("[fe80::1%lo]:80"), "400"},
		{"encoded zone", tunnel("[fe80::1%25lo]:80"), "400"},
		{"metadata", tunnel("169.254.169.254:80"), "403"},

		{"rebinding, the first time", plain("rebind.t.example"), "200"},
		{"rebinding, the second", plain("rebind.t.example"), "403"},
		{"private", plain("private.t.example"), "403"},
		{"private 172", plain("private172.t.example"), "403"},
		{"private 192", plain("private192.t.example"), "403"},
		{"loopback", plain("loop.t.example"), "403"},
		{"loopback of IPv6", plain("loop6.t.example"), "403"},
		{"link local", plain("link.t.example"), "403"},
		{"link local of IPv6", plain("link6.t.example"), "403"},
		{"name of metadata", plain("meta.t.example"), "403"},
		{"name of mapped metadata", plain("mapped.t.example"), "403"},
		{"name of metadata behind NAT64", plain("nat64.t.example"), "403"},
		{"name of metadata in IPv6", plain("meta6.t.example"), "403"},
		{"carrier-grade NAT", plain("cgnat.t.example"), "403"},
		{"another cloud's metadata", plain("alibaba.t.example"), "403"},
		{"a third's", plain("azure.t.example"), "403"},
		{"any address", plain("any.t.example"), "403"},
		{"the host's own address", plain("own.t.example"), "403"},
		{"the engine's bridge", plain("bridge.t.example"), "403"},
		{"one bad among good", plain("mixed.t.example"), "403"},
		{"multicast", plain("many.t.example"), "403"},
		{"Teredo", plain("teredo.t.example"), "403"},
		{"tunnel to a private name", tunnel("private.t.example:443"), "403"},

		{"Host differs", "GET http://files.example/ HTTP/1.1\r\nHost: evil.org\r\n\r\n", "400"},
		{"two Host fields", "GET http://files.example/ HTTP/1.1\r\nHost: files.example\r\nHost: evil.org\r\n\r\n", "400"},
		{"no Host field", "GET http://files.example/ HTTP/1.1\r\n\r\n", "400"},
		{"space before the colon", with("X : y"), "400"},
		{"folded line", with("X: y", " Host: evil.org"), "400"},
		{"bare LF", "GET http://files.example/ HTTP/1.1\nHost: files.example\n\n", "400"},
		{"CR in a value", with("X: y\rHost: evil.org"), "400"},
		{"length and chunks", with("Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n", "400"},
		{"two lengths", with("Content-Length: 1", "Content-Length: 2") + "ab", "400"},
		{"list of lengths", with("Content-Length: 1, 1") + "a", "400"},
		{"signed length", with("Content-Length: +1") + "a", "400"},
		{"other coding", with("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n", "501"},
		{"hidden coding", with("Transfer-Encoding: xchunked") + "0\r\n\r\n", "501"},
		{"origin form", "GET / HTTP/1.1\r\nHost: files.example\r\n\r\n", "400"},
		{"other scheme", "GET ftp://files.example/ HTTP/1.1\r\nHost: files.example\r\n\r\n", "400"},
		{"HTTP/0.9", "GET http://files.example/\r\n\r\n", "400"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
	} {
		t.Run(c.name, func(t *testing.T) {
			network.dials()
			if got := ask(t, c.text); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
				t.Errorf("got %.200q, want %s", got, c.want)
			}
			if dialled := network.dials(); len(dialled) > 0 != (c.want == "200") {
				t.Errorf("dialled %q", dialled)
			}
		})
	}
	// Requests that are let in, but of which nothing more than what was decided on may reach the server.
	for _, c := range []struct{ name, text, want, not string }{
		{"pipelined", plain("files.example") + plain("evil.org"), "served files.example", "evil"},
		{"chunk that ends early", with("Transfer-Encoding: chunked") + "0\r\n\r\nGET http://evil.org/ HTTP/1.1\r\nHost: evil.org\r\n\r\n", `served files.example ""`, "evil"},
		{"chunk with a huge size", with("Transfer-Encoding: chunked") + "ffffffffffffffff1\r\na\r\n0\r\n\r\n", "", "served"},
		{"chunk that is none", with("Transfer-Encoding: chunked") + "zz\r\nab\r\n0\r\n\r\n", "", "served"},
		{"trailer", with("Transfer-Encoding: chunked", "Trailer: Host") + "1\r\na\r\n0\r\nHost: evil.org\r\n\r\n", `served files.example "a"`, "evil"},
		{"upgrade", with("Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Content-Length: 0"), "served files.example", "101"},
		{"greeting to another name", tunnel("files.example:443") + "\x16\x03\x01\x00\x05hello", "HTTP/1.1 200 Connection Established", "served"},
	} {
		t.Run(c.name, func(t *testing.T) {
			network.dials()
			if got := ask(t, c.text); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
				t.Errorf("got %.300q", got)
			}
			if dialled := network.dials(); len(dialled) > 1 {
				t.Errorf("dialled %q", dialled)
			}
		})
	}
	noted.mu.Lock()
	defer noted.mu.Unlock()
	if len(noted.seen) < 70 {
		t.Errorf("only %d decisions were told", len(noted.seen))
	}
}
