package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main{M: m}) }

// rude is a text that each of the databases has a reason to change.
const rude = "NUL \x00, half \xff, private \uf8fe00, é, '; DROP TABLE inbox; --"

// fill writes rows of many kinds.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		where := message.Conversation{ID: fmt.Sprint("#c", i%3), Kind: message.Group}
		row, _, err := s.AppendInbox(ctx, message.Message{Channel: "irc", EventID: fmt.Sprint(rude, i), Text: rude, Conversation: where, Sender: message.Sender{ID: "ann"}}, mailbox.InboxNew, rude)
		check(err)
		id := store.NewID(now)
		check(s.CommitTurn(ctx, turnlog.Commit{
			Turn: turnlog.Turn{
				ID: id, Session: message.SessionKey("irc:" + where.ID + ":main"), Agent: "main", Channel: "irc", Conversation: where, Sender: "irc:ann", Inbox: []int64{row.ID},
				State: turnlog.TurnDone, Started: now, Ended: now, Background: i%2 == 0, Error: rude,
			},
			Steps: []turnlog.Step{
				{Seq: 0, Kind: turnlog.StepUser, Data: []byte(`{"said":[{"event":"e","text":"the needle \u0000"}]}`), At: now},
				{Seq: 1, Kind: turnlog.StepModel, Data: []byte(`{"message":{"text":"an answer"}}`), At: now},
			},
			Decisions:  []journal.Decision{{At: now, Kind: "tool", Policy: "p", Text: rude, Frame: []byte{0, 255}, Raw: -1, Rule: 1<<32 - 1}},
			Usage:      []usage.Row{{At: now, Turn: id, Cost: 5, Estimated: i%2 == 0}},
			Replies:    []message.Reply{{Key: id, Channel: "irc", Conversation: where, Text: rude}},
			Summary:    &turnlog.Summary{ID: id, Session: "s", Text: rude, CostUSD: 0.1, At: now},
			InboxState: mailbox.InboxDone,
		}))
	}
	check(s.WriteNote(ctx, memory.Note{Agent: "main", Key: rude, Text: "a needle " + rude, Labels: []string{rude}, Updated: now}, 0))
	check(s.SetValue(ctx, "irc", rude, []byte{0, 1, 255}, store.Room{Keys: 9, Bytes: 999}))
	check(s.AddAudit(ctx, []consent.AuditRow{{At: now, Kind: "k", Detail: rude}}))
	check(s.AddEgress(ctx, []egress.Record{{ID: "e", At: now, Allowed: true, Host: rude}}))
	check(s.SetHalt(ctx, turnlog.Halt{On: true, Reason: rude, Since: now}))
	_, err := s.Take(ctx, store.UpkeepOwner)
	check(err)
}

func TestCopyThereAndBack(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, url := range map[string]func(string) string{"direct": server.URL, "pooled": server.Pooler(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			first := database.At(t.TempDir(), "", "", "")
			there := database.At(t.TempDir(), "DB", redact.Secret(url(server.Database(t))), "")
			back := database.At(t.TempDir(), "", "", "")
			s, err := first.Open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, s)
			if err := Copy(ctx, first, there, nil); !errors.Is(err, store.ErrLocked) {
				t.Fatalf("while a host runs: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			copied := func(from, to database.Location) (all []Table) {
				t.Helper()
				if err := Copy(ctx, from, to, func(c Table) { all = append(all, c) }); err != nil {
					t.Fatal(err)
				}
				return all
			}
			// An interrupted copy leaves an empty database.
			late, cancel := context.WithCancel(ctx)
			if err := Copy(late, first, there, func(c Table) {
				if c.Name == "usage" {
					cancel()
				}
			}); err == nil {
				t.Fatal("a cancelled copy succeeds")
			}
			to := copied(first, there)
			if err := Copy(ctx, first, there, func(Table) {}); err == nil || !strings.Contains(err.Error(), "it is not empty") {
				t.Errorf("a second copy: %v", err)
			}
			again := copied(there, back)
			if !slices.Equal(to, again) {
				t.Errorf("there %v, back %v", to, again)
			}
			if len(to) != len(tables) || to[2].Rows != 20 {
				t.Errorf("copied %v", to)
			}
			for _, at := range []database.Location{there, back} {
				s, err := at.Open(ctx)
				if err != nil {
					t.Fatal(err)
				}
				row, fresh, err := s.AppendInbox(ctx, message.Message{Channel: "irc", EventID: "new", Conversation: message.Conversation{ID: "#c"}}, mailbox.InboxNew, "")
				if err != nil || !fresh || row.ID != 21 {
					t.Errorf("the next message has number %d, %v", row.ID, err)
				}
				if _, fresh, err := s.AppendInbox(ctx, message.Message{Channel: "irc", EventID: fmt.Sprint(rude, 3)}, mailbox.InboxNew, ""); err != nil || fresh {
					t.Errorf("a message that was there is taken again: %v", err)
				}
				if hits, err := s.SearchSaid(ctx, turnlog.Words{Text: "needle", Limit: 100}); err != nil || len(hits) != 20 {
					t.Errorf("%d hits, %v", len(hits), err)
				}
				if notes, err := s.SearchNotes(ctx, memory.NoteQuery{Words: "needle"}); err != nil || len(notes) != 1 || notes[0].Key != rude {
					t.Errorf("notes %+v, %v", notes, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestAllTablesAreCopied fails for a table that a migration has added and nobody has thought of here.
func TestAllTablesAreCopied(t *testing.T) {
	server := postgrestest.Shared(t)
	want := slices.Sorted(slices.Values(slices.Concat(tables, left)))
	for _, at := range []database.Location{database.At(t.TempDir(), "", "", ""), database.At("", "DB", redact.Secret(server.URL(server.Database(t))), "")} {
		s, err := open(t.Context(), at, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.tables(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has the tables %v, %v; want %v", at, got, err, want)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCopyRefuses(t *testing.T) {
	a, b := database.At(t.TempDir(), "", "", ""), database.At(t.TempDir(), "", "", "")
	if err := Copy(t.Context(), a, b, nil); err == nil || !strings.Contains(err.Error(), "one of the two must be a folder") {
		t.Errorf("two folders: %v", err)
	}
	if err := Copy(t.Context(), a, database.At("", "DB", "", ""), nil); err == nil || !strings.Contains(err.Error(), "there is no store") {
		t.Errorf("an empty folder: %v", err)
	}
}
