package storetest

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// partsAreKept goes through the parts of a long reply, with a restart after each.
func partsAreKept(t *testing.T, open Opener) {
	s := open()
	tn := turn("t1")
	tn.State = store.TurnDone
	r := reply("k1")
	r.Attachments = []message.Attachment{{Digest: "d", Name: "a.txt", Type: "text/plain", Size: 3}}
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: tn, Replies: []message.Reply{r}}))
	row := must[[]store.OutboxRow](t)(s.UnsentOutbox(t.Context()))[0]
	if len(row.Parts) != 0 || row.Part != 0 {
		t.Fatalf("a fresh row has parts: %+v", row)
	}
	row.Parts = []string{"one", "two", ""}
	for part := range 3 {
		row.Part, row.Attempts = part, part
		check(t, s.SetOutbox(t.Context(), row))
		s = open()
		rows := must[[]store.OutboxRow](t)(s.UnsentOutbox(t.Context()))
		if len(rows) != 1 {
			t.Fatalf("%d rows are unsent, want 1", len(rows))
		}
		row.PlatformIDs = rows[0].PlatformIDs
		equal(t, "row", rows[0], row)
	}
}

// draftsAreKept until nothing can complete them any more.
func draftsAreKept(t *testing.T, open Opener) {
	s := open()
	draft := func(key, turn, id string) store.Draft {
		return store.Draft{Key: key, Turn: turn, MessageID: id, SentAt: noon}
	}
	drafts := func() []store.Draft { return must[[]store.Draft](t)(s.OpenDrafts(t.Context())) }

	running, waiting, delivered := turn("t1"), turn("t2"), turn("t3")
	waiting.State, delivered.State = store.TurnDone, store.TurnDone
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: running}))
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: waiting, Replies: []message.Reply{reply("t2/0")}}))
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: delivered, Replies: []message.Reply{reply("t3/0")}}))
	for _, row := range must[[]store.OutboxRow](t)(s.UnsentOutbox(t.Context())) {
		if row.Reply.Key == "t3/0" {
			row.State = store.OutboxSent
			check(t, s.SetOutbox(t.Context(), row))
		}
	}
	for _, d := range []store.Draft{
		draft("t1/0", "t1", ""), draft("t2/0", "t2", "m2"), draft("t3/0", "t3", "m3"), draft("t4/0", "t4", "m4"), draft("t1/0", "t1", "m1"),
	} {
		check(t, s.PutDraft(t.Context(), d))
	}
	s = open()
	equal(t, "drafts of a turn that runs and of a reply that waits", drafts(), []store.Draft{draft("t1/0", "t1", "m1"), draft("t2/0", "t2", "m2")})
	later := draft("t1/0", "t1", "m9")
	later.SentAt = noon.Add(time.Minute)
	check(t, s.PutDraft(t.Context(), later))
	check(t, s.DropDraft(t.Context(), "t2/0"))
	check(t, s.DropDraft(t.Context(), "t2/0"))
	s = open()
	equal(t, "drafts", drafts(), []store.Draft{later})
}
