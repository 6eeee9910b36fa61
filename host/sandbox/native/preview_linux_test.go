package native_test

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/sdk/need"
)

// TestPorts reaches a server in a native sandbox, and no service of the host that shares the network.
func TestPorts(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	_, err := exec.LookPath("python3")
	need.Part(t, "python", err)
	m := manager(t)
	s, err := m.Get(t.Context(), "web:one", "default", small)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), machine.Command{Script: "echo hello from inside >index.html; exec python3 -m http.server 3000"})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ports, _, err := s.Listening(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(ports, []uint16{3000}) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("listening on %v", ports)
		}
	}
	c, err := s.Dial(t.Context(), 3000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), "hello from inside") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Kill(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Dial(t.Context(), 3000); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("a server that has ended: %v", err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	service := uint16(l.Addr().(*net.TCPAddr).Port)
	if _, err := s.Dial(t.Context(), service); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("a service of the host: %v", err)
	}
	shared := small
	shared.Network = "host"
	with, err := m.Get(t.Context(), "web:two", "default", shared)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := with.Dial(t.Context(), service); !errors.Is(err, sandbox.ErrNoLoopback) {
		t.Errorf("a service of the host, in its network: %v", err)
	}
}
