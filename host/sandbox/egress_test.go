package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// publicAddr is where every name of testNetwork is; connections to it end at the test's listener.
var publicAddr = netip.MustParseAddr("93.184.216.34")

// testNetwork leads to one listener of the test's own.
type testNetwork struct{ listener string }

func (testNetwork) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	if name == "inside.example" {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{publicAddr}, nil
}

func (n testNetwork) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if addr.Addr() != publicAddr {
		return nil, fmt.Errorf("the test has no address %s", addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", n.listener)
}

// decisions collects what a Manager reports.
type decisions struct {
	sandbox.NoEgress
	mu   sync.Mutex
	seen []string
}

func (d *decisions) Decided(session message.WorkspaceKey, e egress.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, fmt.Sprintf("%s %s %s:%d %v", session, e.Method, e.Host, e.Port, e.Allowed))
}

func (d *decisions) have(want string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.seen, want)
}

// proxied returns a manager whose sandboxes reach the handler under listed names, and their specification.
func proxied(t *testing.T, handler http.Handler, allowlist ...string) (*sandbox.Manager, spec.Spec, *decisions) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var noted decisions
	m, config := sandboxtest.Engine(t).Manager(t, func(c *sandbox.Config) {
		c.SetNetwork(testNetwork{server.Listener.Addr().String()})
		c.Egress = &noted
		c.Spec.Network, c.Spec.Allowlist = "allowlist", allowlist
	})
	return m, config.Spec, &noted
}

func TestEgressWithTheNetworkOff(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // several windows
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	m, spec, noted := proxied(t, mux, "files.example", "*.mirror.example", "inside.example", "GET read.example")
	s := get(t, m, "s", spec)
	for _, c := range []struct{ name, script, want string }{
		{"listed", "wget -q -O - http://files.example/hello", "hello from files.example"},
		{"below a domain", "wget -q -O - http://a.mirror.example/hello", "hello from a.mirror.example"},
		{"in full", "wget -q -O - http://files.example/large | md5sum; wget -q -O - http://files.example/large | wc -c", "4194304\n"},
		{"a body", "wget -q -O - --post-data=abc http://files.example/echo", "abc"},
		{"not listed", "wget -O - http://other.example/hello 2>&1", "403 Forbidden"},
		{"method not listed", `printf 'POST http://read.example/echo HTTP/1.1\r\nHost: read.example\r\nContent-Length: 3\r\n\r\nabc' | nc 127.0.0.1 3128`, "403 Forbidden"},
		{"listed method", "wget -q -O - http://read.example/hello", "hello from read.example"},
		{"name inside", "wget -O - http://inside.example/hello 2>&1", "403 Forbidden"},
		{"metadata", "wget -O - http://169.254.169.254/latest 2>&1", "403 Forbidden"},
		{"metadata in another form", "wget -O - http://2852039166/latest 2>&1", "400 Bad Request"},
		{"redirect to metadata", "wget -O - http://files.example/away 2>&1", "403 Forbidden"},
		{"around the proxy", "unset http_proxy HTTP_PROXY; wget -O - http://93.184.216.34/hello 2>&1", "Network is unreachable"},
		{"tunnel that is none", `printf 'CONNECT files.example:443 HTTP/1.1\r\nHost: files.example:443\r\n\r\nGET / HTTP/1.1\r\n\r\n' | nc 127.0.0.1 3128`, "200 Connection Established"},
		{"variables", "env | grep -ci '^\\(https\\|http\\|all\\)_proxy=http://127.0.0.1:3128$'; env | grep -ci '^no_proxy=$'", "6\n2\n"},
		{"interfaces", "grep -c : /proc/net/dev", "1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, s, machine.Command{Script: c.script, Timeout: 2 * time.Minute})
			if !strings.Contains(string(r.Stdout), c.want) {
				t.Errorf("got %.300q %.300q, want %q", r.Stdout, r.Stderr, c.want)
			}
		})
	}
	for _, want := range []string{
		"s GET files.example:80 true", "s GET other.example:80 false", "s POST read.example:80 false", "s GET inside.example:80 false",
		"s GET 169.254.169.254:80 false", "s CONNECT files.example:443 true", "s CONNECT files.example:443 false",
	} {
		if !noted.have(want) {
			t.Errorf("no decision %q in %q", want, noted.seen)
		}
	}
}

// A program that sends without end to somebody who does not read holds up neither commands nor other connections.
func TestEgressFloodStarvesNobody(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	arrived := make(chan struct{}, 100)
	mux := http.NewServeMux()
	mux.HandleFunc("/sink", func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	m, spec, _ := proxied(t, mux, "files.example")
	s := get(t, m, "s", spec)
	const floods = 20
	p, err := s.Start(t.Context(), machine.Command{Script: fmt.Sprintf(`for i in $(seq %d); do
		(printf 'POST http://files.example/sink HTTP/1.1\r\nHost: files.example\r\nContent-Length: 1000000000\r\n\r\n'; cat /dev/zero) | nc 127.0.0.1 3128 &
	done; wait`, floods)})
	if err != nil {
		t.Fatal(err)
	}
	for range floods {
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("the floods do not arrive")
		}
	}
	for range 10 {
		began := time.Now()
		if r := run(t, s, machine.Command{Script: "wget -q -O - http://files.example/hello"}); string(r.Stdout) != "hello" {
			t.Fatalf("got %q %q", r.Stdout, r.Stderr)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("a command took %v beside the floods", took)
		}
	}
	if _, err := s.Kill(t.Context(), p.ID); err != nil {
		t.Error(err)
	}
}

// When a program ends, or its sandbox does, so does its connection beyond the proxy.
func TestEgressEndsWithTheProgram(t *testing.T) {
	ended := make(chan struct{}, 2)
	began := make(chan struct{}, 2)
	mux := http.NewServeMux()
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		for r.Context().Err() == nil {
			fmt.Fprintln(w, "drip")
			w.(http.Flusher).Flush()
			select {
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		ended <- struct{}{}
	})
	m, spec, _ := proxied(t, mux, "files.example")
	s := get(t, m, "s", spec)
	await := func(what string, c chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatalf("%s: not within a minute", what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var dripped []byte
	r, err := s.Exec(ctx, machine.Command{Script: "wget -q -O - http://files.example/drip", Timeout: 5 * time.Minute, Progress: func(_ machine.Stream, p []byte) {
		if dripped = append(dripped, p...); strings.Contains(string(dripped), "drip\ndrip\n") {
			cancel()
		}
	}})
	if err != nil || !r.Canceled {
		t.Errorf("got %+v (%v)", r, err)
	}
	await("program starts", began)
	await("program killed", ended)
	if _, err := s.Start(t.Context(), machine.Command{Script: "wget -q -O - http://files.example/drip"}); err != nil {
		t.Fatal(err)
	}
	await("second program starts", began)
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	await("sandbox destroyed", ended)
}

// Decisions of a container from the pool are those of the session that has claimed it.
func TestEgressOfAWarmSandbox(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var noted decisions
	m, config := sandboxtest.Engine(t).Manager(t, func(c *sandbox.Config) {
		c.SetNetwork(testNetwork{server.Listener.Addr().String()})
		c.Egress = &noted
		c.Spec.Network, c.Spec.Allowlist = "allowlist", []string{"files.example"}
		keepWarm(1)(c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for m.Stats().Pool.Ready == 0 {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the pool stays empty")
		}
	}
	s := get(t, m, "claimer", config.Spec)
	run(t, s, machine.Command{Script: "wget -O - http://files.example/ 2>&1"})
	if m.Stats().Pool.Hits != 1 || !noted.have("claimer GET files.example:80 true") {
		t.Errorf("%+v, decisions %q", m.Stats(), noted.seen)
	}
}
