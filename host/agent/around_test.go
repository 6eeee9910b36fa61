package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// around is everything that a Runner works with but the store, as functions that a test may replace. One that is nil does nothing.
type around struct {
	generation func() (*Generation, Policies)
	scope      func(message.Message) string
	waiting    func(scope string) []Item
	order      func(ctx context.Context, scope string, row mailbox.InboxRow)
	accept     func(ctx context.Context, m message.Message) error
	replied    func(turn string, r message.Reply)
	takenUp    func(channel string) error
	asked      func(t turnlog.Turn, a consent.Approval)
	behind     func(t turnlog.Turn, m message.Message, a consent.Approval)
	files      func(session message.WorkspaceKey, m message.Message) []message.File
	image      func(digest string) ([]byte, error)
	elevation  func() tool.Elevation
	elevated   func(v tool.Decision) error
}

// config is a Config with all of it.
func (a *around) config() Config {
	return Config{
		Generations: a, Outbox: outbox{a}, Inbox: a, Queue: a, Orders: a, Notices: a, Attachments: a, Elevations: a,
		Machines: noMachines{}, Tools: &tool.Runner{},
	}
}

func (a *around) InForce() (*Generation, Policies) { return a.generation() }

func (a *around) Scope(m message.Message) string {
	if a.scope == nil {
		return string(m.ConversationKey())
	}
	return a.scope(m)
}

func (*around) Push(Item) {} // work finds what the store has

func (a *around) Waiting(scope string) []Item {
	if a.waiting == nil {
		return nil
	}
	return a.waiting(scope)
}

func (a *around) Order(ctx context.Context, scope string, row mailbox.InboxRow) {
	a.order(ctx, scope, row)
}

func (a *around) Accept(ctx context.Context, m message.Message) error { return a.accept(ctx, m) }

func (a *around) Asked(_ context.Context, t turnlog.Turn, _ string, r consent.Approval) {
	if a.asked != nil {
		a.asked(t, r)
	}
}

func (a *around) Behind(t turnlog.Turn, m message.Message, r consent.Approval) {
	if a.behind != nil {
		a.behind(t, m, r)
	}
}

func (a *around) Take(_ context.Context, session message.WorkspaceKey, m message.Message) []message.File {
	if a.files == nil {
		return nil
	}
	return a.files(session, m)
}

func (a *around) Image(_ context.Context, digest string) ([]byte, error) { return a.image(digest) }

func (a *around) Elevation(turnlog.Turn, string) tool.Elevation {
	if a.elevation == nil {
		return tool.Elevation{}
	}
	return a.elevation()
}

func (a *around) Elevated(_ context.Context, _ tool.Subject, v tool.Decision) error {
	return a.elevated(v)
}

// outbox has the methods of an Outbox, whose name a Queue takes as well.
type outbox struct{ *around }

func (o outbox) TakeUp(_ context.Context, channel string) error {
	if o.takenUp == nil {
		return nil
	}
	return o.takenUp(channel)
}

func (o outbox) Push(turn string, r message.Reply) {
	if o.replied != nil {
		o.replied(turn, r)
	}
}

// refuses says why a message is not answered; nil refuses none.
type refuses func(message.Message) string

func (r refuses) Refusal(m message.Message) string {
	if r == nil {
		return ""
	}
	return r(m)
}

// stricter compares sandboxes.
type stricter func(sandbox, other string) bool

func (s stricter) Stricter(sandbox, other string) bool { return s(sandbox, other) }
