package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/sdk/need"
)

// DockerDriver builds examples/docker-driver and returns the folder of the plugin, which takes the engine at DOCKER_HOST.
func DockerDriver(t testing.TB) string {
	t.Helper()
	_, err := exec.LookPath("docker")
	need.Part(t, "docker", err)
	const source = "examples/docker-driver"
	dir := t.TempDir()
	hosttest.BuildPlugin(t, source, dir)
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/flynnhost/flynn/"+source).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plugin.toml", "conform.toml"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), name))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), `image = "busybox"`, fmt.Sprintf("image = %q", Image)))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
