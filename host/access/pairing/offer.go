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

// Stranger is a message of an unknown sender who may get a code.
type Stranger struct {
	Message message.Message // as it is recorded, without its text
	Note    string          // why it is not answered
	Said    string          // its text
}

// Offer gives a stranger a code, unless he got one within the hour, was denied, or guesses codes. The request, the reply with the code
// and the record of the message are one commit, so that a crash leaves all or nothing, and a message that is delivered again after the
// pairing is not answered. recorded reports whether the message is in the inbox, and fresh whether it was not there before. If it is
// not recorded, the caller has to do that.
func (d *Service) Offer(ctx context.Context, s Stranger) (recorded, fresh bool, err error) {
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

// guessed reports whether a stranger's message looks like a code.
func guessed(text string) bool {
	name, arg, _ := strings.Cut(strings.TrimSpace(text), " ")
	if !strings.EqualFold(name, "/pair") {
		return false
	}
	_, ok := ParseCode(strings.TrimSpace(arg))
	return ok
}

// makeRoom ends the oldest open requests of a channel while there are too many, so that the next one gets a code. Requests with ids
// that anybody can create without limit (they begin with "?") displace only each other. The row of an ended request stays while it
// counts towards the bounds of notices. d.mu is held.
func (d *Service) makeRoom(ctx context.Context, channel string, sender message.SenderKey, now time.Time) error {
	var open []pairings.Pairing
	for _, p := range d.rows {
		if p.Channel == channel && p.State == pairings.Open && valid(p, now) && p.Sender.UnverifiedOn(channel) == sender.UnverifiedOn(channel) {
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

// ask commits a request. d.mu is held.
func (d *Service) ask(ctx context.Context, s Stranger, now time.Time) (fresh bool, err error) {
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
	if err != nil || !fresh { // a repeated delivery gets no second code
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

// freshCode draws an unused code. d.mu is held.
func (d *Service) freshCode() (string, error) {
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

// reply returns the n-th reply of a request.
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

// cleanName bounds a sender's display name, for lists.
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
