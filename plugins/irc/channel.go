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
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// plugin is the channel. Between connections it has no link and sends nothing.
type plugin struct {
	settings settings
	log      *slog.Logger
	events   atomic.Uint64

	mu      sync.Mutex
	link    *link
	renamed map[string]rename // by folded old nick
	texts   map[string]string // of answers under way, ready to be cut, by key
}

// rename remembers where somebody went, so that an answer under way still finds them.
type rename struct {
	nick string
	at   time.Time
}

const renameKept = 10 * time.Minute

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
	p.settings, p.log, p.renamed = s, c.Log, map[string]rename{}
	return nil
}

// Run implements channel.Channel: it connects again and again until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	again := backoff.Backoff{First: time.Second, Most: 2 * time.Minute}
	for ctx.Err() == nil {
		in.Status(channel.StateConnecting, p.settings.Address)
		up, err := p.connected(ctx, in)
		if ctx.Err() != nil {
			break
		}
		p.log.Warn("connection ended", "error", err)
		state := channel.StateDegraded
		if auth := (*authError)(nil); errors.As(err, &auth) {
			state = channel.StateAuthRequired
		}
		in.Status(state, err.Error())
		_ = backoff.Sleep(ctx, again.Failed(up))
	}
	return nil
}

// connected lives through one connection and tells how long it was up.
func (p *plugin) connected(ctx context.Context, in channel.Inbox) (up time.Duration, err error) {
	l, lines, err := dial(ctx, p.settings)
	if err != nil {
		return 0, err
	}
	defer l.conn.Close()
	for _, c := range p.settings.Channels {
		if err := l.send("JOIN", c); err != nil {
			return 0, err
		}
	}
	p.setLink(l)
	defer p.setLink(nil)
	if p.settings.Identity == identityAccount && !l.accounts {
		p.log.Warn("the network does not say who is logged in: nobody is more than a guest here", "missing", accountTag)
		in.Status(channel.StateDegraded, "the network offers no "+accountTag+": nobody is more than a guest here; see identity in the plugin's README")
	} else {
		in.Status(channel.StateReady, l.ownNick()+" on "+p.settings.Address)
	}
	began := time.Now()
	err = l.read(ctx, lines, func(m line) error { return p.handle(ctx, l, m, in) })
	if ctx.Err() != nil {
		l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	}
	return time.Since(began), err
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
	p.mu.Lock()
	defer p.mu.Unlock()
	for nick, r := range p.renamed {
		if time.Since(r.at) > renameKept {
			delete(p.renamed, nick)
		}
	}
	if len(p.renamed) < 1000 {
		p.renamed[fold(m.nick())] = rename{m.last(), time.Now()}
	}
	delete(p.renamed, fold(m.last())) // from now on the nick means its new holder
}

// receive hands a message to the host. It does not wait for the host's answer: IRC keeps nothing that could be acknowledged.
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
	p.speaks(m.nick())
	taken := func(err error) {
		if err != nil && ctx.Err() == nil {
			p.log.Error("the host did not take a message", "event", e.ID, "error", err)
		}
	}
	err := in.DeliverAsync(ctx, e, taken)
	if errors.Is(err, channel.ErrMalformed) { // one odd message must not end the connection
		taken(err)
		return nil
	}
	return err
}

// private names the conversation with one person. With identity "account" the account is part of it: a person who takes the nick of
// somebody who has left must not find himself in the other's conversation.
func (p *plugin) private(m line, s channel.Sender) string {
	if p.settings.Identity == identityAccount {
		return fold(m.nick()) + "!" + s.ID
	}
	return fold(m.nick())
}

// speaks takes note that a nick is in use: who had it before and went elsewhere gets no more answers meant for it.
func (p *plugin) speaks(nick string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.renamed, fold(nick))
}

func (p *plugin) eventID(l *link, m line) string {
	if id := m.tags["msgid"]; id != "" && len(id) <= 200 {
		return id
	}
	return fmt.Sprintf("%s-%d", l.id, p.events.Add(1))
}

// sender tells id, name and account apart. With identity "account" somebody who is not logged in has an id that no account can have,
// and that the host gives no rights to.
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

// again marks a message that may have been delivered before; IRC has no way to tell.
const again = "(possibly again) "

// Send implements channel.Channel. What was not written surely was not sent; what was written and not confirmed is unknown.
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
	refused := (*refusedError)(nil)
	switch {
	case err == nil && written == len(pieces):
		p.mu.Lock()
		delete(p.texts, s.Key)
		p.mu.Unlock()
		return channel.Sent{Outcome: channel.OutcomeSent}, nil
	case err == nil:
		next := pieces[written-1].next
		if s.PossibleDuplicate {
			next -= len(again)
		}
		return channel.Sent{Outcome: channel.OutcomeNotSent, Resume: fmt.Sprintf("%d/%d", next, lines+written)}, nil
	case errors.As(err, &refused) && written <= 0:
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: 5 * time.Minute}, err
	case written == 0:
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, err
}

// maxTexts bounds the answers whose rendered text is kept from one call to the next.
const maxTexts = 64

// rendered is the text of an answer as IRC shows it. A long one is asked for once in every few lines.
func (p *plugin) rendered(s channel.Send) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, ok := p.texts[s.Key]; ok && s.Resume != "" {
		return text
	}
	text := s.Text
	if s.Markdown {
		text = markdown.Render(text, markdown.Plain)
	}
	text = clean(text)
	if p.texts == nil || len(p.texts) >= maxTexts {
		p.texts = map[string]string{}
	}
	p.texts[s.Key] = text
	return text
}

// resumed reads how much of a text was said before: the byte behind it, and the number of lines.
func resumed(at, text string) (from, lines int) {
	a, b, _ := strings.Cut(at, "/")
	from, errFrom := strconv.Atoi(a)
	lines, errLines := strconv.Atoi(b)
	if errFrom != nil || errLines != nil || from < 0 || from > len(text) || lines < 0 || from < len(text) && !utf8.RuneStart(text[from]) {
		return 0, 0
	}
	return from, lines
}

// route returns the connection and who a conversation's id means now.
func (p *plugin) route(conversation string) (*link, string) {
	target := conversation
	if !isChannel(conversation) {
		target, _, _ = strings.Cut(conversation, "!") // see private
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.renamed[target]; ok && time.Since(r.at) < renameKept {
		return p.link, r.nick
	}
	return p.link, target
}
