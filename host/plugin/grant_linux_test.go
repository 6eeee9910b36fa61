package plugin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/plugins/mcp/mcptest"
	"github.com/flynnhost/flynn/sdk/need"
)

// TestToolServerUsesWhatIsGranted runs a real MCP server, which is told that it may use a folder with three others in it. The operator has
// granted one of these to read, and one to write to.
func TestToolServerUsesWhatIsGranted(t *testing.T) {
	t.Parallel()
	if _, err := landlocksys.LandlockGetABIVersion(); err != nil {
		need.Part(t, "landlock", err)
	}
	program, server := mcptest.Server(t, "server-filesystem")
	base := t.TempDir()
	shared, work, other := filepath.Join(base, "shared"), filepath.Join(base, "work"), filepath.Join(base, "other")
	for _, dir := range []string{shared, work, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("written down"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	settings := map[string]any{"command": "node", "args": []any{program, base}}
	pack := map[string]string{"mcp": buildMCP(t)}
	for name, c := range map[string]struct {
		contain Containment
		fenced  bool
	}{
		"held in": {Containment{Launcher: testLauncher(t)}, true},
		"control": {Containment{}, false}, // the same server, not held in
	} {
		t.Run(name, func(t *testing.T) {
			s := startContained(t, pack, c.contain)
			calls := make(chan toolUse)
			i := Instance{Name: "files", Plugin: "mcp", Kind: toolkind.Name, Settings: settings, Grant: Grant{Read: []string{server, shared}, Write: []string{work}}}
			if err := s.Add(i, calledTools(calls)); err != nil {
				t.Fatal(err)
			}
			for _, try := range []struct {
				tool, dir string
				refused   bool
			}{
				{"read_text_file", shared, false},
				{"write_file", shared, c.fenced},
				{"read_text_file", work, false},
				{"write_file", work, false},
				{"read_text_file", other, c.fenced},
				{"write_file", other, c.fenced},
			} {
				use := toolUse{tool: try.tool, args: map[string]string{"path": filepath.Join(try.dir, "note.txt"), "content": "changed"}, got: make(chan toolkind.Result)}
				select {
				case calls <- use:
				case <-time.After(patience):
					t.Fatalf("no server; the log:\n%s", s.log)
				}
				r := <-use.got
				if r.IsError != try.refused || try.refused && !refusedByKernel(r.Text) {
					t.Errorf("%s in %s: %+v, want refused %t", try.tool, try.dir, r, try.refused)
				}
			}
		})
	}
}

// refusedByKernel tells the kernel's words, or what the server makes of them, from its own refusal.
func refusedByKernel(text string) bool {
	for _, word := range []string{"EACCES", "ENOENT", "EROFS", "Parent directory does not exist"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// toolUse is one call that a test makes.
type toolUse struct {
	tool string
	args map[string]string
	got  chan toolkind.Result
}

// calledTools makes the calls, once the server has told its tools.
func calledTools(calls chan toolUse) Handler {
	return handlerFunc(func(ctx context.Context, c client) error {
		for {
			list, err := c.tools.List(ctx)
			if err != nil {
				return err
			}
			if len(list) > 2 { // those for resources are the plugin's own
				break
			}
			select {
			case <-time.After(20 * time.Millisecond): // a poll, not a synchronisation
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for {
			select {
			case use := <-calls:
				args, err := json.Marshal(use.args)
				if err != nil {
					return err
				}
				r, err := c.tools.Call(ctx, toolkind.Call{ID: "1", Key: "1", Tool: use.tool, Args: args}, func([]byte) {})
				if err != nil {
					r = toolkind.Result{IsError: true, Text: err.Error()}
				}
				use.got <- r
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// buildMCP builds the plugin into a folder.
func buildMCP(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"plugin.toml", "settings.schema.json"} {
		text, err := os.ReadFile(filepath.Join("../../plugins/mcp", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hosttest.BuildPlugin(t, "plugins/mcp", dir)
	return dir
}
