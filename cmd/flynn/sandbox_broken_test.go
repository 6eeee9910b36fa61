package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// breakSocket writes to a socket whose other end is gone, as happens to a program whose container ends.
func breakSocket(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Error(err)
		return
	}
	syscall.Close(pair[1])
	defer syscall.Close(pair[0])
	if _, err := syscall.Write(pair[0], []byte("x")); err != syscall.EPIPE {
		t.Errorf("a write to a broken socket: %v", err)
	}
}

// brittleEngine stands before the tests' engine and breaks a socket of this process whenever the engine is asked something.
func brittleEngine(t *testing.T) (address string) {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	socket, local := strings.CutPrefix(host, "unix://")
	if !local {
		t.Skip("the engine is on another machine")
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	dir, err := os.MkdirTemp("", "flynn-test-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "engine"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport:     &http.Transport{DialContext: dial},
		FlushInterval: -1,
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		breakSocket(t)
		proxy.ServeHTTP(w, r)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "unix://" + listener.Addr().String()
}

// A program that asks for SIGPIPE gets it for every broken socket. That must end no command: flynn sandbox selftest once ended itself
// when a container went away.
func TestABrokenSocketEndsNoCommand(t *testing.T) {
	sandboxtest.Engine(t)
	address := brittleEngine(t)
	t.Setenv("DOCKER_HOST", address)
	s := newSandboxes(t, "enabled = true\nengine = \""+address+"\"")
	const session = "irc:1"
	if err := os.MkdirAll(workspace.Path(s.host.Root, session), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"exec", "echo out"},
		{"exec", "--terminal", "echo out"},
		{"exec", "--session", session, "true"},
		{"cp", file, session + ":f"},
		{"cp", session + ":f", "-"},
		{"list"},
		{"explain"},
		{"explain", "--session", session},
		{"selftest", "--run", "^(rights/user|instances/)"},
		{"prune"},
		{"prune", "--volumes"},
	} {
		t.Run(strings.Join(args[:min(2, len(args))], " "), func(t *testing.T) {
			s := s
			s.t = t
			_, stderr := s.flynn(exitOK, args...)
			if strings.Contains(stderr, "cancel") || strings.Contains(stderr, "interrupted") {
				t.Errorf("it ended early: %s", stderr)
			}
		})
	}
}

// A reader of the output that goes away ends the command all the same, and what the command has made is removed.
func TestACommandEndsWithItsReader(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	cmd := exec.Command("flynn", "--config", s.path, "sandbox", "selftest", "-v")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	out.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailure {
		t.Errorf("ended with %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.host.Root, ".verify-*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}
