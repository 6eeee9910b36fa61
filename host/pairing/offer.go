package pairing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Offer gives the stranger who has sent a message a code, unless he has had an answer within the hour, was denied, or guesses. It is
// called before the message itself is recorded, and may be called again for it: who died in between is told of the
// message again, and finds the request. The request and the reply with its code are one commit.
func (d *Desk) Offer(ctx context.Context, m message.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	sender, now := m.SenderKey(), d.cfg.Now()
	if guessed(m.Text) && !d.locked(sender) {
		if err := d.wrong(ctx, sender); err != nil {
			return err
		}
	}
	p, ok := d.rows[sender]
	if d.locked(sender) || ok && (p.State == store.PairingPaired || now.Before(p.Until)) {
		return nil
	}
	if err := d.prune(ctx, now); err != nil {
		return err
	}
	if d.open(m.Channel, now) >= MaxOpen {
		d.cfg.Count(Full)
		return nil
	}
	if _, err := d.cfg.Store.FindInbox(ctx, m.Channel, m.EventID); !errors.Is(err, store.ErrNotFound) {
		return err // recorded before: a late second delivery gets no second code
	}
	return d.ask(ctx, m, now)
}

// guessed tells whether a stranger's message tries a code.
func guessed(text string) bool {
	name, arg, _ := strings.Cut(strings.TrimSpace(text), " ")
	if !strings.EqualFold(name, "/pair") {
		return false
	}
	_, ok := ParseCode(strings.TrimSpace(arg))
	return ok
}

// open counts the open requests of a channel; d.mu is held.
func (d *Desk) open(channel string, now time.Time) (n int) {
	for _, p := range d.rows {
		if p.Channel == channel && p.State == store.PairingOpen && now.Before(p.Expires) {
			n++
		}
	}
	return n
}

// ask commits a request and tells its sender; d.mu is held.
func (d *Desk) ask(ctx context.Context, m message.Message, now time.Time) error {
	code, err := d.freshCode()
	if err != nil {
		return fmt.Errorf("draw a pairing code: %w", err)
	}
	p := store.Pairing{
		Sender: m.SenderKey(), ID: store.NewID(now), Name: cleanName(m.Sender.Name), Channel: m.Channel, Conversation: m.Conversation,
		Code: code, State: store.PairingOpen, Asked: now.UTC(), Expires: now.Add(Valid).UTC(), Until: now.Add(Valid).UTC(),
	}
	if err := d.put(ctx, p, reply(p, 0, m.EventID, invitation(code))); err != nil {
		return err
	}
	d.cfg.Count(Asked)
	d.cfg.Log.Info("a stranger asks to be paired", "sender", p.Sender, "request", p.ID)
	return nil
}

// freshCode draws a code that no row has; d.mu is held.
func (d *Desk) freshCode() (string, error) {
	for {
		code, err := newCode(d.cfg.Rand)
		if err != nil {
			return "", err
		}
		if _, taken := d.find(code); !taken {
			return code, nil
		}
	}
}

// reply is the n-th that a request causes.
func reply(p store.Pairing, n int, replyTo, text string) message.Reply {
	return message.Reply{
		Key: fmt.Sprintf("%s/%d", turnOf(p), n), Channel: p.Channel, Conversation: p.Conversation, ReplyTo: replyTo, Text: text,
	}
}

func invitation(code string) string {
	shown := ShowCode(code)
	return fmt.Sprintf("I do not know you yet, so I have not read your message. Your code is `%s`, for one hour. Give it to the owner, "+
		"who can let you in with `flynn access approve %s`, on the web page, or by writing `/pair %s` to me. Then write again.", shown, shown, shown)
}

const welcome = "You have been let in. What you wrote before was not read; please write it again."

// cleanName bounds what a sender calls himself, for lists.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName])
	}
	return name
}
