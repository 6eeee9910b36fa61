package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// plugin is the channel. Between connections it has no link and sends nothing.
type plugin struct {
	settings settings
	log      *slog.Logger
	events   atomic.Uint64

	renamed cache.Map[string, string] // new nicks by folded old ones, so that an answer under way still finds the person
	texts   cache.Map[string, string] // of answers under way, ready to be cut, by key

	mu   sync.Mutex
	link *link
}

const (
	renameKept = 10 * time.Minute
	maxRenamed = 1000
)

// Describe implements channel.Channel.
func (p *plugin) Describe() channel.Description {
	return channel.Description{Name: "irc", Version: "0.1.0", ConfigSchema: settingsSchema, Capabilities: channel.Capabilities{
		Exclusive: true, Markdown: true, Senders: channel.SendersProved,
	}}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.settings, p.log, p.renamed.Most, p.texts.Most = s, c.Log, maxRenamed, maxTexts
	return nil
}

// Run implements channel.Channel: it connects again and again until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	again := backoff.Backoff{First: time.Second, Most: 2 * time.Minute}
	again.Loop(ctx, func(ctx context.Context) error { return p.connected(ctx, in) }, func(err error, wait time.Duration) time.Duration {
		p.log.Warn("connection ended", "error", err)
		state := channel.StateDegraded
		if _, refused := errors.AsType[*authError](err); refused {
			state = channel.StateAuthRequired
		}
		in.Status(state, err.Error())
		return wait
	})
	return nil
}

// connected makes one connection and returns when it has ended.
func (p *plugin) connected(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateConnecting, p.settings.Address)
	l, lines, err := dial(ctx, p.settings)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	for _, c := range p.settings.Channels {
		if err := l.send("JOIN", c); err != nil {
			return err
		}
	}
	p.setLink(l)
	defer p.setLink(nil)
	if p.settings.Identity == identityAccount && !l.accounts {
		p.log.Warn("the network does not report logins: everybody is a guest here", "missing", accountTag)
		in.Status(channel.StateDegraded, "the network offers no "+accountTag+": nobody is more than a guest here; see identity in the plugin's README")
	} else {
		in.Status(channel.StateReady, l.ownNick()+" on "+p.settings.Address)
	}
	err = l.read(ctx, lines, func(m line) error { return p.handle(ctx, l, m, in) })
	if ctx.Err() != nil {
		l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	}
	return err
}

func (p *plugin) setLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
}

// handle acts on one line of the server. An error ends the connection.
func (p *plugin) handle(ctx context.Context, l *link, m line, in channel.Inbox) error {
	own := fold(m.nick()) == fold(l.ownNick())
	if ask := l.members.follow(m, own); ask != "" {
		return l.send("NAMES", ask)
	}
	switch m.command {
	case "PING":
		return l.send("PONG", m.last())
	case "PONG":
		l.pong(m.last())
	case "NICK":
		p.nickChange(l, m, own)
	case "JOIN":
		if own {
			l.setHost(m.source)
		}
	case "KICK":
		if fold(m.param(1)) == fold(l.ownNick()) {
			l.members.forget(m.param(0))
			return l.send("JOIN", m.param(0))
		}
	case "401", "403", "404", "407", "411", "412", "477", "531":
		l.refuse(m.param(1), plainText(m.last()))
	case "433", "432", "437":
		p.log.Warn("nickname was refused", "nick", m.param(1))
	case "ERROR":
		return fmt.Errorf("server closed the connection: %s", plainText(m.last()))
	case "PRIVMSG":
		if !own {
			return p.receive(ctx, l, m, in)
		}
	}
	return nil
}

func (p *plugin) nickChange(l *link, m line, own bool) {
	if own {
		l.setNick(m.last())
		return
	}
	p.renamed.Set(fold(m.nick()), m.last(), renameKept)
	p.renamed.Delete(fold(m.last())) // from now on the nick means its new holder
}

// receive delivers a message to the host. It does not wait for the result, because IRC has no acknowledgements.
func (p *plugin) receive(ctx context.Context, l *link, m line, in channel.Inbox) error {
	text, ok := action(m.last(), m.nick())
	if !ok || m.nick() == "" || len(m.params) < 2 {
		return nil
	}
	e := channel.Event{ID: p.eventID(l, m), Sender: p.sender(l, m), Text: plainText(text), SentAt: sentAt(m)}
	if target := m.param(0); isChannel(target) {
		e.Conversation = channel.Conversation{ID: fold(target), Kind: channel.Group}
		e.Text, e.Addressed = addressed(e.Text, l.ownNick())
		e.Mentioned, e.Sender.Roles = e.Addressed, l.members.roles(target, m.nick())
	} else {
		e.Conversation = channel.Conversation{ID: p.private(m, e.Sender), Kind: channel.DM}
		_, e.Mentioned = addressed(e.Text, l.ownNick())
		e.Addressed = true
	}
	p.renamed.Delete(fold(m.nick())) // the nick's previous user gets no more answers meant for this one
	taken := func(err error) {
		if !channel.Settled(err) && ctx.Err() == nil {
			p.log.Error("the host did not take a message", "event", e.ID, "error", err)
		}
	}
	return in.DeliverAsync(ctx, e, taken)
}

// private returns the conversation with one person. With identity "account" the account is part of it, so that a person who takes the nick
// of somebody who has left cannot enter the other's conversation.
func (p *plugin) private(m line, s channel.Sender) string {
	if p.settings.Identity == identityAccount {
		return fold(m.nick()) + "!" + s.ID
	}
	return fold(m.nick())
}

func (p *plugin) eventID(l *link, m line) string {
	if id := m.tags["msgid"]; id != "" && len(id) <= 200 {
		return id
	}
	return fmt.Sprintf("%s-%d", l.id, p.events.Add(1))
}

// sender returns who wrote a line. With identity "account" the id of a person who is not logged in is one that no account can have, and to
// which the host gives no rights.
func (p *plugin) sender(l *link, m line) channel.Sender {
	_, bot := m.tags["bot"]
	s := channel.Sender{ID: fold(m.nick()), Name: m.nick(), Bot: bot}
	if account := m.tags["account"]; l.accounts && account != "*" {
		s.Account = account
	}
	if p.settings.Identity == identityAccount {
		s.ID = "?" + fold(m.nick())
		if s.Account != "" {
			s.ID = s.Account
		}
	}
	return s
}

func sentAt(m line) time.Time {
	t, err := time.Parse(time.RFC3339, m.tags["time"])
	if err != nil {
		return time.Now()
	}
	return t
}

// again marks a message that may have been delivered before, which IRC cannot show.
const again = "(possibly again) "

// Send implements channel.Channel. A line that was not written was not sent; the outcome of one that was written and not confirmed is unknown.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	l, target := p.route(s.Conversation.ID)
	if l == nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: 2 * time.Second}, nil
	}
	if !validTarget(target) {
		return channel.Sent{Outcome: channel.OutcomeRefused}, fmt.Errorf("%q cannot be sent to", target)
	}
	text := p.rendered(s)
	from, lines := resumed(s.Resume, text)
	if s.PossibleDuplicate {
		text = text[:from] + again + text[from:]
	}
	pieces := splitText(text, from, l.room(target), max(1, p.settings.MaxLines-lines))
	written, err := l.say(ctx, s.Conversation.ID, target, pieces)
	_, refused := errors.AsType[*refusedError](err)
	switch {
	case err == nil && written == len(pieces):
		p.texts.Delete(s.Key)
		return channel.Sent{Outcome: channel.OutcomeSent}, nil
	case err == nil:
		next := pieces[written-1].next
		if s.PossibleDuplicate {
			next -= len(again)
		}
		return channel.Sent{Outcome: channel.OutcomeNotSent, Resume: fmt.Sprintf("%d/%d", next, lines+written)}, nil
	case refused && written <= 0:
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: 5 * time.Minute}, err
	case written == 0:
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, err
}

// maxTexts bounds the answers whose rendered text is cached between calls.
const maxTexts = 64

// rendered returns the text of an answer for IRC. A long answer is sent in many calls, each of which needs it.
func (p *plugin) rendered(s channel.Send) string {
	if text, ok := p.texts.Get(s.Key); ok && s.Resume != "" {
		return text
	}
	text := s.Text
	if s.Markdown {
		text = markdown.Render(text, markdown.Plain)
	}
	text = clean(text)
	p.texts.Set(s.Key, text, 0)
	return text
}

// resumed parses how much of a text was sent before: the next byte, and the number of lines.
func resumed(at, text string) (from, lines int) {
	a, b, _ := strings.Cut(at, "/")
	from, errFrom := strconv.Atoi(a)
	lines, errLines := strconv.Atoi(b)
	if errFrom != nil || errLines != nil || from < 0 || from > len(text) || lines < 0 || from < len(text) && !utf8.RuneStart(text[from]) {
		return 0, 0
	}
	return from, lines
}

// route returns the connection, and the target that a conversation's id means now.
func (p *plugin) route(conversation string) (*link, string) {
	target := conversation
	if !isChannel(conversation) {
		target, _, _ = strings.Cut(conversation, "!") // see private
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if nick, ok := p.renamed.Get(target); ok {
		return p.link, nick
	}
	return p.link, target
}
