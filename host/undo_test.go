package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// filesHost is a host whose agent runs commands on this machine without asking. Its callers are on the web page.
func filesHost(t *testing.T, more string) *cliHome {
	t.Helper()
	return demoHost(t, "approve = \"none\"\n"+more)
}

func (s *cliHome) content(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.workspace(), name))
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(text))
}

// reply returns the answer to a chat command.
func (s *cliHome) reply(text string) string {
	s.t.Helper()
	_, events, stop := s.host.backend().Conversations.Watch(gateway.ChannelWeb, "c")
	defer stop()
	s.say(text)
	for e := range events {
		if e.Kind == message.ReplyReady {
			return e.Text
		}
	}
	s.t.Fatal("no answer")
	return ""
}

// TestUndoOfATurn is the whole way: a command changes files, a person undoes that by the API and by chat, the agent hears of it, and it is
// recorded. A turn that changes nothing is not in the way.
func TestUndoOfATurn(t *testing.T) {
	s := filesHost(t, "")
	b, ctx, me := s.host.backend(), t.Context(), gateway.Caller{Sender: "web:owner", Role: "owner"}
	if _, err := b.Conversations.PlanUndo(ctx, gateway.ChannelWeb, "c", 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before the first turn: %v", err)
	}
	s.ask("hello")
	if p, err := b.Conversations.PlanUndo(ctx, gateway.ChannelWeb, "c", 1); err != nil || p.Why == "" {
		t.Errorf("before any change: %+v, %v", p, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "s", "snapshots", "*")); len(left) > 0 {
		t.Errorf("a turn that only talks has left %q", left)
	}
	s.ask("!sh echo one > a")
	s.ask("!sh echo two > a; echo new > b")
	s.ask("!sh cat a")
	p, err := b.Conversations.PlanUndo(ctx, gateway.ChannelWeb, "c", 1)
	if err != nil || len(p.Restored) != 1 || len(p.Removed) != 1 || len(p.Changed) != 0 {
		t.Fatalf("%+v, %v", p, err)
	}

	m, err := s.host.fleet.Host("web:c:main")
	if err != nil {
		t.Fatal(err)
	}
	process, err := m.Start(ctx, machine.Command{Script: "sleep 300"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Conversations.Undo(ctx, gateway.ChannelWeb, "c", gateway.Undo{Code: p.Code}, me); !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "sleep 300") {
		t.Errorf("beside a background command: %v", err)
	}
	if got := s.reply("/undo"); !strings.Contains(got, "sleep 300") || s.content("a") != "two" {
		t.Errorf("beside a background command: %q", got)
	}
	if _, err := m.Kill(ctx, process.ID); err != nil {
		t.Fatal(err)
	}

	if _, err := b.Conversations.Undo(ctx, gateway.ChannelWeb, "c", gateway.Undo{Code: "1FFFFF"}, me); !errors.Is(err, store.ErrConflict) {
		t.Errorf("another code: %v", err)
	}
	if _, err := b.Conversations.Undo(ctx, gateway.ChannelWeb, "c", gateway.Undo{Code: p.Code}, me); err != nil {
		t.Fatal(err)
	}
	if s.content("a") != "one" || s.content("b") != "none" {
		t.Errorf("after the undo: a %q, b %q", s.content("a"), s.content("b"))
	}
	s.expect(s.ask("what now?"), "owner has undone", `"a"`, `"b"`)
	if got := s.ask("and now?"); strings.Contains(got.Text, "undone") {
		t.Errorf("the agent is told again: %q", got.Text)
	}
	asked := s.reply("/undo")
	_, code, _ := strings.Cut(asked, "`/undo yes ")
	if got := s.reply("/undo yes " + strings.ToLower(code[:6])); !strings.Contains(got, "Undone") || s.content("a") != "two" || s.content("b") != "new" {
		t.Errorf("redo: %q, a %q, b %q", got, s.content("a"), s.content("b"))
	}
	rows, err := s.host.store.ListAudit(ctx, consent.AuditFilter{Kind: consent.AuditUndone})
	if err != nil || len(rows) != 2 || rows[0].Actor != "web:owner" || rows[0].Subject != "web:c:main" || rows[1].Actor != "web:me" {
		t.Errorf("audit log %+v, %v", rows, err)
	}

	if err := b.Sessions.DeleteSession(ctx, "web:c:main", "web:owner", false); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "s", "snapshots", "web-*")); len(left) > 0 {
		t.Errorf("a deleted session has left %q", left)
	}
}

// TestForkOfFiles: a fork has the files as they were, works on its own copy, and says so where they do not fit.
func TestForkOfFiles(t *testing.T) {
	s := filesHost(t, "[limits]\nsession_disk = \"1m\"\n")
	b, ctx, me := s.host.backend(), t.Context(), gateway.Caller{Sender: "web:owner", Role: "owner"}
	first := s.ask("!sh echo one > a; ln -s /etc/passwd l")
	s.ask("!sh echo two > a")
	fork := func(entry string) gateway.Forked {
		t.Helper()
		f, err := b.Conversations.Fork(ctx, gateway.ChannelWeb, "c", gateway.Fork{Entry: entry}, me)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	in := func(f gateway.Forked, name string) string {
		text, _ := os.ReadFile(filepath.Join(s.host.fleet.Dir(message.WorkspaceKey("web:"+f.ID+":main")), name))
		return strings.TrimSpace(string(text))
	}
	then := fork(first.Key)
	if then.Files.Files != 1 || !then.Files.Then || then.Files.Why != "" || in(then, "a") != "one" {
		t.Errorf("%+v with %q", then, in(then, "a"))
	}
	last := s.ask("!sh echo three > a; head -c 2000000 /dev/zero > big")
	if err := os.WriteFile(filepath.Join(s.workspace(), "a"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if in(then, "a") != "one" {
		t.Error("a fork shares its files")
	}
	full := fork(last.Key)
	if full.Files.Files != 0 || full.Files.Why == "" {
		t.Errorf("%+v", full)
	}
	if _, err := os.Stat(s.host.fleet.Dir(message.WorkspaceKey("web:" + full.ID + ":main"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part was copied: %v", err)
	}
	if list, err := s.host.store.SessionsIn(ctx, "web:"+full.ID); err != nil || len(list) != 1 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}
