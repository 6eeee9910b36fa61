package host

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// coderHost runs a host whose agent main writes programs in Python.
func coderHost(t *testing.T, code string, adjust ...func(*Host)) *cliHome {
	t.Helper()
	dir := t.TempDir()
	return runCLI(t, dir, fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = "127.0.0.1:0"
[models.default]
provider = "demo"
[routing]
default_agent = "main"
[sandbox]
enabled = true
[agent_configs.main]
kind = "code"
[agent_configs.main.code]
warm_pool = 0
build_network = "none"
%s
`, filepath.Join(dir, "s"), code), adjust...)
}

// A program finds what a Dockerfile has put into its image.
func TestCodeAgentWithADockerfile(t *testing.T) {
	python, dir := sandboxtest.Engine(t).Python(t), t.TempDir()
	for name, text := range map[string]string{
		"Dockerfile":  "FROM " + python + "\nCOPY greeting.py /opt/greeting.py\n",
		"greeting.py": "said = 'hello from the image'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := coderHost(t, fmt.Sprintf("dockerfile = %q\nbuild_context = %q", filepath.Join(dir, "Dockerfile"), dir))
	s.expect(s.ask("!py import sys; sys.path.append('/opt'); import greeting; print(greeting.said)"), "hello from the image")
}

// manager stands in for apk: a package is a module of its name. The real ones have tests in host/sandbox/image.
const manager = `#!/bin/sh
shift
for package; do case $package in -*) ;; *) echo "said = '$package is here'" > /opt/$package.py ;; esac; done
`

// A program finds a package that was put on top of its image.
func TestCodeAgentWithPackages(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir, base := t.TempDir(), "flynn-test/python-apk:"+strings.ToLower(rand.Text())
	for name, text := range map[string]string{
		"Dockerfile": "FROM " + engine.Python(t) + "\nCOPY apk /sbin/apk\nCOPY apk /opt/\n", "apk": manager,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	buildImage(t, engine, dir, base)
	s := coderHost(t, fmt.Sprintf("image = %q\npackages = [\"greeting\"]", base))
	s.expect(s.ask("!py import sys; sys.path.append('/opt'); import greeting; print(greeting.said)"), "greeting is here")
}

// buildImage builds a folder with a Dockerfile under a name that ends with the test.
func buildImage(t *testing.T, engine sandboxtest.Host, dir, name string) {
	t.Helper()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	built, err := engine.API.ImageBuild(t.Context(), &files, build.ImageBuildOptions{Tags: []string{name}, NetworkMode: "none", Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Body.Close()
	said, err := io.ReadAll(built.Body)
	if err != nil || strings.Contains(string(said), `"errorDetail"`) {
		t.Fatalf("build %s: %v %s", name, err, said)
	}
	t.Cleanup(func() {
		if _, err := engine.API.ImageRemove(context.WithoutCancel(t.Context()), name, image.RemoveOptions{Force: true}); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	})
}

// A program reaches what its agent's allowlist names, by the host's proxy, and nothing else.
func TestCodeAgentWithAnAllowlist(t *testing.T) {
	python := sandboxtest.Engine(t).Python(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) }))
	t.Cleanup(server.Close)
	s := coderHost(t, fmt.Sprintf("image = %q\nnetwork = \"allowlist\"\nallowlist = [\"files.example\"]", python), func(h *Host) {
		h.machines.network = apiNetwork{server.Listener.Addr().String()}
	})
	s.expect(s.ask("!py import urllib.request\nfor name in 'files.example', 'other.example':\n    try:\n"+
		"        print(urllib.request.urlopen(f'http://{name}/').read().decode())\n    except Exception as e:\n        print(name, e)"),
		"hello from files.example\nother.example HTTP Error 403: Forbidden")
}
