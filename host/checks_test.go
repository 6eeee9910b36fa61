package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

func TestChecks(t *testing.T) {
	for _, c := range []struct{ name, agent, want string }{
		{"chat", `kind = "chat"`, ""},
		{"a provider with the name of own tools", "[tools.shell]\nplugin = \"mcp\"", "shell.* are Flynn's own tools"},
		{"an override for a provider", "tool_overrides.deny = [\"ext.erase\"]\n[tools.ext]\nplugin = \"mcp\"", ""},
		{"a misspelt deny", `tool_overrides.deny = ["shell.exce"]`, `did you mean "shell.exec"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "flynn.toml")
			text := "[store]\ndir = \"s\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\n" + c.agent + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(path, os.Getenv, Checks()...)
			var bad config.Errors
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}
