package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	commandTime = time.Minute
	fetchTime   = 5 * time.Minute // of one mail
)

// follow reads the mailbox until ctx ends or the server fails.
func (p *plugin) follow(ctx context.Context, in channel.Inbox) error {
	news := make(chan struct{}, 1)
	c, err := p.settings.imap(ctx, func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer c.end()
	if err := p.begin(ctx, c); err != nil {
		return err
	}
	p.board.in(nil)
	tried := time.Now() // the way out
	for {
		at, _ := p.cursor.next()
		uids, err := c.newer(at)
		if err != nil {
			return fmt.Errorf("look for new mail: %w", err)
		}
		for _, uid := range uids {
			if err := p.take(ctx, in, c, position{Validity: at.Validity, UID: uid, Since: at.Since}); err != nil {
				return err
			}
		}
		if err := p.threads.forget(ctx, maxThreads); err != nil {
			return err
		}
		if err := p.wait(ctx, c, news); err != nil {
			return err
		}
		if p.board.noWayOut() && time.Since(tried) >= p.settings.poll() { // nothing else would notice that it is there again
			p.board.out(p.tryOut(ctx))
			tried = time.Now()
		}
	}
}

// begin opens the mailbox, without changing anything in it, and finds out where to go on. Where the server has numbered the mails anew, that is not
// known: all of the last days are read again, and the host recognises by their ids those that it has.
func (p *plugin) begin(ctx context.Context, c *session) error {
	now, err := c.open(p.settings.Mailbox)
	if err != nil {
		return err
	}
	at, known := p.cursor.next()
	if !known {
		if at, known, err = p.remembered(ctx); err != nil {
			return err
		}
		if !known { // earlier mails are not for Flynn
			at = position{Validity: now.UIDValidity, UID: max(now.UIDNext, 1) - 1, At: time.Now()}
			if err := p.remember(ctx, at); err != nil {
				return err
			}
		}
		p.cursor.restart(at)
	}
	if at.Validity != now.UIDValidity {
		last := p.cursor.position().At // of the mails that the host has
		p.log.Warn("the server has numbered the mailbox anew; recent mail is read again", "since", last)
		p.cursor.restart(position{Validity: now.UIDValidity, At: last, Since: last.AddDate(0, 0, -1)}) // the server counts days in its own time zone
	}
	return nil
}

// open selects a mailbox for reading.
func (s *session) open(mailbox string) (*imap.SelectData, error) {
	defer s.within(commandTime)()
	data, err := s.Select(mailbox, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return nil, fmt.Errorf("open the mailbox %q: %w", mailbox, err)
	}
	if data.UIDValidity == 0 {
		return nil, errors.New("the IMAP server keeps no lasting numbers of mails (UIDVALIDITY); Flynn needs them")
	}
	return data, nil
}

// newer lists the mails behind a position, oldest first.
func (s *session) newer(at position) ([]imap.UID, error) {
	defer s.within(commandTime)()
	criteria := &imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: at.UID + 1, Stop: 0}}}, Since: at.Since}
	data, err := s.UIDSearch(criteria, nil).Wait()
	if err != nil {
		return nil, err
	}
	uids := data.AllUIDs()
	uids = slices.DeleteFunc(uids, func(u imap.UID) bool { return u <= at.UID }) // "9:*" always holds the last mail
	slices.Sort(uids)
	return uids, nil
}

// take delivers a mail. It does not wait until the host has it.
func (p *plugin) take(ctx context.Context, in channel.Inbox, c *session, at position) error {
	l, came, err := c.read(at.UID)
	if err != nil {
		return fmt.Errorf("fetch a mail: %w", err)
	}
	at.At = came
	if l == nil {
		p.log.Warn("skipped a mail: it is gone, or its header is malformed", "uid", at.UID)
		p.cursor.hand(at, true)
		return nil
	}
	e, ok := p.settings.event(l, at)
	if !ok {
		p.log.Warn("skipped a mail: it is empty, or has no sender whom Flynn could answer", "uid", at.UID)
		p.cursor.hand(at, true)
		return nil
	}
	if !e.Sender.Self {
		if err := p.note(ctx, l, e); err != nil {
			return err
		}
	}
	p.cursor.hand(at, false)
	err = in.DeliverAsync(ctx, e, func(err error) {
		if channel.Settled(err) {
			err = nil
		}
		p.cursor.done(at, err)
	})
	if err != nil {
		p.cursor.done(at, err)
	}
	return err
}

// note stores what an answer to this mail needs.
func (p *plugin) note(ctx context.Context, l *letter, e channel.Event) error {
	p.noting.Lock()
	defer p.noting.Unlock()
	t, _, err := p.threads.get(ctx, e.Conversation.ID)
	if err != nil {
		return err
	}
	for _, id := range l.Thread {
		t.add(id)
	}
	t.add(l.ID)
	t.To, t.At = l.From, time.Now()
	if t.Subject == "" {
		t.Subject = topic(l.Subject)
	}
	return p.threads.put(ctx, e.Conversation.ID, t)
}

// read fetches one mail, as a stream, without marking it as seen. The letter is nil when there is none, or none that can be read.
func (s *session) read(uid imap.UID) (l *letter, came time.Time, err error) {
	defer s.within(fetchTime)()
	section := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: maxMail}}
	fetch := s.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, InternalDate: true, BodySection: []*imap.FetchItemBodySection{section}})
	var broken error
	for data := fetch.Next(); data != nil; data = fetch.Next() {
		for item := data.Next(); item != nil; item = data.Next() {
			switch item := item.(type) {
			case imapclient.FetchItemDataInternalDate:
				came = item.Time
			case imapclient.FetchItemDataBodySection:
				if item.Literal != nil {
					l, broken = readWhole(item.Literal)
				}
			}
		}
	}
	return l, came, errors.Join(broken, fetch.Close())
}

// readWhole reads a mail and fails unless it is complete, so that half a mail is never mistaken for a whole one. A malformed mail is nil.
func readWhole(r imap.LiteralReader) (*letter, error) {
	body := &exact{from: r, left: r.Size()}
	l, _ := readMail(body)
	_, err := io.Copy(io.Discard, body)
	return l, err
}

// wait returns when there may be new mail.
func (p *plugin) wait(ctx context.Context, c *session, news <-chan struct{}) error {
	poll := time.NewTimer(p.settings.poll())
	defer poll.Stop()
	done := c.within(commandTime)
	caps := c.Caps()
	var idle *imapclient.IdleCommand
	var err error
	if caps.Has(imap.CapIdle) || caps.Has(imap.CapIMAP4rev2) {
		idle, err = c.Idle()
	}
	done()
	if err != nil {
		return fmt.Errorf("wait for mail: %w", err)
	}
	select {
	case <-news:
	case <-poll.C:
	case <-c.Closed():
		err = errors.New("the IMAP server closed the connection")
	case <-ctx.Done():
		err = ctx.Err()
	}
	defer c.within(commandTime)()
	if idle != nil {
		err = errors.Join(err, idle.Close())
		if err == nil {
			err = idle.Wait()
		}
	} else if err == nil {
		err = c.Noop().Wait() // keeps the connection alive, and lets the server report new mail
	}
	return err
}
