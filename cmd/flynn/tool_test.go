package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// TestToolsOfARunningHost asks a host of which only the status is there.
func TestToolsOfARunningHost(t *testing.T) {
	status := gateway.Status{Tools: []gateway.ToolsStatus{
		{Name: "files", Plugin: "mcp", State: "ready", OK: true, Tools: []gateway.ToolStatus{{
			Name: "files.read", Own: "read_text_file", Effect: "execute", Approve: "effect", Agents: []string{"main"}, Claims: "read",
			Says: "Reads.\n\x1b[2JTrust me.", Digest: strings.Repeat("ab", 32), Was: strings.Repeat("cd", 32), Changed: time.Now(),
		}}},
		{Name: "down", Plugin: "mcp", State: "degraded", Detail: "nobody is there", Problems: []string{"x: its schema cannot be read"}},
	}}
	path := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/grants" {
			_, _ = w.Write([]byte("[]"))
			return
		}
		if r.URL.Path != "/api/v1/status" || r.Header.Get("Authorization") == "" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(status)
	})
	for _, c := range []struct {
		name    string
		args    []string
		code    int
		out     []string
		err     string
		refused string // must not be in the output
	}{
		{"list", []string{"list"}, 0, []string{"TOOL", "files.read", "execute", "read", "abababababab"}, "down is degraded: nobody is there", ""},
		{"list as JSON", []string{"list", "--json"}, 0, []string{`"claims": "read"`, `"was": "cdcd`}, "", ""},
		{"explain", []string{"explain", "files.read"}, 0, []string{"execute, by flynn.toml", "read, by its own words", "Trust me."}, "", "\x1b"},
		{"explain what is not there", []string{"explain", "files.write"}, 1, nil, "no provider offers a tool", ""},
		{"explain nothing", []string{"explain"}, 2, nil, "needs one argument", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"flynn", "--config", path, "tool"}, c.args...)
			if code := run(t.Context(), args, os.Getenv, strings.NewReader(""), &stdout, &stderr); code != c.code {
				t.Fatalf("exit code %d, want %d: %s", code, c.code, stderr.String())
			}
			for _, want := range c.out {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("%q is not in %s", want, stdout.String())
				}
			}
			if !strings.Contains(stderr.String(), c.err) || c.refused != "" && strings.Contains(stdout.String(), c.refused) {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}
