package channel

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
)

// Admission is the decision whether a message is answered.
type Admission struct {
	Allowed  bool
	Decision Decision
	Why      string // if not allowed
}

// Admitter decides about a message once, before its commit; the row keeps the decision. *Gate implements it.
type Admitter interface {
	Admit(m message.Message) Admission
}

// Strangers gives pairing codes to unknown senders; *pairing.Service implements it.
type Strangers interface {
	// Offer records the message together with the code, or leaves that to the inbox.
	Offer(ctx context.Context, s pairing.Stranger) (recorded, fresh bool, err error)
}

// Takers take up committed messages. None of the methods may block.
type Takers interface {
	// Deliver is called with a message to answer.
	Deliver(row mailbox.InboxRow)
	// Again is called with a message to answer that was committed before, perhaps by another host.
	Again(row mailbox.InboxRow)
	// Note is called with a message that the next turn of its conversation should see.
	Note(row mailbox.InboxRow)
	// Refused is called with a message that was not admitted, unless it is too old.
	Refused(row mailbox.InboxRow, r Decision)
}

// InboxConfig configures an Inbox.
type InboxConfig struct {
	Store     mailbox.Inbox
	Admitter  Admitter
	Strangers Strangers // nil: strangers get no code
	Takers    Takers
	// MaxAge is the age beyond which a message is recorded and not answered.
	MaxAge time.Duration
	Now    func() time.Time
	Log    *slog.Logger // of trouble with the store; it may be nil
	Events *event.Bus   // gets Received; it may be nil
}

// Inbox accepts messages.
type Inbox struct {
	cfg InboxConfig
	// notes bounds how often messages that are not admitted are recorded: anybody can send them.
	notes *rate.Limiter
}

// Messages that are not admitted are recorded at this rate over all channels, which is far above that of a busy group.
const (
	notesPerSecond = 10
	notesBurst     = 200
)

// NewInbox returns an inbox.
func NewInbox(cfg InboxConfig) *Inbox {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Inbox{cfg, rate.NewLimiter(notesPerSecond, notesBurst)}
}

// Accept commits a message and passes it to Takers. When it returns without error the message is on stable storage and may be
// acknowledged to its channel; a message that was accepted before is acknowledged, and passed on only by Again.
//
// The content of a message that is not admitted is not stored: what people say to each other is not Flynn's business, and
// strangers must not fill the disk. If they write faster than the rate at which this is recorded, the rest is only counted.
//
// The end of ctx does not cancel the commit. A cancelled commit may still happen; when the message comes again it would be
// taken for one that was passed on, and wait for the next start of the host.
func (in *Inbox) Accept(ctx context.Context, m message.Message) error {
	if err := check(m); err != nil {
		return fmt.Errorf("accept message: %w", err)
	}
	return in.accept(m.Bounded(), func(commit func(context.Context) error) error { return commit(context.WithoutCancel(ctx)) })
}

// Take is like Accept for a message that package plugin has made of an event, checked and bounded. Its channel may be unable to send it
// again, so Take retries while the store fails, until ctx ends.
func (in *Inbox) Take(ctx context.Context, m message.Message) error {
	return in.accept(m, func(commit func(context.Context) error) error { return persist(ctx, in.cfg.Log, commit) })
}

func (in *Inbox) accept(m message.Message, try func(commit func(context.Context) error) error) error {
	m.ReceivedAt = in.cfg.Now().UTC()
	admission := in.cfg.Admitter.Admit(m)
	if !admission.Allowed && m.Channel == message.ConsoleChannel { // which can say so at once, and send it again
		in.cfg.Events.Publish(Received{m.Channel, string(mailbox.InboxDropped)})
		return Refused{admission.Decision}
	}
	state, note := in.judge(m, admission)
	said := m.Text
	if state == mailbox.InboxDropped {
		m.Text, m.Attachments, m.About.Text = "", nil, ""
		if !in.notes.AllowN(in.cfg.Now(), 1) {
			in.cfg.Events.Publish(Received{m.Channel, string(state)})
			return nil
		}
	}
	var row mailbox.InboxRow
	var fresh bool
	err := try(func(ctx context.Context) (err error) {
		if in.cfg.Strangers != nil && admission.Decision == Pairing && !in.tooOld(m) {
			var recorded bool
			if recorded, fresh, err = in.cfg.Strangers.Offer(ctx, pairing.Stranger{Message: m, Note: note, Said: said}); recorded || err != nil {
				return err
			}
		}
		row, fresh, err = in.cfg.Store.AppendInbox(ctx, m, state, note)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("accept message: %w", err)
	case !fresh:
		in.cfg.Events.Publish(Received{m.Channel, "duplicate"})
		if row.State == mailbox.InboxNew {
			in.cfg.Takers.Again(row)
		}
		return nil
	}
	in.cfg.Events.Publish(Received{m.Channel, string(state)})
	switch state {
	case mailbox.InboxNew:
		in.cfg.Takers.Deliver(row)
	case mailbox.InboxNoted:
		in.cfg.Takers.Note(row)
	case mailbox.InboxDropped:
		if !in.tooOld(m) {
			in.cfg.Takers.Refused(row, admission.Decision)
		}
	}
	return nil
}

func (in *Inbox) judge(m message.Message, a Admission) (mailbox.InboxState, string) {
	if !a.Allowed {
		return mailbox.InboxDropped, a.Why
	}
	if in.tooOld(m) {
		return mailbox.InboxStale, fmt.Sprintf("sent %s ago", m.ReceivedAt.Sub(m.SentAt).Round(time.Second))
	}
	if m.Noted {
		return mailbox.InboxNoted, ""
	}
	return mailbox.InboxNew, ""
}

// tooOld reports whether a message is too old to be answered, as far as its channel gives its time.
func (in *Inbox) tooOld(m message.Message) bool {
	return in.cfg.MaxAge > 0 && !m.SentAt.IsZero() && m.ReceivedAt.Sub(m.SentAt) > in.cfg.MaxAge
}

// check refuses a message of a frontend whose identifiers are invalid.
func check(m message.Message) error {
	sender := m.Sender.ID
	if message.ForeignSenders(m.Channel) { // its senders have their channel in front
		sender = message.SenderKey(sender).ID()
	}
	for _, id := range []struct{ name, value string }{
		{"channel", m.Channel}, {"event id", m.EventID}, {"conversation id", m.Conversation.ID}, {"sender id", sender},
	} {
		if id.value == "" {
			return fmt.Errorf("%s is empty", id.name)
		}
		if err := bounds.ID(id.value); err != nil {
			return fmt.Errorf("%s %w", id.name, err)
		}
	}
	return nil
}
