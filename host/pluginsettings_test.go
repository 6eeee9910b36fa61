package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

// What a provider's server needs does not reach its plugin when the server runs in a sandbox, which the schema has to be asked about.
func TestTheSchemaIsAskedAboutWhatThePluginGets(t *testing.T) {
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
	got := PluginSettings(&config.Config{Tools: map[string]config.ToolProvider{"open": provider, "enclosed": enclosed, "off": off}}, "probe", s)
	if len(got) != 1 || got[0].Key != "tools.open.args" || got[0].Hint != `the plugin knows ["command" "socket"]` {
		t.Errorf("got %v", got)
	}
}
