package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// runHost runs a host with a configuration until the test ends.
func runHost(t *testing.T, text string) (*Host, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	if err := os.WriteFile(path, []byte("[store]\ndir = \""+dir+"/s\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	eventually(t, "the host is ready", h.ready.Load)
	return h, path
}

const scheduledHost = `
[routing]
default_agent = "main"
[agent_configs.main]
[agent_configs.reporter]
system_prompt = "You report."
[[schedules]]
name = "report"
agent = "reporter"
cron = "0 0 29 2 *"
text = "what is new?"
as = "terminal:owner"
`

// TestAScheduleGoesTheWayOfEveryMessage runs one in a whole host, with the role of whom it runs for, and not for a stranger.
func TestAScheduleGoesTheWayOfEveryMessage(t *testing.T) {
	h, path := runHost(t, scheduledHost+`
[[schedules]]
name = "stranger"
agent = "main"
every = "1000h"
text = "let me in"
as = "web2:mallory"
[channels.web2]
plugin = "none"
enabled = false
`)
	b := h.backend()
	var run string
	eventually(t, "the schedule can be run", func() bool {
		r, err := b.Schedules.RunSchedule(t.Context(), "report")
		run = r.Event
		return err == nil
	})
	last := func(name string) (state, note string) {
		runs, err := b.Schedules.ScheduleRuns(t.Context(), name, "", 1)
		if err != nil || len(runs) == 0 {
			return "", ""
		}
		return runs[0].State, runs[0].Note
	}
	eventually(t, "the run is done", func() bool { s, _ := last("report"); return s == "done" })
	row, err := h.store.FindInbox(t.Context(), message.ScheduleChannel, run)
	if err != nil || row.State != mailbox.InboxDone {
		t.Fatalf("inbox row %+v, %v", row, err)
	}
	turns, err := h.store.History(t.Context(), message.ScheduleChannel, "report", 5)
	if err != nil || len(turns) != 1 || turns[0].Agent != "reporter" || turns[0].Sender != "terminal:owner" {
		t.Fatalf("turns %+v, %v", turns, err)
	}
	if _, err := b.Schedules.RunSchedule(t.Context(), "stranger"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stranger's run has failed", func() bool { s, _ := last("stranger"); return s == "failed" })
	if _, note := last("stranger"); !strings.Contains(note, "not in access.owners or access.members") {
		t.Errorf("note %q", note)
	}

	// Nobody can use the schedules' channel, and a schedule that is removed from the configuration is deleted.
	m := message.Message{Channel: message.ScheduleChannel, EventID: "x", Sender: message.Sender{ID: "terminal:owner"}, Conversation: message.Conversation{ID: "report", Kind: message.DM}, Text: "hi"}
	if err := b.Conversations.Submit(t.Context(), m); err == nil {
		t.Error("a message was taken on the schedules' channel")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:strings.Index(string(text), "[[schedules]]")], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.holder.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Schedules.RunSchedule(t.Context(), "report"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a schedule that is gone: %v", err)
	}
	list, err := b.Schedules.Schedules(t.Context(), "")
	if err != nil || len(list) != 0 {
		t.Errorf("schedules %+v, %v", list, err)
	}
}
