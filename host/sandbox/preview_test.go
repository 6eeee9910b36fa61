package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// echoServer serves what its arguments say, HOST=PORT: it sends back what it gets. With a greeting after the port it sends that instead, and closes.
const echoServer = `import socket, sys, threading
def serve(c, greeting):
    try:
        if greeting is not None: c.sendall(greeting.encode())
        while greeting is None and (b := c.recv(65536)): c.sendall(b)
    except OSError: pass
    c.close()
def accept(l, greeting):
    while True: threading.Thread(target=serve, args=(l.accept()[0], greeting)).start()
for a in sys.argv[1:]:
    host, port, *greeting = a.split("=")
    l = socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=100)
    threading.Thread(target=accept, args=(l, greeting[0] if greeting else None)).start()
`

// python returns a session whose image has Python.
func python(t *testing.T, adjust func(*spec.Spec)) *sandbox.Session {
	t.Helper()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	wanted := config.Spec
	wanted.Image, wanted.PidsLimit = h.Python(t), 256
	if adjust != nil {
		adjust(&wanted)
	}
	return get(t, m, "chat:1", wanted)
}

// listens starts a server in the background and waits until it listens.
func listens(t *testing.T, s *sandbox.Session, addresses string, ports ...uint16) {
	t.Helper()
	if err := s.WriteFile(t.Context(), "echo.py", []byte(echoServer), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), machine.Command{Script: "python3 echo.py " + addresses}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, more, err := s.Listening(t.Context())
		if err != nil || more {
			t.Fatalf("listening: %v, %v, %v", got, more, err)
		}
		if slices.Equal(got, ports) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("listening on %v, want %v", got, ports)
		}
	}
}

func dial(t *testing.T, s *sandbox.Session, port uint16) net.Conn {
	t.Helper()
	c, err := s.Dial(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestDial(t *testing.T) {
	s := python(t, nil)
	for _, port := range []uint16{1, 3000, 65535} {
		if _, err := s.Dial(t.Context(), port); !errors.Is(err, machine.ErrNotFound) || !strings.Contains(err.Error(), "nothing listens") {
			t.Errorf("port %d without a listener: %v", port, err)
		}
	}
	if _, err := s.Dial(t.Context(), 0); !errors.Is(err, machine.ErrOutside) {
		t.Errorf("port 0: %v", err)
	}
	listens(t, s, "0.0.0.0=3000 127.0.0.1=3001 127.0.0.9=3002", 3000, 3001)

	t.Run("echo", func(t *testing.T) {
		all := []byte(strings.Repeat("0123456789abcdef\n", 200_000)) // several windows
		for _, v := range rude.Texts() {
			all = append(all, v.Text...)
		}
		c := dial(t, s, 3001)
		go func() { _, _ = c.Write(all) }()
		got := make([]byte, len(all))
		if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, all) {
			t.Errorf("%d of %d bytes came back: %v", n, len(all), err)
		}
	})
	t.Run("a silent peer does not block others", func(t *testing.T) {
		silent := dial(t, s, 3000)
		filled := make(chan struct{})
		go func() { // cat writes back what nobody reads
			_, _ = silent.Write(make([]byte, 64<<20))
			close(filled)
		}()
		other := dial(t, s, 3000)
		if _, err := other.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(other, got); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
		silent.Close()
		<-filled
	})
	t.Run("closing ends it inside", func(t *testing.T) {
		c := dial(t, s, 3000)
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		c.Close()
		c.Close()
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after Close: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
		shell(t, s, `for i in $(seq 100); do grep -q ':0BB8 .* 01 ' /proc/net/tcp || exit 0; sleep 0.1; done; cat /proc/net/tcp; exit 1`)
	})
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Dial(ctx, 3000); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no more than the bound, and all of them come free", func(t *testing.T) {
		for range 2 {
			var all []net.Conn
			for range frame.MaxDialed {
				all = append(all, dial(t, s, 3000))
			}
			if _, err := s.Dial(t.Context(), 3000); err == nil || !strings.Contains(err.Error(), "more than 64") {
				t.Errorf("one more: %v", err)
			}
			shell(t, s, "true") // commands run beside them
			for _, c := range all {
				c.Close()
			}
		}
	})
	t.Run("the sandbox ends", func(t *testing.T) {
		c := dial(t, s, 3000)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err == nil {
			t.Error("a connection outlived its sandbox in silence")
		}
		if _, err := s.Dial(t.Context(), 3000); !errors.Is(err, machine.ErrNotFound) {
			t.Errorf("a sandbox that has ended: %v", err)
		}
	})
}

// TestDialOtherServers: a server that listens on ::1 only, one that answers and closes, one that closes at once, and the ports of Flynn's own.
func TestDialOtherServers(t *testing.T) {
	s := python(t, func(wanted *spec.Spec) { wanted.Network, wanted.Allowlist = spec.Allowlist, []string{"example.com"} })
	six := strings.TrimSpace(shell(t, s, "cat /proc/sys/net/ipv6/conf/lo/disable_ipv6 2>/dev/null || echo 1")) == "0"
	servers, ports := "0.0.0.0=4001=bye 0.0.0.0=4002=", []uint16{4001, 4002}
	if six {
		servers, ports = servers+" ::1=4003", append(ports, 4003)
	}
	listens(t, s, servers, ports...)
	if got, err := io.ReadAll(dial(t, s, 4001)); err != nil || string(got) != "bye" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := io.ReadAll(dial(t, s, 4002)); err != nil || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	if six {
		c := dial(t, s, 4003)
		if _, err := c.Write([]byte("six")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "six" {
			t.Errorf("over IPv6: %q, %v", got, err)
		}
	}
	if _, err := s.Dial(t.Context(), 3128); !errors.Is(err, machine.ErrOutside) {
		t.Errorf("the proxy's port: %v", err)
	}
}

func TestDialRefusesTheHostsNetwork(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	wanted := config.Spec
	wanted.Network = "host"
	s := get(t, m, "chat:1", wanted)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := s.Dial(t.Context(), uint16(l.Addr().(*net.TCPAddr).Port)); !errors.Is(err, sandbox.ErrNoLoopback) {
		t.Errorf("a service of the host: %v", err)
	}
	if _, _, err := s.Listening(t.Context()); !errors.Is(err, sandbox.ErrNoLoopback) {
		t.Errorf("the services of the host: %v", err)
	}
}
