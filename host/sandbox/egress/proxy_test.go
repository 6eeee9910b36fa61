package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
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

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

const public = "93.184.216.34"

// network resolves names to what the test says, one answer after the other, and leads the public address to a listener of
// the test's own.
type network struct {
	listener string

	mu      sync.Mutex
	answers map[string][][]string
	asked   []string
	dialled []string
}

func (n *network) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	answers := n.answers[name]
	if len(answers) == 0 {
		return nil, errors.New("no such host")
	}
	var addrs []netip.Addr
	for _, a := range answers[0] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if len(answers) > 1 {
		n.answers[name] = answers[1:]
	}
	return addrs, nil
}

func (n *network) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, addr.String())
	n.mu.Unlock()
	if addr.Addr() != netip.MustParseAddr(public) {
		return nil, fmt.Errorf("no route to %s", addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", n.listener)
}

// bench is a proxy before a server of the test's own.
type bench struct {
	t       *testing.T
	proxy   *Proxy
	network *network

	mu        sync.Mutex
	decisions []Decision
}

// setUp returns a proxy that allows example.com and a few more.
func setUp(t *testing.T, server *httptest.Server, adjust ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t}
	b.network = &network{answers: map[string][][]string{
		"example.com": {{public}}, "rebinding.t.example": {{public}, {"127.0.0.1"}}, "private.t.example": {{"10.0.0.1"}},
		"mixed.t.example": {{public, "192.168.0.1"}}, "mapped.t.example": {{"::ffff:169.254.169.254"}}, "nat64.t.example": {{"64:ff9b::7f00:1"}},
		"second.t.example": {{"2606:2800::1", public}}, "empty.t.example": {{}}, "shared.t.example": {{"100.64.0.1"}}, "local.t.example": {{"fe80::1"}},
		"this.t.example": {{"0.0.0.0"}}, "many.t.example": {{"224.0.0.1"}}, "plainmapped.t.example": {{"::ffff:" + public}},
	}}
	if server != nil {
		b.network.listener = server.Listener.Addr().String()
	}
	rules, err := netaddr.ParseRules([]string{"example.com", "*.t.example", "GET read.only.org", "198.41.0.4"})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Rules: rules, Network: b.network, Decided: func(d Decision) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.decisions = append(b.decisions, d)
	}}
	for _, f := range adjust {
		f(&c)
	}
	b.proxy = New(c)
	return b
}

// connect returns the program's end of a connection that is served until the test ends.
func (b *bench) connect() net.Conn {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	defer listener.Close()
	program, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	served, err := listener.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.proxy.Serve(context.Background(), served)
	}()
	b.t.Cleanup(func() { program.Close(); <-done })
	_ = program.SetDeadline(time.Now().Add(time.Minute))
	return program
}

// ask sends a request and returns all that comes back.
func (b *bench) ask(text string) string {
	b.t.Helper()
	conn := b.connect()
	go func() { _, _ = io.WriteString(conn, text) }() // the proxy need not read it all
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		b.t.Errorf("read answer: %v", err)
	}
	return string(answer)
}

// summary returns the decisions so far, in short.
func (b *bench) summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, d := range b.decisions {
		all = append(all, fmt.Sprintf("%s %s:%d %v", d.Method, d.Host, d.Port, d.Allowed))
	}
	return strings.Join(all, ", ")
}

func get(host string) string {
	return "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForward(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("X-Kept", "yes")
		fmt.Fprintf(w, "%s %s %s %d %q %v", r.Method, r.Host, r.RequestURI, r.ContentLength, body, r.Header)
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1/x", http.StatusFound)
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", 64<<10)) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "//") {
			r.URL.Path = "/" // the multiplexer would redirect
		}
		mux.ServeHTTP(w, r)
	}))
	defer server.Close()
	const head = " HTTP/1.1\r\nHost: example.com\r\n"
	for _, c := range []struct{ name, text, want, not string }{
		{"plain", get("example.com"), `GET example.com / 0 "" map[Connection:[close]]`, "Proxy-Authenticate"},
		{"headers of one hop", "GET http://example.com/" + head + "Connection: X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nX-End: 1\r\nUpgrade: h2c\r\n\r\n", "map[Connection:[close] X-End:[1]]", "X-Hop"},
		{"kept", get("example.com"), "X-Kept: yes", ""},
		{"two slashes", "GET http://example.com//evil.org/%2e%2e/x?y=%00" + head + "\r\n", "GET example.com //evil.org/%2e%2e/x?y=%00", ""},
		{"body", "POST http://example.com/a" + head + "Content-Length: 3\r\n\r\nabc", `POST example.com /a 3 "abc"`, ""},
		{"body in chunks", "POST http://example.com/a" + head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", `/a -1 "abcd"`, ""},
		{"a second request behind the first", get("example.com") + "GET /smuggled" + head + "\r\n", "GET example.com / 0", "smuggled"},
		{"a second request in the body", "GET http://example.com/" + head + "Content-Length: 5\r\n\r\nGET /smuggled" + head + "\r\n", `5 "GET /"`, "smuggled"},
		{"awaits 100", "POST http://example.com/a" + head + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK", "Expect"},
		{"HTTP/1.0", "GET http://example.com/ HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK", "chunked"},
		{"redirect is not followed", "GET http://example.com/redirect" + head + "\r\n", "302 Found", ""},
		{"login of a proxy", "GET http://example.com/login" + head + "\r\n", "502 Bad Gateway", "407"},
		{"long response head", "GET http://example.com/head" + head + "\r\n", "502 Bad Gateway", "X-Long"},
		{"second address", get("second.t.example"), "GET second.t.example / 0", ""},
		{"mapped but public", get("plainmapped.t.example"), "200 OK", ""},
		{"listed method", get("read.only.org"), "502 Bad Gateway", ""}, // allowed, and has no address
		{"other method", "DELETE http://read.only.org/ HTTP/1.1\r\nHost: read.only.org\r\n\r\n", "403 Forbidden", ""},
		{"chunks that are none", "POST http://example.com/a" + head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "502 Bad Gateway", "200"},
		{"body too long", "POST http://example.com/a" + head + "Content-Length: 9999999\r\n\r\n", "413 Request Entity Too Large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t, server, func(c *Config) { c.MaxBody = 1 << 20 })
			got := b.ask(c.text)
			if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got %.600q, want %q without %q; decisions %s", got, c.want, c.not, b.summary())
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		b := setUp(t, server, func(c *Config) { c.MaxBody = 1 << 20 })
		if n := len(b.ask("GET http://example.com/endless" + head + "\r\n")); n < 1<<19 || n > 1<<20+4096 {
			t.Errorf("%d bytes came", n)
		}
	})
}

// A refused connection is logged, and nothing is dialled for it.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, text, want, decision string
		resolved                   bool
	}{
		{"not listed", get("evil.org"), "403", "GET evil.org:80 false", false},
		{"port not listed", get("example.com:8080"), "403", "GET example.com:8080 false", false},
		{"tunnel to a port not listed", "CONNECT example.com:22 HTTP/1.1\r\n\r\n", "403", "CONNECT example.com:22 false", false},
		{"tunnel to an address", "CONNECT " + public + ":443 HTTP/1.1\r\n\r\n", "403", "CONNECT 93.184.216.34:443 false", false},
		{"tunnel to metadata", "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "403", "CONNECT 169.254.169.254:80 false", false},
		{"tunnel to loopback", "CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "403", "CONNECT ::1:443 false", false},
		{"private", get("private.t.example"), "403", "GET private.t.example:80 false", true},
		{"private among public", get("mixed.t.example"), "403", "GET mixed.t.example:80 false", true},
		{"mapped", get("mapped.t.example"), "403", "GET mapped.t.example:80 false", true},
		{"NAT64", get("nat64.t.example"), "403", "GET nat64.t.example:80 false", true},
		{"carrier-grade NAT", get("shared.t.example"), "403", "GET shared.t.example:80 false", true},
		{"link local", get("local.t.example"), "403", "GET local.t.example:80 false", true},
		{"this host", get("this.t.example"), "403", "GET this.t.example:80 false", true},
		{"multicast", get("many.t.example"), "403", "GET many.t.example:80 false", true},
		{"tunnel to private", "CONNECT private.t.example:443 HTTP/1.1\r\n\r\n", "403", "CONNECT private.t.example:443 false", true},
		{"no such name", get("missing.t.example"), "502", "GET missing.t.example:80 false", true},
		{"name without an address", get("empty.t.example"), "502", "GET empty.t.example:80 false", true},
		{"malformed", get("example.com."), "400", " :0 false", false},
		{"HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505", " :0 false", false},
		{"TLS to the proxy itself", "\x16\x03\x01", "400", " :0 false", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t, nil)
			if got := b.ask(c.text); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
				t.Errorf("got %.200q", got)
			}
			if got := b.summary(); got != c.decision {
				t.Errorf("decisions %q, want %q", got, c.decision)
			}
			if (len(b.network.asked) > 0) != c.resolved || len(b.network.dialled) > 0 {
				t.Errorf("resolved %q, dialled %q", b.network.asked, b.network.dialled)
			}
		})
	}
}

// A name is resolved once for each connection, and what it answers later does not count.
func TestRebinding(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	b := setUp(t, server)
	if got := b.ask(get("rebinding.t.example")); !strings.HasPrefix(got, "HTTP/1.1 404") {
		t.Errorf("got %.100q", got)
	}
	if len(b.network.asked) != 1 || len(b.network.dialled) != 1 || b.network.dialled[0] != public+":80" {
		t.Errorf("resolved %q, dialled %q", b.network.asked, b.network.dialled)
	}
	if got := b.ask(get("rebinding.t.example")); !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("got %.100q", got)
	}
	if len(b.network.dialled) != 1 {
		t.Errorf("dialled %q", b.network.dialled)
	}
}

// The host's own network refuses by itself to dial what is not public.
func TestHostNetwork(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := host{}.Dial(t.Context(), netip.MustParseAddrPort(listener.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), "not public") {
		t.Errorf("got %v (%v)", conn, err)
	}
}

// tunnelTo opens a tunnel.
func (b *bench) tunnelTo(target string) net.Conn {
	b.t.Helper()
	conn := b.connect()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil || response.StatusCode != http.StatusOK || reader.Buffered() > 0 {
		b.t.Fatalf("got %v (%v)", response, err)
	}
	return conn
}

func TestTunnel(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	server.Config.ErrorLog = nil
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	b := setUp(t, server)
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			return tls.Client(b.tunnelTo("example.com:443"), &tls.Config{ServerName: "example.com", InsecureSkipVerify: true}), nil
		},
	}}
	defer client.CloseIdleConnections()
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	response, err := client.Post("https://example.com/", "text/plain", bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d (%v)", len(got), len(sent), err)
	}
	if got := b.summary(); got != "CONNECT example.com:443 true" {
		t.Errorf("decisions %q", got)
	}
}

// Nothing of a refused greeting reaches the server.
func TestTunnelRefusesGreeting(t *testing.T) {
	for _, c := range []struct {
		name, target string
		sent         []byte
	}{
		{"other name", "example.com:443", greeting(t, "evil.org")},
		{"name below", "example.com:443", greeting(t, "www.example.com")},
		{"no name", "example.com:443", greeting(t, "")},
		{"capitals", "example.com:443", records(clientHello(serverName("Example.com")), 1<<14)},
		{"final dot", "example.com:443", records(clientHello(serverName("example.com.")), 1<<14)},
		{"NUL", "example.com:443", records(clientHello(serverName("example.com\x00.evil.org")), 1<<14)},
		{"hidden", "example.com:443", records(clientHello(serverName("example.com"), extension(extensionECH, nil)), 1<<14)},
		{"HTTP", "example.com:80", []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")},
		{"HTTP/2 with prior knowledge", "example.com:443", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			reached := make(chan []byte, 1)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				got, _ := io.ReadAll(conn)
				reached <- got
			}()
			b := setUp(t, nil)
			b.network.listener = listener.Addr().String()
			conn := b.tunnelTo(c.target)
			go func() { _, _ = conn.Write(c.sent) }()
			if answer, _ := io.ReadAll(conn); len(answer) > 0 && string(answer) != unrecognizedName {
				t.Errorf("answer %q", answer)
			}
			if got := <-reached; len(got) > 0 {
				t.Errorf("%q reached the server", got)
			}
			if got, want := b.summary(), fmt.Sprintf("CONNECT %s true, CONNECT %s false", c.target, c.target); got != want {
				t.Errorf("decisions %q", got)
			}
		})
	}
}

// A connection on which nothing moves ends, wherever it has got to.
func TestPatience(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	short := func(c *Config) { c.IdleTimeout, c.GreetTimeout = 50*time.Millisecond, 50*time.Millisecond }
	for name, text := range map[string]string{
		"nothing sent":      "",
		"half a head":       "GET http://exam",
		"no answer":         get("example.com"),
		"half a body":       "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 10\r\n\r\nabc",
		"tunnel, no hello":  "CONNECT example.com:443 HTTP/1.1\r\n\r\n",
		"tunnel, no answer": "CONNECT example.com:443 HTTP/1.1\r\n\r\n" + string(greeting(t, "example.com")),
	} {
		t.Run(name, func(t *testing.T) {
			conn := setUp(t, server, short).connect()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				t.Error("the connection is still open")
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
