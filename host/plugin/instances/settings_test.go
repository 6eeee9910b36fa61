package instances

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

// TestTheSchemaChecksWhatThePluginGets: a plugin whose server runs in a sandbox does not get the settings that are for the server.
func TestTheSchemaChecksWhatThePluginGets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plugin.toml": "manifest = 1\nname = \"probe\"\nversion = \"1.0.0\"\nkinds = [\"tools\"]\nprotocols = [1]\nexec = { any = [\"sh\"] }\n" +
			"config = { schema = \"schema.json\" }\n",
		"schema.json": `{"additionalProperties":false,"properties":{"command":{"type":"string"},"socket":{"type":"string"}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := plugin.ReadSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	provider := config.ToolProvider{Plugin: "probe", Enabled: true, Settings: map[string]any{"command": "ls", "args": []any{"-l"}}}
	enclosed := provider
	enclosed.Sandbox.Enabled = true
	off := provider
	off.Enabled = false
	got := CheckSettings(&config.Config{Tools: map[string]config.ToolProvider{"open": provider, "enclosed": enclosed, "off": off}}, "probe", s)
	if len(got) != 1 || got[0].Key != "tools.open.args" || got[0].Hint != `the plugin has the keys ["command" "socket"]` {
		t.Errorf("got %v", got)
	}
}
