package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Elevator begins and ends elevated mode.
type Elevator interface {
	// Begin starts it, or returns a sentence that says why the sender may not. A span of 0 means the default.
	Begin(ctx context.Context, m message.Message, state string, span time.Duration) (e consent.Elevation, refused string, err error)
	// End ends it in a conversation and reports whether it was on.
	End(ctx context.Context, conversation message.ConversationKey, by, why string) (bool, error)
	// Of returns whether it is on in a conversation.
	Of(ctx context.Context, conversation message.ConversationKey) (consent.Elevation, bool, error)
}

const elevatedUsage = "Write `/elevated ask 15m`, `/elevated on 15m` or `/elevated off`."

// elevate carries out /elevated.
func (d *Service) elevate(ctx context.Context, m message.Message, arg string) (string, error) {
	words := strings.Fields(strings.ToLower(arg))
	span, ok := time.Duration(0), true
	if len(words) == 2 {
		span, ok = ReadSpan(words[1])
	}
	switch {
	case len(words) == 0:
		return d.elevatedNow(ctx, m.ConversationKey())
	case words[0] == "off" && len(words) == 1:
		return d.lower(ctx, m)
	case words[0] != "ask" && words[0] != "on", len(words) > 2, !ok:
		return elevatedUsage, nil
	}
	e, refused, err := d.cfg.Elevated.Begin(ctx, m, words[0], span)
	if err != nil || refused != "" {
		return refused, err
	}
	return banner(e) + "`/elevated off` ends it.", nil
}

// lower ends elevated mode. In a group only owners may.
func (d *Service) lower(ctx context.Context, m message.Message) (string, error) {
	if m.Conversation.Kind != message.DM && !d.owner(m) {
		return "Only owners can end elevated mode in a group.", nil
	}
	ended, err := d.cfg.Elevated.End(ctx, m.ConversationKey(), string(m.SenderKey()), "by /elevated off")
	switch {
	case err != nil:
		return "", err
	case ended:
		return "Elevated mode has ended.", nil
	}
	return "Elevated mode is off.", nil
}

func (d *Service) elevatedNow(ctx context.Context, conversation message.ConversationKey) (string, error) {
	text, err := d.banner(ctx, conversation)
	if err == nil && text == "" {
		text = "Elevated mode is off. " + elevatedUsage
	}
	return strings.TrimSpace(text), err
}

// banner says that elevated mode is on; "" if it is off.
func (d *Service) banner(ctx context.Context, conversation message.ConversationKey) (string, error) {
	e, holds, err := d.cfg.Elevated.Of(ctx, conversation)
	if err != nil || !holds {
		return "", err
	}
	return banner(e), nil
}

func banner(e consent.Elevation) string {
	what := "commands leave the sandbox, each after an approval"
	if e.State == "on" {
		what = "commands leave the sandbox WITHOUT an approval"
	}
	return fmt.Sprintf("**Elevated mode (%s)** until %s: %s, for agents that may, when %s asks. ", e.State, e.Until.UTC().Format("15:04 MST"), what, e.Sender)
}

// endAllowed ends elevated mode and the grants of a session that a new one replaces. If the host dies after that, they have ended early.
func (d *Service) endAllowed(ctx context.Context, scope string, m message.Message) error {
	if _, err := d.cfg.Elevated.End(ctx, m.ConversationKey(), string(m.SenderKey()), "a new session begins"); err != nil {
		return err
	}
	return d.cfg.Approvals.EndSessions(ctx, scope, string(m.SenderKey()))
}
