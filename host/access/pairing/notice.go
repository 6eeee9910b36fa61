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

// Bounds of what owners are told. They are counted in the rows, so a restart opens no new allowance.
const (
	maxToldHour = 5              // requests of all channels together
	maxToldDay  = 20             //
	toldOnce    = 24 * time.Hour // an owner hears of one sender once in this time, however often he asks
	maxTold     = 10             // conversations that hear of one request
	maxNick     = 40             // code points of a sender's name in a notice
	maxPeer     = 80             // code points of his id
)

// notices are the messages that tell owners of a request, none where that would be too much; d.mu is held. before is what is kept of the
// sender so far. p learns of them, so that its answer can be shown where it was asked for.
func (d *Desk) notices(ctx context.Context, p, before pairings.Pairing, now time.Time) (pairings.Pairing, []message.Reply) {
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

// owners are the conversations in which owners are told of a request.
func (d *Desk) owners(ctx context.Context) []owners.Chat {
	if d.cfg.Owners == nil {
		return nil
	}
	return d.cfg.Owners.ToldOfStrangers(ctx)
}

// told counts the requests that owners have heard of lately; d.mu is held.
func (d *Desk) told(now time.Time) (hour, day int) {
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

// notice is what an owner needs to decide. Letting in takes the code, which only the stranger has: a name can be anybody's.
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

// outcomes say in the notices of a request how it was answered.
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

// cleanNick leaves of a name what can be neither markup nor a link nor a mention: letters, digits and single spaces.
func cleanNick(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && r != '-' && r != '\''
	})
	return cut(strings.Join(words, " "), maxNick)
}

// cleanPeer is a sender's id inside a span of code. What could end the span or be an address is shown as a question mark.
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
