package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// remoteEngines are ways to an engine that is not this machine's own.
var remoteEngines = []struct {
	name string
	open func(t *testing.T) (*sandboxtest.Private, docker.Config)
}{
	{"tls", func(t *testing.T) (*sandboxtest.Private, docker.Config) { return sandboxtest.OverTLS(t) }},
	{"ssh", func(t *testing.T) (*sandboxtest.Private, docker.Config) {
		e := sandboxtest.Own(t)
		return e, sandboxtest.OverSSH(t).Engine(e)
	}},
}

// remote returns a driver that is closed with the test.
func remote(t *testing.T, c docker.Config) *docker.Driver {
	t.Helper()
	d, err := docker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestRemoteEngine(t *testing.T) {
	for _, c := range remoteEngines {
		t.Run(c.name, func(t *testing.T) {
			current := goleak.IgnoreCurrent()
			t.Cleanup(func() { sandboxtest.GoroutinesEnd(t, current) })
			e, config := c.open(t)
			d := remote(t, config)
			capable, err := d.Capabilities(t.Context())
			if err != nil || capable.Address != config.Engine {
				t.Fatalf("capabilities %+v (%v)", capable, err)
			}
			m, mc := e.Manager(t, func(c *sandbox.Config) { c.Driver = d })
			s := get(t, m, "s", mc.Spec)
			r := run(t, s, machine.Command{Script: "cat; echo err >&2; exit 3", Stdin: []byte(strings.Repeat("x", 1<<20)), MaxOutput: 2 << 20})
			if r.ExitCode != 3 || len(r.Stdout) != 1<<20 || string(r.Stderr) != "err\n" {
				t.Errorf("exit %d, %d bytes, stderr %q", r.ExitCode, len(r.Stdout), r.Stderr)
			}
			if r := run(t, s, machine.Command{Script: "setsid sleep 100 & sleep 100", Timeout: 300 * time.Millisecond}); !r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 {
				t.Errorf("time-out: %+v (%+v)", r, r.Kill)
			}
			if err := s.WriteFile(t.Context(), "f", []byte("kept"), 0); err != nil {
				t.Error(err)
			}
			if got := shell(t, s, "cat f"); got != "kept" {
				t.Errorf("file says %q", got)
			}
			noBinds(t, e, containers(t, e.Host, mc.Instance))
			apart := mc.Spec
			apart.Workspace = spec.WorkspaceOwn
			own, err := m.Get(t.Context(), "s", "apart", apart)
			if err != nil {
				t.Fatal(err)
			}
			if got := shell(t, own, "ls; echo own >f; cat f"); got != "own\n" {
				t.Errorf("the sandbox with a folder of its own printed %q", got)
			}
			if got := shell(t, s, "cat f"); got != "kept" {
				t.Errorf("after that the file says %q", got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if at, err := os.ReadFile(filepath.Join(workspace.Path(mc.WorkspaceRoot, "s"), "f")); err != nil || string(at) != "kept" {
				t.Errorf("the workspace on the host has %q (%v)", at, err)
			}
			if got := shell(t, get(t, m, "s", mc.Spec), "cat f"); got != "kept" {
				t.Errorf("in the next container the file says %q", got)
			}
		})
	}
}

// noBinds insists that containers see nothing of the engine's machine.
func noBinds(t *testing.T, e *sandboxtest.Private, made []driver.Owned) {
	t.Helper()
	if len(made) == 0 {
		t.Error("no containers")
	}
	for _, c := range made {
		found, err := e.API.ContainerInspect(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found.Mounts {
			if m.Type == "bind" {
				t.Errorf("%s is mounted at %s", m.Source, m.Destination)
			}
		}
	}
}

// A way to the engine that is cut ends the commands on it, and the next one finds the way again.
func TestRemoteEngineGoesAway(t *testing.T) {
	t.Parallel()
	for _, c := range remoteEngines {
		t.Run(c.name, func(t *testing.T) {
			e, config := c.open(t)
			m, mc := e.Manager(t, func(c *sandbox.Config) { c.Driver = remote(t, config) })
			s := get(t, m, "s", mc.Spec)
			shell(t, s, "echo kept >f")
			failed := sleeper(t, s)
			e.Stop()
			began := time.Now()
			unavailable(t, "running command", <-failed, time.Since(began), quick+slack, config.Engine)
			attempt(t, s, quick+slack, config.Engine)
			e.Start()
			if got := shell(t, s, "cat f"); got != "kept\n" {
				t.Errorf("afterwards: %q", got)
			}
		})
	}
}

func TestRemoteEngineHangs(t *testing.T) {
	t.Parallel()
	for _, c := range remoteEngines {
		t.Run(c.name, func(t *testing.T) {
			e, config := c.open(t)
			d := remote(t, config)
			if err := d.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.Freeze()
			began := time.Now()
			unavailable(t, "ping", d.Ping(t.Context()), time.Since(began), quick+slack, config.Engine)
			began = time.Now()
			_, err := d.Attach(t.Context(), "none", t.Output())
			unavailable(t, "attach", err, time.Since(began), 10*time.Second+slack, config.Engine)
			e.Thaw()
			if err := d.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Peers that are not the engine, and clients that it does not let in.
func TestRemoteEngineMustProveItself(t *testing.T) {
	t.Parallel()
	e, good := sandboxtest.OverTLS(t)
	_, other := sandboxtest.OverTLS(t)
	ssh := sandboxtest.OverSSH(t)
	viaSSH := ssh.Engine(e)
	for _, c := range []struct {
		name   string
		config docker.Config
		words  []string
	}{
		{"another authority", docker.Config{Engine: good.Engine, CA: other.CA, Cert: good.Cert, Key: good.Key}, []string{good.Engine, "unknown authority"}},
		{"our certificate is another's", docker.Config{Engine: good.Engine, CA: good.CA, Cert: other.Cert, Key: other.Key}, []string{good.Engine, "tls"}},
		{"no TLS", docker.Config{Engine: good.Engine}, []string{good.Engine}},
		{"unknown ssh host", docker.Config{Engine: viaSSH.Engine, SSH: ssh.Stranger}, []string{viaSSH.Engine, "Host key verification failed", "try: ssh 127.0.0.1"}},
		{"no such ssh user", docker.Config{Engine: strings.Replace(viaSSH.Engine, "ssh://", "ssh://nosuch@", 1), SSH: ssh.Args}, []string{"Permission denied"}},
		{"nobody there", docker.Config{Engine: "ssh://127.0.0.1:1", SSH: ssh.Args}, []string{"Connection refused"}},
		{"no socket there", docker.Config{Engine: "ssh://127.0.0.1:" + ssh.Port + "/no/such.sock", SSH: ssh.Args}, []string{"/no/such.sock"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := remote(t, c.config)
			began := time.Now()
			unavailable(t, "ping", d.Ping(t.Context()), time.Since(began), quick+slack, c.words...)
		})
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	dir := t.TempDir()
	nothing := filepath.Join(dir, "nothing.pem")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		config docker.Config
		want   string
	}{
		{"plain", docker.Config{Engine: "tcp://10.0.0.1:2375"}, "without TLS"},
		{"missing", docker.Config{Engine: "tcp://10.0.0.1:2376", CA: "/no/ca.pem", Cert: "c", Key: "k"}, "/no/ca.pem"},
		{"empty", docker.Config{Engine: "tcp://10.0.0.1:2376", CA: nothing, Cert: nothing, Key: nothing}, "PEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := docker.New(c.config)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "engine_ca") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Setenv("DOCKER_CERT_PATH", "/no/certs")
	if _, err := docker.New(docker.Config{Engine: "tcp://10.0.0.1:2376"}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/no/certs/ca.pem") {
		t.Errorf("got %v", err)
	}
}
