package sandboxtest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/sdk/need"
)

// GVisor starts an engine with Debian's runsc as a runtime, in a mode that works on any machine: with ptrace, and without cgroups. If that
// does not run here the test is skipped or fails; see need.Part.
func GVisor(t testing.TB) *Private {
	t.Helper()
	runsc, err := exec.LookPath("runsc")
	need.Part(t, "runsc", err)
	dir, err := os.MkdirTemp("", "flynn-engine-")
	if err != nil {
		t.Fatal(err)
	}
	type runtime struct {
		Path string   `json:"path"`
		Args []string `json:"runtimeArgs"`
	}
	text, err := json.Marshal(map[string]any{"runtimes": map[string]runtime{
		spec.GVisor: {runsc, []string{"--platform=ptrace", "--network=none", "--ignore-cgroups"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "daemon.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	e := OwnIn(t, dir, "--config-file", path)
	need.Part(t, "runsc", e.tryRuntime(t, spec.GVisor))
	return e
}

// tryRuntime runs a container that does nothing.
func (p *Private) tryRuntime(t testing.TB, name string) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := p.Driver.Create(ctx, driver.Container{
		Key: name, Name: "flynn-try-" + name, Image: Image, Entrypoint: []string{"/bin/sleep", "100"}, Network: "none", Runtime: name,
		MemoryBytes: 64 << 20, CPUs: 1, PidsLimit: 64,
	})
	if err != nil {
		return err
	}
	defer func() { _ = p.Driver.Remove(context.WithoutCancel(ctx), id) }()
	if err := p.Driver.Start(ctx, id); err != nil {
		return err
	}
	_, err = p.Driver.Run(ctx, id, docker.Run{Argv: strings.Fields("/bin/true")})
	return err
}
