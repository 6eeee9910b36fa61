package pairing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Stranger is a message of somebody who may be given a code.
type Stranger struct {
	Message message.Message // as it is to be recorded, without its text
	Note    string          // why it is not answered
	Said    string          // its text
}

// Offer gives a stranger a code, unless he has had an answer within the hour, was denied, or guesses. The request, the reply with its
// code and the record of the message are one commit: a process that dies has done all of it or nothing, and what was said
// before is not answered when the message is delivered again to one who was let in meanwhile. recorded tells that the message is
// in the inbox, fresh that it was not there before; when it is not recorded, that is left to the caller.
func (d *Desk) Offer(ctx context.Context, s Stranger) (recorded, fresh bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := s.Message
	sender, now := m.SenderKey(), d.cfg.Now()
	if guessed(s.Said) && !d.locked(string(sender)) {
		if err := d.wrong(ctx, string(sender)); err != nil {
			return false, false, err
		}
	}
	p, ok := d.rows[sender]
	if d.locked(string(sender)) || ok && (p.State == pairings.Paired || quieted(p, now)) {
		return false, false, nil
	}
	if err := d.prune(ctx, now); err != nil {
		return false, false, err
	}
	if err := d.makeRoom(ctx, m.Channel, sender, now); err != nil {
		return false, false, err
	}
	fresh, err = d.ask(ctx, s, now)
	return err == nil, fresh, err
}

// guessed reports whether a stranger's message tries a code.
func guessed(text string) bool {
	name, arg, _ := strings.Cut(strings.TrimSpace(text), " ")
	if !strings.EqualFold(name, "/pair") {
		return false
	}
	_, ok := ParseCode(strings.TrimSpace(arg))
	return ok
}

// makeRoom ends the oldest open requests of a channel while there are too many: the next one gets a code, however many came
// before. Ids that anybody can take without end (they begin with "?") push out only each other. The row of what is ended stays as long as
// it counts for what owners were told; d.mu is held.
func (d *Desk) makeRoom(ctx context.Context, channel string, sender message.SenderKey, now time.Time) error {
	unverified := func(k message.SenderKey) bool { return k.Channel() == channel && k.Unverified() }
	var open []pairings.Pairing
	for _, p := range d.rows {
		if p.Channel == channel && p.State == pairings.Open && valid(p, now) && unverified(p.Sender) == unverified(sender) {
			open = append(open, p)
		}
	}
	if len(open) < MaxOpen {
		return nil
	}
	slices.SortFunc(open, func(a, b pairings.Pairing) int { return cmp.Or(a.Asked.Compare(b.Asked), strings.Compare(a.ID, b.ID)) })
	for _, p := range open[:len(open)-MaxOpen+1] {
		p.Expires, p.Until = now.UTC(), now.UTC()
		if err := d.put(ctx, p); err != nil {
			return err
		}
		d.cfg.Events.Publish(Happened{Full, p.Sender})
	}
	return nil
}

// ask commits a request; d.mu is held.
func (d *Desk) ask(ctx context.Context, s Stranger, now time.Time) (fresh bool, err error) {
	code, err := d.freshCode()
	if err != nil {
		return false, fmt.Errorf("draw a pairing code: %w", err)
	}
	m := s.Message
	p := pairings.Pairing{
		Sender: m.SenderKey(), ID: store.NewID(now), Name: cleanName(m.Sender.Name), Channel: m.Channel, Conversation: m.Conversation,
		Code: code, State: pairings.Open, Asked: now.UTC(), Expires: now.Add(Valid).UTC(), Until: now.Add(Valid).UTC(),
	}
	p, notices := d.notices(ctx, p, d.rows[p.Sender], now)
	replies := append([]message.Reply{reply(p, 0, m.EventID, invitation(code))}, notices...)
	fresh, err = d.cfg.Store.AskPairing(context.WithoutCancel(ctx), m, s.Note, p, turnOf(p), replies)
	if err != nil || !fresh { // a late second delivery gets no second code
		return false, err
	}
	d.rows[p.Sender] = p
	d.push(turnOf(p), replies)
	d.cfg.Events.Publish(Happened{Asked, p.Sender})
	if len(notices) > 0 {
		d.cfg.Events.Publish(Happened{Told, p.Sender})
	}
	d.cfg.Log.Info("a stranger asks to be paired", "sender", p.Sender, "request", p.ID)
	return true, nil
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
func reply(p pairings.Pairing, n int, replyTo, text string) message.Reply {
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
