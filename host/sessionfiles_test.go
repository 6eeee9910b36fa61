package host

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// TestImportIntoAHost: the next message goes on from what was imported, although the conversation was looked at before, and its labels say
// so.
func TestImportIntoAHost(t *testing.T) {
	from, to := pairingHost(t), pairingHost(t)
	ask := func(h *Host, event string) {
		t.Helper()
		if err := h.inbox.Accept(t.Context(), message.Message{
			Channel: "tg", EventID: event, Text: "hello " + event, Addressed: true, Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "ann", Kind: message.DM},
		}); err != nil {
			t.Fatal(err)
		}
		items, err := agent.Recover(t.Context(), h.store)
		if err != nil {
			t.Fatal(err)
		}
		h.runner.Work(t.Context(), "tg/dm:ann", items)
	}
	ask(from, "e1")
	var file bytes.Buffer
	if err := session.Export(t.Context(), from.store, "tg/dm:ann:a", time.Now(), &file); err != nil {
		t.Fatal(err)
	}
	if _, err := to.runner.Summary(t.Context(), to.current.Load().Generation, "tg/dm:ann", message.Message{Channel: "tg", Sender: message.Sender{ID: "ann"}}); err != nil {
		t.Fatal(err)
	}
	b := to.backend()
	if got, err := b.Sessions.ImportSession(t.Context(), bytes.NewReader(file.Bytes())); err != nil || got.Key != "tg/dm:ann:a" || got.Turns != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := b.Sessions.ImportSession(t.Context(), bytes.NewReader(file.Bytes())); !errors.Is(err, store.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	if _, err := b.Sessions.ImportSession(t.Context(), strings.NewReader("nonsense")); !errors.Is(err, gateway.ErrBadFile) {
		t.Errorf("nonsense: %v", err)
	}
	ask(to, "e2")
	steps, err := to.store.Transcript(t.Context(), "tg/dm:ann:a", 10)
	if err != nil {
		t.Fatal(err)
	}
	last := slices.IndexFunc(steps, func(s turnlog.Step) bool { return strings.Contains(string(s.Data), "hello e2") })
	if last <= 0 || !strings.Contains(string(steps[last].Data), tool.Imported) {
		t.Errorf("the turn after the import is step %d of %+v", last, steps)
	}
}
