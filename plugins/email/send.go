package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-smtp"

	"github.com/flynnhost/flynn/sdk/channel"
)

// pause is how long a mail waits that the server does not take now. Servers that put strangers off (greylisting) want minutes; a server for
// submission that is busy, less.
const pause = time.Minute

// sendError is a failed send with its outcome.
type sendError struct {
	outcome channel.Outcome
	retry   time.Duration
	err     error
}

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// Send implements channel.Channel.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	t, err := p.thread(ctx, s.Conversation.ID)
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	id := outgoingID(s.Key, s.Conversation.ID, p.settings.Address)
	sent := channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{id}}
	if s.PossibleDuplicate && p.went(ctx, t, id) {
		sent.Outcome = channel.OutcomeDuplicate
		return sent, nil
	}
	raw, err := p.compose(ctx, s, t, id)
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, fmt.Errorf("write a mail: %w", err)
	}
	err = p.submit(ctx, t.To, raw)
	if failed, ok := errors.AsType[*sendError](err); ok {
		return channel.Sent{Outcome: failed.outcome, RetryAfter: failed.retry}, fmt.Errorf("send to %s: %w", t.To, err)
	}
	p.sent(ctx, s.Conversation.ID, id, raw)
	return sent, nil
}

// thread returns the stored thread of a conversation. A forgotten conversation's id still contains the person's address.
func (p *plugin) thread(ctx context.Context, conversation string) (thread, error) {
	sender, _ := splitConversation(conversation)
	if sender == "" {
		return thread{}, errors.New("the conversation is not one of this plugin")
	}
	t, found, err := p.threads.get(ctx, conversation)
	if err != nil {
		return t, err
	}
	if !found {
		t.To = sender
	}
	if !mailAddress.MatchString(t.To) {
		return t, errors.New("the address of this conversation is not known any more")
	}
	return t, nil
}

// submit passes a mail to the SMTP server. Its errors are sendErrors.
func (p *plugin) submit(ctx context.Context, to string, raw []byte) error {
	c, end, err := p.settings.smtp(ctx)
	p.board.out(err)
	if err != nil {
		return notSent(err)
	}
	defer end()
	if err := c.Mail(p.settings.Address, nil); err != nil {
		return notSent(err)
	}
	if err := c.Rcpt(to, nil); err != nil {
		return notSent(err)
	}
	data, err := c.Data()
	if err != nil {
		return notSent(err)
	}
	if _, err := data.Write(raw); err != nil {
		return notSent(err) // without its end a mail is not taken over (RFC 5321, 4.1.1.4)
	}
	err = data.Close()
	if _, refused := errors.AsType[*smtp.SMTPError](err); refused {
		return notSent(err)
	}
	if err != nil {
		return &sendError{outcome: channel.OutcomeUnknown, err: err}
	}
	_ = c.Quit() // a courtesy: the mail is taken over
	return nil
}

// notSent is an error before the server took the mail over.
func notSent(err error) error {
	out := &sendError{outcome: channel.OutcomeNotSent, err: err}
	if refusal, ok := errors.AsType[*smtp.SMTPError](err); ok {
		switch refusal.Code / 100 {
		case 4:
			out.retry = pause
		case 5: // RFC 5321, 4.2.1: the same again would fail the same
			out.outcome = channel.OutcomeRefused
		}
		out.err = fmt.Errorf("the SMTP server answers %d: %s", refusal.Code, oneLine(refusal.Message, 200))
	}
	if refused(err) {
		out.outcome, out.retry, out.err = channel.OutcomeNotSent, pause, err
	}
	return out
}

// sent records a mail that went out. A failure here does not change that.
func (p *plugin) sent(ctx context.Context, conversation, id string, raw []byte) {
	if err := p.noteSent(ctx, conversation, id); err != nil {
		p.log.Warn("remember a mail that was sent", "error", err)
	}
	if p.settings.SentMailbox == "" {
		return
	}
	if err := p.copySent(ctx, raw); err != nil {
		p.log.Warn("put a copy of a mail that was sent into the mailbox", "mailbox", p.settings.SentMailbox, "error", clean(err.Error(), 300))
	}
}

func (p *plugin) noteSent(ctx context.Context, conversation, id string) error {
	p.noting.Lock()
	defer p.noting.Unlock()
	t, err := p.thread(ctx, conversation)
	if err != nil {
		return err
	}
	t.add(id)
	t.At = time.Now()
	return p.threads.put(ctx, conversation, t)
}

func (p *plugin) copySent(ctx context.Context, raw []byte) error {
	c, err := p.settings.imap(ctx, nil)
	if err != nil {
		return err
	}
	defer c.end()
	defer c.within(fetchTime)()
	put := c.Append(p.settings.SentMailbox, int64(len(raw)), &imap.AppendOptions{Flags: []imap.Flag{imap.FlagSeen}, Time: time.Now()})
	_, err = bytes.NewReader(raw).WriteTo(put)
	if err := errors.Join(err, put.Close()); err != nil {
		return err
	}
	_, err = put.Wait()
	return err
}

// Reconcile implements channel.Reconciler. A mail that is found was sent. One that is not found may have been, since the copy is made later.
func (p *plugin) Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	t, err := p.thread(ctx, r.Conversation.ID)
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, err
	}
	id := outgoingID(r.Key, r.Conversation.ID, p.settings.Address)
	if p.went(ctx, t, id) {
		return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{id}}, nil
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, nil
}

// went reports whether a mail is known to have been sent.
func (p *plugin) went(ctx context.Context, t thread, id string) bool {
	if slices.Contains(t.IDs, id) {
		return true
	}
	if p.settings.SentMailbox == "" {
		return false
	}
	found, err := p.inSent(ctx, id)
	if err != nil {
		p.log.Warn("look for a mail that may have been sent", "mailbox", p.settings.SentMailbox, "error", clean(err.Error(), 300))
	}
	return found
}

func (p *plugin) inSent(ctx context.Context, id string) (bool, error) {
	c, err := p.settings.imap(ctx, nil)
	if err != nil {
		return false, err
	}
	defer c.end()
	if _, err := c.open(p.settings.SentMailbox); err != nil {
		return false, err
	}
	defer c.within(commandTime)()
	data, err := c.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "Message-Id", Value: id}}}, nil).Wait()
	if err != nil {
		return false, err
	}
	return len(data.AllUIDs()) > 0, nil
}
