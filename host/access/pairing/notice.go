package pairing

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/message"
)

// Bounds of notices to owners. They are counted in the rows, so that a restart does not reset them.
const (
	maxToldHour = 5              // requests, over all channels
	maxToldDay  = 20             //
	toldOnce    = 24 * time.Hour // between two notices about the same sender
	maxTold     = 10             // conversations that get a notice of one request
	maxNick     = 40             // code points of a sender's name in a notice
	maxPeer     = 80             // code points of a sender's id
)

// notices returns the notices about a request for owners, or none if the bounds are reached. before is the sender's previous row. The
// returned pairing records the notices, so that they can show the decision later. d.mu is held.
func (d *Service) notices(ctx context.Context, p, before pairings.Pairing, now time.Time) (pairings.Pairing, []message.Reply) {
	p.Told = before.Told
	hour, day := d.told(now)
	if now.Sub(before.Told) < toldOnce || hour >= maxToldHour || day >= maxToldDay {
		return p, nil
	}
	var replies []message.Reply
	for _, to := range d.owners(ctx) {
		r := message.Reply{
			Key: fmt.Sprintf("%s/owner/%d", turnOf(p), len(replies)), Channel: to.Channel, Conversation: to.Conversation,
			Text: notice(p, hour+1 == maxToldHour || day+1 == maxToldDay), Buttons: noticeButtons(p),
		}
		replies = append(replies, r)
		p.Notices = append(p.Notices, pairings.Notice{Key: r.Key, Channel: r.Channel, Conversation: r.Conversation})
		if len(replies) == maxTold {
			break
		}
	}
	if len(replies) > 0 {
		p.Told = now.UTC()
	}
	return p, replies
}

// owners returns the conversations that get a notice of a request.
func (d *Service) owners(ctx context.Context) []owners.Chat {
	if d.cfg.Owners == nil {
		return nil
	}
	return d.cfg.Owners.ToldOfStrangers(ctx)
}

// told counts the recent requests with notices. d.mu is held.
func (d *Service) told(now time.Time) (hour, day int) {
	for _, p := range d.rows {
		switch since := now.Sub(p.Told); {
		case p.Told.IsZero() || since >= toldOnce:
		case since < time.Hour:
			hour++
			day++
		default:
			day++
		}
	}
	return hour, day
}

// notice returns the text of a notice. Approval needs the code, which only the stranger has, because anybody can use any name.
func notice(p pairings.Pairing, last bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**A stranger asks to be let in** on %s: `%s`", p.Channel, cleanPeer(string(p.Sender)))
	if nick := cleanNick(p.Name); nick != "" {
		fmt.Fprintf(&b, ", who goes by the name of \"%s\"", nick)
	}
	fmt.Fprintf(&b, ".\n\nIf you know who it is, ask for the code that I have given, and write `/pair CODE` within an hour. To turn the stranger "+
		"down, write `/pair deny %s`. If you do neither, nobody is let in.", p.ID)
	if last {
		b.WriteString("\n\nMany strangers ask, so I say nothing of the next ones for a while; `flynn access list` shows them.")
	}
	return b.String()
}

func noticeButtons(p pairings.Pairing) []message.Button {
	return []message.Button{{Text: "Turn down", Value: "/pair deny " + p.ID, Style: message.ButtonDanger}}
}

// outcomes returns the edits that show the decision in the notices of a request.
func outcomes(p pairings.Pairing) (replies []message.Reply) {
	text := "**Turned down** by `" + cleanPeer(p.By) + "`."
	if p.State == pairings.Paired {
		text = "**Let in** as " + p.Role + " by `" + cleanPeer(p.By) + "`."
	}
	for _, n := range p.Notices {
		replies = append(replies, message.Reply{Key: n.Key + "/answered", Channel: n.Channel, Conversation: n.Conversation, Amends: n.Key, Text: text})
	}
	return replies
}

// cleanNick removes everything from a name but letters, digits and single spaces, so that it contains no markup, link or mention.
func cleanNick(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && r != '-' && r != '\''
	})
	return cut(strings.Join(words, " "), maxNick)
}

// cleanPeer returns a sender's id for a code span. Characters that could end the span or form an address become question marks.
func cleanPeer(id string) string {
	return cut(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_@:.+-!#=~", r) {
			return r
		}
		return '?'
	}, id), maxPeer)
}

func cut(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}
