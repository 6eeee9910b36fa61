package host

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// coderHost runs a host whose agent main writes programs in Python.
func coderHost(t *testing.T, code string, adjust ...func(*Config)) *cliHome {
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
	s := coderHost(t, fmt.Sprintf("dockerfile = %q\nbuild_context = %q\nbuild_network = \"none\"", filepath.Join(dir, "Dockerfile"), dir))
	s.expect(s.ask("!py import sys; sys.path.append('/opt'); import greeting; print(greeting.said)"), "hello from the image")
}

// An agent whose image lacks Python gets it by its packages, installed by Debian's own apt from the mirror. The build uses the network of
// the machine, since the engine of the tests has no bridge.
func TestCodeAgentWithPackages(t *testing.T) {
	engine := sandboxtest.Engine(t)
	s := coderHost(t, fmt.Sprintf("image = %q\npackages = [\"python3\"]\nbuild_network = \"host\"", engine.Debian(t)))
	s.sweepImages(engine)
	event := s.say("!py import json, pathlib; print(json.dumps('Package: python3' in pathlib.Path('/var/lib/dpkg/status').read_text()))")
	s.awaitImage(engine)
	s.expect(s.answer(event), "true")
}

// A program reaches what its agent's allowlist names, by the host's proxy, and nothing else.
func TestCodeAgentWithAnAllowlist(t *testing.T) {
	python := sandboxtest.Engine(t).Python(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) }))
	t.Cleanup(server.Close)
	s := coderHost(t, fmt.Sprintf("image = %q\nnetwork = \"allowlist\"\nallowlist = [\"files.example\"]", python), func(c *Config) {
		c.Outside.Network = apiNetwork{server.Listener.Addr().String()}
	})
	s.expect(s.ask("!py import urllib.request\nfor name in 'files.example', 'other.example':\n    try:\n"+
		"        print(urllib.request.urlopen(f'http://{name}/').read().decode())\n    except Exception as e:\n        print(name, e)"),
		"hello from files.example\nother.example HTTP Error 403: Forbidden")
}
