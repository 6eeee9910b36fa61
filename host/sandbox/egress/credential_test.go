package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

const token = "s3cret-token-of-the-owner"

// api is a server behind TLS that shows what has arrived, and an authority that the proxy is to verify it by.
type api struct {
	*httptest.Server
	roots *x509.CertPool
	seen  atomic.Pointer[http.Request]
}

func newAPI(t *testing.T, host string) *api {
	t.Helper()
	rule, err := netaddr.ParseRule(host)
	if err != nil {
		t.Fatal(err)
	}
	public, err := NewAuthority(netaddr.Rules{rule}) // the world's, as far as this test goes
	if err != nil {
		t.Fatal(err)
	}
	name, _ := rule.Host()
	leaf, err := public.leaf(name)
	if err != nil {
		t.Fatal(err)
	}
	a := &api{roots: x509.NewCertPool()}
	a.roots.AddCert(public.cert)
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	a.Config.ErrorLog = nil
	a.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.seen.Store(r.Clone(context.Background()))
	if r.URL.Path == "/away" {
		http.Redirect(w, r, "http://other.t.example/steal", http.StatusFound)
		return
	}
	w.Header().Set("X-Echo", r.Header.Get("Authorization"))
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s said %s", r.Method, r.Host, body, r.Header.Get("Authorization"))
}

// guarded is a bench whose proxy has credentials; the programs' trust comes with it.
type guarded struct {
	*bench
	trust *x509.CertPool
}

func guard(t *testing.T, server *httptest.Server, roots *x509.CertPool, credentials ...Credential) guarded {
	t.Helper()
	var rules netaddr.Rules
	for _, c := range credentials {
		rules = append(rules, c.Rule)
	}
	authority, err := NewAuthority(rules)
	if err != nil {
		t.Fatal(err)
	}
	g := guarded{trust: x509.NewCertPool()}
	if !g.trust.AppendCertsFromPEM(authority.PEM()) {
		t.Fatal("the authority's certificate cannot be read")
	}
	g.bench = setUp(t, server, func(c *Config) { c.Credentials, c.Authority, c.Roots = credentials, authority, roots })
	g.network.answers["other.t.example"] = [][]string{{public}}
	return g
}

func credential(t *testing.T, host string, adjust ...func(*Credential)) Credential {
	t.Helper()
	rule, err := ParseCredential(host)
	if err != nil {
		t.Fatal(err)
	}
	c := Credential{Rule: rule, Header: "Authorization", Prefix: "Bearer ", Value: func() string { return token }}
	for _, f := range adjust {
		f(&c)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// through sends a request through a tunnel, as a program does that trusts the authority, and returns all that comes back.
func (g guarded) through(host, text string) (string, error) {
	conn := tls.Client(g.tunnelTo(host+":443"), &tls.Config{RootCAs: g.trust, ServerName: host})
	if err := conn.Handshake(); err != nil {
		return "", err
	}
	go func() { _, _ = io.WriteString(conn, text) }()
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func inner(method, path string, lines ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: example.com\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
}

func TestCredentialGoesIntoATunnel(t *testing.T) {
	server := newAPI(t, "example.com")
	g := guard(t, server.Server, server.roots, credential(t, "example.com"))
	answer, err := g.through("example.com", inner("POST", "/v1/x?y=1", "Authorization: Bearer placeholder", "authorization: again", "Content-Length: 3")+"abc")
	if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 200") || !strings.Contains(answer, "POST example.com abc said Bearer *") {
		t.Fatalf("got %q (%v)", answer, err)
	}
	if seen := server.seen.Load(); len(seen.Header["Authorization"]) != 1 || seen.Header.Get("Authorization") != "Bearer "+token {
		t.Errorf("the server has seen %q", seen.Header)
	}
	if strings.Contains(answer, token) {
		t.Errorf("the secret came back: %q", answer)
	}
	if got := g.summary(); got != "CONNECT example.com:443 true, POST example.com:443 true" {
		t.Errorf("decisions %q", got)
	}
	if d := g.decisions; d[0].Credential || !d[1].Credential || strings.Contains(fmt.Sprintf("%+v", d), token) {
		t.Errorf("decisions %+v", d)
	}
	if len(g.network.asked) != 1 {
		t.Errorf("resolved %q", g.network.asked)
	}
}

// The answer to the program, and the request at the host, when something about the request is wrong.
func TestCredentialIsRefused(t *testing.T) {
	only := func(c *Credential) { c.Methods, c.Paths = []string{"GET"}, []string{"/v1"} }
	for _, c := range []struct{ name, text, want string }{
		{"listed", inner("GET", "/v1/x"), "200"},
		{"the path itself", inner("GET", "/v1"), "200"},
		{"method", inner("POST", "/v1/x", "Content-Length: 0"), "403"},
		{"path", inner("GET", "/v2"), "403"},
		{"path that only begins so", inner("GET", "/v10"), "403"},
		{"dots", inner("GET", "/v1/../admin"), "403"},
		{"encoded dots", inner("GET", "/v1/%2e%2e/admin"), "403"},
		{"encoded slash", inner("GET", "/v1/..%2fadmin"), "403"},
		{"encoded twice", inner("GET", "/v1/%252e%252e/admin"), "403"},
		{"backslash", inner("GET", `/v1/..\admin`), "400"},
		{"parameters", inner("GET", "/v1/..;/admin"), "403"},
		{"empty segment", inner("GET", "/v1//x"), "403"},
		{"other host", "GET /v1 HTTP/1.1\r\nHost: other.t.example\r\n\r\n", "400"},
		{"other port", "GET /v1 HTTP/1.1\r\nHost: example.com:8443\r\n\r\n", "400"},
		{"no host", "GET /v1 HTTP/1.1\r\n\r\n", "400"},
		{"two hosts", "GET /v1 HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n", "400"},
		{"absolute form", "GET http://other.t.example/v1 HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"tunnel in the tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"folded line", inner("GET", "/v1", "X: y", " Host: other"), "400"},
		{"two lengths", inner("GET", "/v1", "Content-Length: 3", "Transfer-Encoding: chunked"), "400"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newAPI(t, "example.com")
			g := guard(t, server.Server, server.roots, credential(t, "example.com", only))
			answer, err := g.through("example.com", c.text)
			if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 "+c.want) || strings.Contains(answer, token) {
				t.Errorf("got %.300q (%v), want %s", answer, err, c.want)
			}
			if reached := server.seen.Load() != nil; reached != (c.want == "200") {
				t.Errorf("the server was reached: %v", reached)
			}
		})
	}
}

// The secret goes to nobody who cannot prove to be the host.
func TestCredentialNeedsTheRealHost(t *testing.T) {
	impostor := newAPI(t, "example.com")
	g := guard(t, impostor.Server, x509.NewCertPool(), credential(t, "example.com"))
	answer, err := g.through("example.com", inner("GET", "/"))
	if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 502") || impostor.seen.Load() != nil {
		t.Errorf("got %q (%v)", answer, err)
	}
	other := newAPI(t, "other.t.example")
	g = guard(t, other.Server, other.roots, credential(t, "example.com"))
	if answer, err = g.through("example.com", inner("GET", "/")); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 502") || other.seen.Load() != nil {
		t.Errorf("got %q (%v)", answer, err)
	}
}

// A program that follows a redirect asks for another host, and gets nothing for that.
func TestCredentialStaysWithItsHost(t *testing.T) {
	server := newAPI(t, "example.com")
	g := guard(t, server.Server, server.roots, credential(t, "example.com"))
	answer, err := g.through("example.com", inner("GET", "/away"))
	if err != nil || !strings.Contains(answer, "Location: http://other.t.example/steal") {
		t.Fatalf("got %q (%v)", answer, err)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%v", r.Header) }))
	defer plain.Close()
	g.network.listener = plain.Listener.Addr().String()
	for _, text := range []string{get("other.t.example"), get("example.com"), "GET http://example.com:443/ HTTP/1.1\r\nHost: example.com:443\r\n\r\n"} {
		if answer := g.ask(text); !strings.HasPrefix(answer, "HTTP/1.1 200") || strings.Contains(answer, "Authorization") {
			t.Errorf("%q: got %q", text, answer)
		}
	}
}

func TestCredentialInPlainRequests(t *testing.T) {
	var seen atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.Header.Clone()) }))
	defer server.Close()
	g := guard(t, server, nil, credential(t, "example.com:80", func(c *Credential) { c.Header, c.Prefix = "X-Key", "" }))
	answer := g.ask("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nX-KEY: mine\r\nConnection: X-Key\r\nTE: x\r\n\r\n")
	header, _ := seen.Load().(http.Header)
	if !strings.HasPrefix(answer, "HTTP/1.1 200") || len(header["X-Key"]) != 1 || header.Get("X-Key") != token {
		t.Errorf("got %q, the server %v", answer, header)
	}
	if answer := g.ask("TRACE http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 403") {
		t.Errorf("TRACE: got %q", answer)
	}
}

// With upgrade the program speaks plain HTTP, and the host TLS.
func TestUpgrade(t *testing.T) {
	server := newAPI(t, "example.com")
	g := guard(t, server.Server, server.roots, credential(t, "example.com", func(c *Credential) { c.Upgrade = true }))
	for _, text := range []string{get("example.com"), "GET http://example.com:443/ HTTP/1.1\r\nHost: example.com:443\r\n\r\n"} {
		if answer := g.ask(text); !strings.HasPrefix(answer, "HTTP/1.1 200") || !strings.Contains(answer, "GET example.com  said Bearer *") {
			t.Errorf("got %q", answer)
		}
		if seen := server.seen.Load(); seen.Header.Get("Authorization") != "Bearer "+token || seen.TLS == nil {
			t.Errorf("the server has seen %v", seen.Header)
		}
	}
	if got := g.summary(); got != "GET example.com:443 true, GET example.com:443 true" {
		t.Errorf("decisions %q", got)
	}
}

// A new value counts for the next connection; an unusable one is an error that does not show it.
func TestCredentialIsAskedEachTime(t *testing.T) {
	server := newAPI(t, "example.com")
	value := "first-value"
	g := guard(t, server.Server, server.roots, credential(t, "example.com", func(c *Credential) { c.Value = func() string { return value } }))
	for _, value = range []string{"first-value", "second-value"} {
		if _, err := g.through("example.com", inner("GET", "/")); err != nil || server.seen.Load().Header.Get("Authorization") != "Bearer "+value {
			t.Errorf("%s: the server has seen %v (%v)", value, server.seen.Load().Header, err)
		}
	}
	for _, value = range []string{"", "two\r\nlines-of-it"} {
		answer, err := g.through("example.com", inner("GET", "/"))
		if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 502") || strings.Contains(answer, "lines-of-it") {
			t.Errorf("%q: got %q (%v)", value, answer, err)
		}
	}
}

// A greeting inside of a tunnel to a host with a credential is judged as elsewhere.
func TestTerminatedTunnelRefusesGreeting(t *testing.T) {
	g := guard(t, nil, nil, credential(t, "example.com"))
	for _, name := range []string{"evil.org", ""} {
		conn := g.tunnelTo("example.com:443")
		_, _ = conn.Write(greeting(t, name))
		if answer, _ := io.ReadAll(conn); string(answer) != unrecognizedName {
			t.Errorf("%q: answer %q", name, answer)
		}
	}
	conn := tls.Client(g.tunnelTo("example.com:443"), &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com"})
	if err := conn.Handshake(); err == nil {
		t.Error("a program trusts an authority that it does not know")
	}
	_ = conn.Close()
	if len(g.network.dialled) > 0 {
		t.Errorf("dialled %q", g.network.dialled)
	}
}

// Hosts without a credential keep their own TLS from end to end.
func TestOtherTunnelsStayWhole(t *testing.T) {
	server := newAPI(t, "other.t.example")
	g := guard(t, server.Server, nil, credential(t, "example.com"))
	conn := tls.Client(g.tunnelTo("other.t.example:443"), &tls.Config{RootCAs: server.roots, ServerName: "other.t.example"})
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: other.t.example\r\nConnection: close\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusOK || server.seen.Load().Header.Get("Authorization") != "" {
		t.Errorf("got %v (%v)", response, err)
	}
}

func TestAuthorityIsConstrained(t *testing.T) {
	parse := func(texts ...string) netaddr.Rules {
		rules, err := netaddr.ParseRules(texts)
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	for _, c := range []struct {
		name  string
		rules netaddr.Rules
		host  string
		good  bool
	}{
		{"the host", parse("api.example"), "api.example", true},
		{"below a domain", parse("*.mirror.example"), "a.mirror.example", true},
		{"another host", parse("api.example"), "bank.example", false},
		{"its parent", parse("api.example"), "example", false},
		{"an address", parse("api.example"), "93.184.216.34", false},
		{"the address", parse("93.184.216.34"), "93.184.216.34", true},
		{"a name beside an address", parse("93.184.216.34"), "bank.example", false},
		{"another address", parse("93.184.216.34"), "93.184.216.35", false},
		{"IPv6", parse("[2606:2800::1]"), "[2606:2800::1]", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := NewAuthority(c.rules)
			if err != nil {
				t.Fatal(err)
			}
			host, err := netaddr.ParseHost(c.host)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := a.leaf(host)
			if err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode(a.PEM())
			trust := x509.NewCertPool()
			root, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			trust.AddCert(root)
			if _, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: trust, DNSName: host.Name}); (err == nil) != c.good {
				t.Errorf("verification: %v", err)
			}
			if again, err := a.leaf(host); err != nil || again != leaf {
				t.Errorf("another certificate was made (%v)", err)
			}
		})
	}
}

func TestCheckCredential(t *testing.T) {
	for _, c := range []struct {
		name   string
		adjust func(*Credential)
	}{
		{"no header", func(c *Credential) { c.Header = "" }},
		{"header of two lines", func(c *Credential) { c.Header = "X\r\nY" }},
		{"the proxy's own", func(c *Credential) { c.Header = "transfer-encoding" }},
		{"Host", func(c *Credential) { c.Header = "host" }},
		{"prefix of two lines", func(c *Credential) { c.Prefix = "a\nb" }},
		{"CONNECT", func(c *Credential) { c.Methods = []string{"CONNECT"} }},
		{"small letters", func(c *Credential) { c.Methods = []string{"get"} }},
		{"relative path", func(c *Credential) { c.Paths = []string{"v1"} }},
		{"path with dots", func(c *Credential) { c.Paths = []string{"/v1/../x"} }},
	} {
		cred := Credential{Header: "Authorization"}
		c.adjust(&cred)
		if cred.Check() == nil {
			t.Errorf("accepted: %s", c.name)
		}
	}
	for _, host := range []string{"", "GET example.com", "example.com:0", "Example.com", "10.0.0.1", "*.com"} {
		if _, err := ParseCredential(host); err == nil {
			t.Errorf("accepted: %q", host)
		}
	}
}

// FuzzCheckPath: what is accepted is read alike by everybody.
func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"/", "/v1/", "/v1/%2e%2e/x", "//x", "/a/./b", "/%25", "/a%2fb"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if checkPath(p) != nil {
			return
		}
		if strings.Contains(p, "/../") || strings.Contains(p, "//") || strings.Contains(strings.ToLower(p), "%2f") || p[0] != '/' {
			t.Errorf("accepted %q", p)
		}
	})
}

// All connections of a sandbox together carry no more than the limit, and each tells what it has carried.
func TestLimitAndBytes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(make([]byte, 600))
	}))
	defer server.Close()
	ended := make(chan Decision, 4)
	b := setUp(t, server, func(c *Config) { c.Limit, c.Ended = 1000, func(d Decision) { ended <- d } })
	if got := b.ask("POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("got %.100q", got)
	}
	if d := <-ended; d.Up != 5 || d.Down != 600 || d.Ended.IsZero() || d.ID != b.decisions[0].ID {
		t.Errorf("ended %+v", d)
	}
	b.ask(get("example.com"))
	if d := <-ended; d.Down >= 600 {
		t.Errorf("%d bytes came although the limit was reached", d.Down)
	}
	if got := b.ask(get("example.com")); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, "egress_limit") {
		t.Errorf("got %.200q", got)
	}
}
