package channel

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
)

// Admission is the answer to "may this sender be heard here".
type Admission struct {
	Allowed bool
	Ruling  Ruling
	Why     string // when not
}

// InboxConfig is what an Inbox needs.
type InboxConfig struct {
	Store store.Inbox
	// Admit decides on a message. It is asked before the commit and again never: the row keeps the answer.
	Admit func(message.Message) Admission
	// Stranger is told of a message whose sender may be given a pairing code: of what is to be recorded, why it is not answered, and
	// its text. It records the message together with the code, or leaves that to the inbox. It may be nil.
	Stranger func(ctx context.Context, m message.Message, note, said string) (recorded, fresh bool, err error)
	// Refused learns of a message that is not admitted, once it is recorded and unless it is too old; it may be nil.
	Refused func(row store.InboxRow, r Ruling)
	// Deliver hands on a row that is to be answered. It must not block.
	Deliver func(store.InboxRow)
	// Note hands on a row that is noted. It must not block.
	Note func(store.InboxRow)
	// MaxAge is the age past which a message is recorded and not answered.
	MaxAge time.Duration
	Now    func() time.Time
	Log    *slog.Logger // of trouble with the store; it may be nil
	Events *event.Bus   // gets Received; it may be nil
}

// Inbox accepts messages.
type Inbox struct {
	cfg InboxConfig
	// notes bounds how often a message that is not admitted is written down at all: anybody can send those.
	notes *rate.Limiter
}

// Messages that are not admitted are recorded at this rate over all channels, in bursts of notesBurst; a busy group comes nowhere near.
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
	if cfg.Note == nil {
		cfg.Note = func(store.InboxRow) {}
	}
	if cfg.Refused == nil {
		cfg.Refused = func(store.InboxRow, Ruling) {}
	}
	return &Inbox{cfg, rate.NewLimiter(notesPerSecond, notesBurst)}
}

// Accept commits a message and hands it on. When it returns without error the message is on stable storage and
// may be acknowledged to its channel; a message that is there already is acknowledged and not handed on again.
//
// Of a message that is not admitted only its circumstances are kept: what people say past Flynn is not its business, and
// strangers must not fill the disk. When they write faster than that can be recorded, the rest is only counted.
//
// The end of ctx does not cut the commit short. A commit that was given up may still happen; when the message comes again it
// would be taken for one that was handed on, and wait for the next start of the host.
func (in *Inbox) Accept(ctx context.Context, m message.Message) error {
	return in.accept(m, func(commit func(context.Context) error) error { return commit(context.WithoutCancel(ctx)) })
}

// Take is Accept for a channel that may not be able to send a message again: while the store has trouble it tries until ctx ends.
func (in *Inbox) Take(ctx context.Context, m message.Message) error {
	return in.accept(m, func(commit func(context.Context) error) error { return persist(ctx, in.cfg.Log, commit) })
}

func (in *Inbox) accept(m message.Message, try func(commit func(context.Context) error) error) error {
	if err := check(m); err != nil {
		return &MalformedError{err}
	}
	m = m.Bounded()
	m.Text, m.Cut = bound(m.Text)
	m.ReceivedAt = in.cfg.Now().UTC()
	admission := in.cfg.Admit(m)
	state, note := in.judge(m, admission)
	said := m.Text
	if state == store.InboxDropped {
		m.Text, m.Attachments, m.About.Text = "", nil, ""
		if !in.notes.AllowN(in.cfg.Now(), 1) {
			in.cfg.Events.Publish(Received{m.Channel, string(state)})
			return nil
		}
	}
	var row store.InboxRow
	var fresh bool
	err := try(func(ctx context.Context) (err error) {
		if in.cfg.Stranger != nil && admission.Ruling == Pairing && !in.tooOld(m) {
			var recorded bool
			if recorded, fresh, err = in.cfg.Stranger(ctx, m, note, said); recorded || err != nil {
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
		return nil
	}
	in.cfg.Events.Publish(Received{m.Channel, string(state)})
	switch state {
	case store.InboxNew:
		in.cfg.Deliver(row)
	case store.InboxNoted:
		in.cfg.Note(row)
	case store.InboxDropped:
		if !in.tooOld(m) {
			in.cfg.Refused(row, admission.Ruling)
		}
	}
	return nil
}

// MalformedError says that a message cannot be accepted as it is, now or later.
type MalformedError struct{ err error }

func (e *MalformedError) Error() string { return "accept message: " + e.err.Error() }

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.err }

func (in *Inbox) judge(m message.Message, a Admission) (store.InboxState, string) {
	if !a.Allowed {
		return store.InboxDropped, a.Why
	}
	if in.tooOld(m) {
		return store.InboxStale, fmt.Sprintf("sent %s ago", m.ReceivedAt.Sub(m.SentAt).Round(time.Second))
	}
	if m.Noted {
		return store.InboxNoted, ""
	}
	return store.InboxNew, ""
}

// tooOld reports whether a message is past the age to which one is answered; never when its channel does not say.
func (in *Inbox) tooOld(m message.Message) bool {
	return in.cfg.MaxAge > 0 && !m.SentAt.IsZero() && m.ReceivedAt.Sub(m.SentAt) > in.cfg.MaxAge
}

// check refuses messages that no platform could have sent. Those of plugins were checked before; this is for the other doors.
func check(m message.Message) error {
	sender := m.Sender.ID
	if m.Channel == message.ScheduleDoor { // its senders have their channel in front
		_, sender, _ = strings.Cut(sender, ":")
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

// cut marks text that was longer than message.MaxText.
const cut = "\n[cut: the message was longer]"

// bound makes text valid UTF-8 without NUL, of at most message.MaxText bytes. It is the only place that cuts what people say.
func bound(text string) (_ string, shorter bool) {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= message.MaxText {
		return text, false
	}
	end := message.MaxText - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut, true
}
