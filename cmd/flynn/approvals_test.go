package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/flynnhost/flynn/host/gateway/rest"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
)

// askingHost is a gateway over a host in which one call waits for an answer.
func askingHost(t *testing.T, command string) (path, id string, b *gatewaytest.Backend) {
	t.Helper()
	b = gatewaytest.New(gatewaytest.Demo)
	t.Cleanup(b.Close)
	token := filepath.Join(t.TempDir(), "token")
	g, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0", TokenFile: token, API: api.New(b.Subjects(), "test", nil)}, b.Subjects())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	path = listensAt(t, g.Addr().String(), token)
	err = b.Submit(ctx, message.Message{
		Channel: "terminal", EventID: "1", Conversation: message.Conversation{ID: "main"}, Sender: message.Sender{ID: "owner"}, Text: "!ask " + command,
	})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if list, _ := b.Approvals(ctx); len(list) == 1 {
			return path, list[0].ID, b
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody was asked")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestApprovalsOfARunningHost(t *testing.T) {
	for _, c := range []struct {
		name, command string
		args          []string
		code          int
		out, err      string
		waits         bool
	}{
		{"list", "ls", []string{"approvals", "list"}, 0, "this call until next month", "", true},
		{"list as JSON", "ls", []string{"approvals", "list", "--json"}, 0, `"may_standing": true`, "", true},
		{"list, with the command as one would type it", "ls && echo <x>", []string{"approvals", "list"}, 0, "| ls && echo <x>\n", "", true},
		{"show", "ls && echo <x>", []string{"approvals", "show", "ID"}, 0, "| ls && echo <x>\n", "", true},
		{"show what follows a file", "bad", []string{"approvals", "show", "ID"}, 0, "Badfile (bad)", "", true},
		{"show what is a shell", "bad", []string{"approvals", "show", "ID"}, 0, "as good as a shell: bad can run", "", true},
		{"show as JSON", "bad", []string{"approvals", "show", "ID", "--json"}, 0, `"session_shell": "bad can run any program"`, "", true},
		{"show what is not there", "ls", []string{"approvals", "show", "none"}, 1, "", "no pending request \"none\"", true},
		{"list what cannot last", "bad", []string{"approvals", "list"}, 0, "not possible: bad can run any program", "", true},
		{"once", "ls", []string{"approvals", "approve", "ID"}, 0, "", "", false},
		{"session", "ls", []string{"approvals", "approve", "--scope", "session", "ID", "--json"}, 0, `"scope": "session"`, "", false},
		{"always", "ls", []string{"approvals", "approve", "--scope", "always", "--for", "8h", "--pattern", "ls *", "ID"}, 0, "", "", false},
		{"what cannot last", "bad", []string{"approvals", "approve", "--scope", "always", "ID"}, 1, "", "cannot be granted like that", true},
		{"deny", "ls", []string{"approvals", "deny", "ID"}, 0, "", "", false},
		{"what is not there", "ls", []string{"approvals", "deny", "none"}, 1, "", "not found", true},
		{"another scope", "ls", []string{"approvals", "approve", "--scope", "ever", "ID"}, 2, "", "once, session or always", true},
		{"a time of another kind", "ls", []string{"approvals", "approve", "--scope", "always", "--for", "soon", "ID"}, 2, "", "8h or 30d", true},
		{"a time for once", "ls", []string{"approvals", "approve", "--for", "8h", "ID"}, 2, "", "--scope always", true},
		{"no id", "ls", []string{"approvals", "approve"}, 2, "", "", true},
		{"no grants", "ls", []string{"approvals", "grants", "--json"}, 0, "[]", "", true},
		{"revoke what is not there", "ls", []string{"approvals", "revoke", "none"}, 1, "", "not found", true},
		{"audit", "ls", []string{"audit", "list", "--subject", "abc", "--json"}, 0, `"subject": "abc"`, "", true},
		{"audit since when", "ls", []string{"audit", "list", "--since", "yesterday"}, 2, "", "write 90m, 7d, 2w", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, id, b := askingHost(t, c.command)
			args := []string{"flynn", "--config", path}
			for _, a := range c.args {
				if a == "ID" {
					a = id
				}
				args = append(args, a)
			}
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, &stderr)
			}
			if !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) {
				t.Errorf("prints %q and %q, want %q and %q", &stdout, &stderr, c.out, c.err)
			}
			if list, _ := b.Approvals(t.Context()); (len(list) == 1) != c.waits {
				t.Errorf("%d requests wait afterwards", len(list))
			}
		})
	}
}

func TestGrantsOfARunningHost(t *testing.T) {
	path, id, _ := askingHost(t, "ls")
	for _, c := range []struct{ args, want, lacks string }{
		{"approvals approve --scope always " + id, "", ""},
		{"approvals grants", id, "ended"},
		{"tool explain shell", id, ""},
		{"approvals revoke " + id, "", ""},
		{"approvals grants", "", id},
		{"approvals grants --all", "ended", ""},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"flynn", "--config", path}, strings.Fields(c.args)...)
		if code := run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Errorf("%s: exit code %d: %s", c.args, code, &stderr)
		}
		if got := stdout.String(); !strings.Contains(got, c.want) || c.lacks != "" && strings.Contains(got, c.lacks) {
			t.Errorf("%s prints %q, want %q and no %q", c.args, got, c.want, c.lacks)
		}
	}
}
