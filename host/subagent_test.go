package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
)

// The example starts without a key and without an engine, and says what is missing.
func TestSubagentExample(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	for _, key := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv(key, "")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("../examples/subagent/flynn.toml")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile("../examples/subagent/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), dockerfile, 0o600); err != nil {
		t.Fatal(err)
	}
	whole := strings.ReplaceAll(string(text), `"../../.cache/subagent"`, `"s"`) + "[gateway]\nlisten = \"127.0.0.1:0\"\n"
	s := runCLI(t, dir, whole)
	s.expect(s.ask("hello"), "claude cannot run: it has no key for its model: set ANTHROPIC_API_KEY and start Flynn again")
	s.end()

	t.Setenv("ANTHROPIC_API_KEY", "a-key")
	s = runCLI(t, dir, whole)
	s.expect(s.ask("hello"), "sandbox is unavailable: ", "start Docker")
	c, err := config.Load(filepath.Join(dir, "flynn.toml"), os.Getenv, Checks()...)
	if err != nil {
		t.Fatal(err)
	}
	for name, host := range map[string]string{"claude": "api.anthropic.com", "codex": "api.openai.com", "gemini": "generativelanguage.googleapis.com"} {
		spec := specs.CLI(c, name)
		if len(spec.Allowlist) != 1 || spec.Allowlist[0] != host || len(spec.Credentials) != 1 || spec.Network != "allowlist" {
			t.Errorf("%s reaches %q with %+v", name, spec.Allowlist, spec.Credentials)
		}
	}
}
