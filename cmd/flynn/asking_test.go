package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// asking is a folder with a policy, and configurations that differ in where the store is.
type asking struct {
	t   *testing.T
	dir string
}

// config writes the configuration of a host on a store of that name.
func (a asking) config(store, listen string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, store+"-"+strings.ReplaceAll(listen, ":", "-")+".toml")
	text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = %q\ntoken_file = %q\n[plugins]\ndir = %q\n[models.default]\nprovider = \"demo\"\n"+
		"[routing]\ndefault_agent = \"main\"\n[agent_configs.main]\n[sandbox]\nenabled = false\n"+
		"[[policies]]\nname = \"p\"\npath = %q\nkinds = [\"tool\"]\n",
		filepath.Join(a.dir, store), listen, filepath.Join(a.dir, "token"), filepath.Join(a.dir, "plugins"), filepath.Join(a.dir, "p.wasm"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// leave puts something into the store for each command.
func (a asking) leave(store string) {
	a.t.Helper()
	ctx := a.t.Context()
	now := time.Now().Add(-time.Hour).Truncate(time.Second)
	wasm := filepath.Join(a.dir, "p.wasm")
	m, err := policy.Open(ctx, policy.Source{Name: "p", Path: wasm, Kinds: []string{policy.KindTool}, Limits: policy.Limits{Wall: 10 * time.Second}})
	if err != nil {
		a.t.Fatal(err)
	}
	defer m.Close()
	f := policy.ToolFacts{Agent: "main", Session: "s", Tool: "notes.read", Effect: "read", Args: []byte(`{"n":1}`)}
	f.Message.Channel, f.Message.Sender.ID, f.Message.Text, f.Role, f.Door, f.Now = "irc", "alice", "hello", "guest", "channel", now
	_, record := m.Tool(ctx, f)
	s, err := sqlite.Open(ctx, filepath.Join(a.dir, store))
	if err != nil {
		a.t.Fatal(err)
	}
	said := message.Message{
		Channel: "irc", EventID: "e1", Text: "list my files", Sender: message.Sender{ID: "ann"}, ReceivedAt: now,
		Conversation: message.Conversation{ID: "ann", Kind: message.DM},
	}
	row, _, err := s.AppendInbox(ctx, said, mailbox.InboxNew, "")
	if err != nil {
		a.t.Fatal(err)
	}
	spent := usage.Row{
		At: now, Day: now.UTC().Format(time.DateOnly), Sender: "irc:ann", Agent: "main", Tier: "default", Provider: "anthropic", Model: "m",
		Attempt: 1, Input: 1000, Cost: 12_345_678,
	}
	count := journal.ShadowCount{Day: now, Policy: "p", Digest: "d", File: "0123456789abcdef", Outcome: "changed", Count: 1}
	differs := journal.ShadowDifference{
		At: now, Policy: "p", Digest: "d", File: count.File, Kind: "tool", Was: "deny", Is: "ask", Channel: "irc", Sender: "irc:carol", Tool: "shell.run",
	}
	err = errors.Join(
		s.CommitTurn(ctx, oneTurn(now, said, row.ID)), s.AddUsage(ctx, []usage.Row{spent}), s.AddDecisions(ctx, decisionlog.Rows(now, []policy.Record{record})),
		s.AddShadow(ctx, []journal.ShadowDifference{differs}, []journal.ShadowCount{count}),
	)
	for i := range 3 {
		at := now.Add(time.Duration(i) * time.Second)
		err = errors.Join(err, s.WriteNote(ctx, memory.Note{Agent: "main", Key: fmt.Sprint("diet", i), Text: "Ann eats no meat", Updated: at}, 0),
			s.AddEgress(ctx, []egress.Record{{ID: fmt.Sprint("e", i), At: at, Kind: "connect", Host: fmt.Sprintf("h%d.example", i), Port: 443}}))
	}
	if err := errors.Join(err, s.Close()); err != nil {
		a.t.Fatal(err)
	}
}

// flynn runs a command on a configuration.
func (a asking) flynn(path string, args ...string) string {
	a.t.Helper()
	var out, errs bytes.Buffer
	getenv := func(key string) string { return map[string]string{"HOME": a.dir, "FLYNN_CONFIG": path}[key] }
	code := run(a.t.Context(), append([]string{"flynn"}, args...), getenv, strings.NewReader(""), &out, &errs)
	differs := regexp.MustCompile(`"exported":"[^"]*"|"took_ns": *\d+|\d[.\d]*[nµm]?s\n|\S*-127.0.0.1-\d+.toml| +`) // from run to run
	return fmt.Sprintf("%sexit code %d\n", differs.ReplaceAllString(out.String()+errs.String(), " "), code)
}

// TestCommandsAskTheRunningHost: while a host runs, commands that read have everything from its API, for the store that their configuration
// names is not there. When it has stopped they read its store, and say the same.
func TestCommandsAskTheRunningHost(t *testing.T) {
	a := asking{t, t.TempDir()}
	if err := os.WriteFile(filepath.Join(a.dir, "p.wasm"), w.Policy(1).Hook("flynn_tool", "", w.I64(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	a.leave("store")
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	h, err := host.New(ctx, host.Config{
		Path: a.config("store", "127.0.0.1:0"), Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler), Ready: func() { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- h.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	at, err := url.Parse(h.URL())
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{ // each with something that it says
		"session list": "irc:ann:main", "session show irc:ann:main": "list my files", "session export irc:ann:main": "flynn_session",
		"session show none": "no session", "session export none": "no session",
		"memory list": "Ann eats", "memory search meat": "Ann eats", "memory list --limit 2": "diet2", "memory list --person x --shared": "choose",
		"usage --by sender": "irc:ann", "usage --since 30m": "", "sandbox egress": "h0.example", "sandbox egress --limit 2": "h2.example",
		"policy history": "in force", "policy history p": "in force", "policy history q": "no policy", "policy shadow": "carol", "policy shadow --examples 0": "module",
		"policy replay": "1 not compared", "policy replay --candidate " + filepath.Join(a.dir, "p.wasm"): "0 of 1 decisions",
		"policy explain --decision 4": "notes.read", "policy explain --decision 99": "no decision",
		"explain --last": "list my files", "route test --channel web --sender owner": "agent main answers",
		"route test --channel web --sender owner --label x --turns 3 --chosen main": "agent main answers", "route test --channel none --sender x": "no channel",
	}
	alive, asked := a.config("absent", at.Host), map[string]string{}
	for command, says := range commands {
		for _, form := range []string{"", " --json"} {
			got := a.flynn(alive, strings.Fields(command+form)...)
			if asked[command+form] = got; form == "" && !strings.Contains(got, says) {
				t.Errorf("flynn %s%s does not say %q:\n%s", command, form, says, got)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(a.dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command made the store's folder: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for command, was := range asked {
		if got := a.flynn(a.config("store", at.Host), strings.Fields(command)...); got != was {
			t.Errorf("flynn %s says from the store\n%s\nand the running host said\n%s", command, got, was)
		}
	}
}
