package livetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// pretendedClaude answers like Claude Code: where it works, what it was told, and how it was called. It keeps what it was told in its home,
// and leaves a file where it works.
const pretendedClaude = `#!/bin/sh
told=$(cat)
echo "$told" >>"$HOME/told"
: >made
printf '{"type":"result","is_error":false,"session_id":"s","result":"%s|%s|%s|%s"}\n' "$(pwd)" "$told" "$(tr '\n' ',' <"$HOME/told")" "$*"
`

// Founding row 21: "An MCP server starts agent CLIs inside containers: --sandbox, --sandbox-image NAME; without it on the host." No other
// flynn runs. Row 22: "the user's folder at /workspace (rw), one volume per session for the CLI's state (rw)". Row 24: "the same session
// id mounts the same volume, so the CLI finds its conversation again."
func TestAgentCLIOverMCP(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"host", "sandbox"} {
		t.Run(place, func(t *testing.T) {
			dir := t.TempDir()
			programs, project, other := filepath.Join(dir, "bin"), filepath.Join(dir, "projects", "site"), filepath.Join(dir, "other")
			for _, d := range []string{programs, project, other} {
				if err := os.MkdirAll(d, 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(d, 0o777); err != nil { // the sandbox's user works there
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(programs, "claude"), []byte(pretendedClaude), 0o755); err != nil {
				t.Fatal(err)
			}
			args := []string{"mcp", "--cli", "claude", "--root", filepath.Dir(project), "--state", filepath.Join(dir, "state")}
			works := project
			if place == "sandbox" {
				engine := sandboxtest.Engine(t)
				args = append(args, "--sandbox", "--sandbox-image", engine.Script(t, "claude", pretendedClaude))
				works = "/workspace"
			}
			start := func() *agentCLI {
				cmd := exec.Command(filepath.Join(bin(t), "flynn"), args...)
				cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+programs+":"+os.Getenv("PATH"), "ANTHROPIC_API_KEY=a-key-for-nobody")
				cmd.Stderr = t.Output()
				return connectAgentCLI(t, cmd)
			}
			first := start()
			text, session := first.ask(map[string]any{"message": "a && <b> 'c'", "directory": project})
			if !strings.HasPrefix(text, works+"|a && <b> 'c'|a && <b> 'c',|") || !strings.Contains(text, "--session-id") {
				t.Errorf("the first answer is %q", text)
			}
			if _, err := os.Stat(filepath.Join(project, "made")); err != nil {
				t.Errorf("it did not work in the user's folder: %v", err)
			}
			second := start() // beside the first, with a store of its own
			if text, _ := second.ask(map[string]any{"message": "hello"}); strings.Contains(text, works+"|") || !strings.Contains(text, "|hello|") {
				t.Errorf("without a directory, and beside another: %q", text)
			}
			second.close()
			for want, in := range map[string]map[string]any{
				"this conversation is about " + project:     {"message": "x", "session": session, "directory": filepath.Dir(project)},
				"is not below a folder of roots of [cli]":   {"message": "x", "directory": other},
				"must be a clean absolute path":             {"message": "x", "directory": project + "/../../other"},
				`directory "site" must be a clean absolute`: {"message": "x", "directory": "site"},
			} {
				if text, _ := first.ask(in); !strings.Contains(text, want) {
					t.Errorf("%v: %q, want %q", in, text, want)
				}
			}
			first.close()
			third := start()
			text, _ = third.ask(map[string]any{"message": "go on", "session": session})
			if !strings.HasPrefix(text, works+"|go on|") || !strings.Contains(text, "a && <b> 'c',") || !strings.Contains(text, "--resume") {
				t.Errorf("after a restart the session says %q", text)
			}
			third.close()
		})
	}
}

// agentCLI is a client of flynn mcp --cli.
type agentCLI struct {
	t       *testing.T
	session *mcp.ClientSession
}

func connectAgentCLI(t *testing.T, cmd *exec.Cmd) *agentCLI {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &agentCLI{t, session}
}

func (a *agentCLI) ask(in map[string]any) (text, session string) {
	a.t.Helper()
	r, err := a.session.CallTool(a.t.Context(), &mcp.CallToolParams{Name: "ask_claude", Arguments: in})
	if err != nil {
		a.t.Fatal(err)
	}
	if about, ok := r.StructuredContent.(map[string]any); ok {
		session = fmt.Sprint(about["session"])
	}
	return r.Content[0].(*mcp.TextContent).Text, session
}

func (a *agentCLI) close() {
	a.t.Helper()
	if err := a.session.Close(); err != nil {
		a.t.Error(err)
	}
}
