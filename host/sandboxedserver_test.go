package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// shellServer is an MCP server in the language of the smallest shell: one tool that tells where it runs.
const shellServer = `echo started >&2
while read -r line; do
  id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) r='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) r='"result":{"tools":[{"name":"where","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) r='"result":{"content":[{"type":"text","text":"of the host it sees '"$(cat "$FILE" || echo nothing)"', variable '"$OURS"', folder '"$PWD"'"}]}' ;;
    *'"ping"'*) r='"result":{}' ;;
    *) r='"error":{"code":-32601,"message":"not here"}' ;;
  esac
  [ -n "$id" ] && echo '{"jsonrpc":"2.0","id":'"$id"','"$r"'}'
done
`

// buildMCP builds the plugin into a folder that runs as a development plugin.
func buildMCP(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"plugin.toml", "settings.schema.json"} {
		text, err := os.ReadFile(filepath.Join("../plugins/mcp", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hosttest.BuildPlugin(t, "plugins/mcp", dir)
	return dir
}

// TestServerInASandbox runs an MCP server in a container, its client outside of it, and a tool of it in a turn.
func TestServerInASandbox(t *testing.T) {
	sandboxtest.Engine(t)
	dir := t.TempDir()
	path, secret := filepath.Join(dir, "flynn.toml"), filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("everything"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = "127.0.0.1:0"
[routing]
default_agent = "main"
[agent_configs.main]
tool_profile = "full"
sandbox = false
[sandbox]
enabled = true
image = %q
[plugins.dev_paths]
mcp = %q
[tools.boxed]
plugin = "mcp"
effect = "read"
sandbox = true
command = "sh"
args = ["-c", '''%s''']
env = { OURS = "it's ours", FILE = %q }
`, filepath.Join(dir, "s"), sandboxtest.Image, buildMCP(t), shellServer, secret)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	b := h.backend()
	eventually(t, "the tool is offered", func() bool {
		list := b.Status.Status(t.Context()).Tools
		return len(list) == 1 && len(list[0].Tools) == 1 && len(list[0].Tools[0].Agents) == 1
	})
	if err := b.Conversations.Submit(t.Context(), message.Message{
		Channel: gateway.ChannelWeb, EventID: "1", Text: "!tool boxed.where", Conversation: message.Conversation{ID: "c", Kind: message.DM},
		Sender: message.Sender{ID: "me"}, Addressed: true,
	}); err != nil {
		t.Fatal(err)
	}
	// The socket lies where a later start removes it if this host is killed: see plugin.SocketDir.
	beside, err := h.plugins.SocketDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(beside)
	sockets, err := filepath.Glob(filepath.Join(filepath.Dir(beside), "*", "server"))
	if err != nil || len(sockets) != 1 || !strings.HasPrefix(filepath.Base(filepath.Dir(beside)), "flynn-") {
		t.Errorf("the run folder of the plugins, %s, has the sockets %q, want one; %v", filepath.Dir(beside), sockets, err)
	}
	var answer string
	eventually(t, "the tool has run", func() bool {
		list, err := b.Conversations.History(t.Context(), gateway.ChannelWeb, "c", 1)
		if err == nil && len(list) == 1 && list[0].Final() {
			answer = list[0].Text
		}
		return answer != ""
	})
	if want := "of the host it sees nothing, variable it's ours, folder /workspace"; !strings.Contains(answer, want) {
		t.Errorf("the server says %q, want %q", answer, want)
	}
}
