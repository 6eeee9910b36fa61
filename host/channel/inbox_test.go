package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// admits is an Admitter.
type admits func(message.Message) Admission

func (f admits) Admit(m message.Message) Admission { return f(m) }

// delivers takes the messages that are to be answered.
type delivers func(mailbox.InboxRow)

func (f delivers) Deliver(r mailbox.InboxRow)       { f(r) }
func (delivers) Again(mailbox.InboxRow)             {}
func (delivers) Note(mailbox.InboxRow)              {}
func (delivers) Refused(mailbox.InboxRow, Decision) {}

// redelivers is like delivers, and counts what comes again and is to be answered.
type redelivers struct {
	delivers
	again *int
}

func (r redelivers) Again(mailbox.InboxRow) { *r.again++ }

func hello() message.Message {
	return message.Message{
		Channel: "irc", EventID: "e1", Text: "hello", SentAt: noon.Add(-time.Minute),
		Conversation: message.Conversation{ID: "#flynn", Kind: message.Group}, Sender: message.Sender{ID: "ann"},
	}
}

func TestAccept(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(*message.Message)
		wantErr   string
		delivered bool
		state     mailbox.InboxState
	}{
		{"a plain message", func(*message.Message) {}, "", true, mailbox.InboxNew},
		{"no time of sending", func(m *message.Message) { m.SentAt = time.Time{} }, "", true, mailbox.InboxNew},
		{"too old", func(m *message.Message) { m.SentAt = noon.Add(-25 * time.Hour) }, "", false, mailbox.InboxStale},
		{"not admitted", func(m *message.Message) { m.Sender.ID = "mallory" }, "", false, mailbox.InboxDropped},
		{"no event id", func(m *message.Message) { m.EventID = "" }, "event id is empty", false, ""},
		{"a huge sender id", func(m *message.Message) { m.Sender.ID = strings.Repeat("x", 513) }, "sender id has 513 bytes", false, ""},
		{"a broken conversation id", func(m *message.Message) { m.Conversation.ID = "\xff" }, "not valid UTF-8", false, ""},
		{"huge broken text", func(m *message.Message) { m.Text = strings.Repeat("é\xff", message.MaxText) }, "", true, mailbox.InboxNew},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			var got []mailbox.InboxRow
			again := 0
			in := NewInbox(InboxConfig{
				Store: s, MaxAge: 24 * time.Hour, Now: func() time.Time { return noon },
				Admitter: admits(func(m message.Message) Admission { return Admission{Allowed: m.Sender.ID == "ann", Why: "unknown"} }),
				Takers:   redelivers{func(r mailbox.InboxRow) { got = append(got, r) }, &again},
			})
			m := hello()
			c.change(&m)
			for range 2 { // the second time is a redelivery
				err := in.Accept(t.Context(), m)
				if c.wantErr != "" {
					if err == nil || !strings.Contains(err.Error(), c.wantErr) {
						t.Fatalf("error is %v, want %q", err, c.wantErr)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if want := map[bool]int{true: 1, false: 0}[c.delivered]; len(got) != want || again != want {
				t.Fatalf("delivered %d times and once more %d times, want %d", len(got), again, want)
			}
			row, fresh, err := s.AppendInbox(t.Context(), m, mailbox.InboxNew, "")
			if err != nil || fresh || row.State != c.state {
				t.Fatalf("kept as %+v (fresh=%v, %v), want state %s", row, fresh, err, c.state)
			}
			if text := row.Message.Text; len(text) > message.MaxText || !utf8.ValidString(text) {
				t.Fatalf("text of %d bytes, valid=%v", len(text), utf8.ValidString(text))
			}
		})
	}
}

// TestStrangersDoNotFillTheDisk: what nobody answers is kept without its text, and not without a bound.
func TestStrangersDoNotFillTheDisk(t *testing.T) {
	s, now, counted := open(t), time.Now(), 0
	in := NewInbox(InboxConfig{
		Store: s, Admitter: admits(func(message.Message) Admission { return Admission{Why: "not listed"} }),
		Takers: delivers(func(mailbox.InboxRow) { t.Error("delivered") }),
		Now:    func() time.Time { return now },
		Events: event.Only(func(Received) { counted++ }),
	})
	flood := func(from, to int) (kept int) {
		for i := from; i < to; i++ {
			m := hello()
			m.EventID, m.SentAt = fmt.Sprint("flood", i), now
			m.Text, m.Attachments = "a secret of somebody else's", []message.Attachment{{Name: "a.pdf"}}
			if err := in.Accept(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			row, fresh, err := s.AppendInbox(t.Context(), m, mailbox.InboxDropped, "")
			if err != nil {
				t.Fatal(err)
			}
			if !fresh {
				kept++
				if row.Message.Text != "" || len(row.Message.Attachments) != 0 || !row.Message.Sender.Equal(m.Sender) {
					t.Fatalf("kept as %+v", row.Message)
				}
			}
		}
		return kept
	}
	if kept := flood(0, notesBurst+50); kept != notesBurst {
		t.Errorf("%d of a flood are kept, want %d", kept, notesBurst)
	}
	now = now.Add(time.Second)
	if kept := flood(1000, 1050); kept != notesPerSecond {
		t.Errorf("%d are kept a second later, want %d", kept, notesPerSecond)
	}
	if counted != notesBurst+100 {
		t.Errorf("%d are counted", counted)
	}
}

// brokenStore fails every append.
type brokenStore struct{ mailbox.Inbox }

func (brokenStore) AppendInbox(context.Context, message.Message, mailbox.InboxState, string) (mailbox.InboxRow, bool, error) {
	return mailbox.InboxRow{}, false, errors.New("disk full")
}

func TestAcceptDoesNotPromiseWhatWasNotKept(t *testing.T) {
	in := NewInbox(InboxConfig{
		Store: brokenStore{}, Admitter: admits(func(message.Message) Admission { return Admission{Allowed: true} }),
		Takers: delivers(func(mailbox.InboxRow) { t.Error("delivered a message that was not kept") }),
	})
	if err := in.Accept(t.Context(), hello()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("error is %v", err)
	}
}

// impatientStore commits, but says so only to those who still wait.
type impatientStore struct{ mailbox.Inbox }

func (s impatientStore) AppendInbox(ctx context.Context, m message.Message, state mailbox.InboxState, note string) (mailbox.InboxRow, bool, error) {
	row, fresh, err := s.Inbox.AppendInbox(context.WithoutCancel(ctx), m, state, note)
	if ctx.Err() != nil {
		return mailbox.InboxRow{}, false, ctx.Err()
	}
	return row, fresh, err
}

func TestAMessageWhoseChannelWentAwayIsHandedOn(t *testing.T) {
	delivered := 0
	in := NewInbox(InboxConfig{
		Store: impatientStore{open(t)}, Admitter: admits(func(message.Message) Admission { return Admission{Allowed: true} }),
		Takers: delivers(func(mailbox.InboxRow) { delivered++ }),
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	in.Accept(gone, hello()) // the process of the plugin ended while the commit was under way
	if err := in.Accept(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	if delivered != 1 {
		t.Fatalf("handed on %d times, want once", delivered)
	}
}

// TestALongMessageSaysThatItWasCut: the text ends with a mark for the model, and the message says so for the agent.
func TestALongMessageSaysThatItWasCut(t *testing.T) {
	rows := open(t)
	for _, text := range rude.Texts() {
		t.Run(text.Name, func(t *testing.T) {
			var got message.Message
			in := NewInbox(InboxConfig{
				Store: rows, Admitter: admits(func(message.Message) Admission { return Admission{Allowed: true} }),
				Takers: delivers(func(r mailbox.InboxRow) { got = r.Message }),
			})
			m := hello()
			m.EventID, m.Text = text.Name, text.Text
			if err := in.Accept(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			long := len(strings.ToValidUTF8(text.Text, "\uFFFD")) > message.MaxText
			if got.Cut != long || strings.HasSuffix(got.Text, message.CutMark) != long || len(got.Text) > message.MaxText || !utf8.ValidString(got.Text) ||
				strings.ContainsRune(got.Text, 0) {
				t.Errorf("%d bytes of %d are kept, cut %t", len(got.Text), len(text.Text), got.Cut)
			}
		})
	}
}

// TestIdentifiersAreNeverMended: identifiers that no platform could have sent are refused on every frontend, and nothing of them is stored.
func TestIdentifiersAreNeverMended(t *testing.T) {
	rows := open(t)
	refused := []string{"empty", "nul", "line_end", "tab", "unit", "delete", "next_line", "not_utf8", "at_257", "at_3000"}
	for name, set := range map[string]func(*message.Message, string){
		"event":        func(m *message.Message, id string) { m.EventID = id },
		"conversation": func(m *message.Message, id string) { m.Conversation.ID = id },
		"sender":       func(m *message.Message, id string) { m.Sender.ID = id },
		"schedule":     func(m *message.Message, id string) { m.Channel, m.Sender.ID = message.ScheduleChannel, "irc:"+id },
	} {
		for _, id := range rude.IDs() {
			t.Run(name+"/"+id.Name, func(t *testing.T) {
				delivered := 0
				in := NewInbox(InboxConfig{
					Store: rows, Admitter: admits(func(message.Message) Admission { return Admission{Allowed: true} }),
					Takers: delivers(func(mailbox.InboxRow) { delivered++ }),
				})
				m := hello()
				m.EventID = name + "/" + id.Name
				set(&m, id.Text)
				err := in.Accept(t.Context(), m)
				if want := slices.Contains(refused, id.Name); (err != nil) != want || (delivered == 0) != want {
					t.Errorf("%v, delivered %d times", err, delivered)
				}
			})
		}
	}
}
