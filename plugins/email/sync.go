package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/flynnhost/flynn/sdk/channel"
)

// position is the point up to which the host has everything.
type position struct {
	Validity uint32    `json:"uid_validity"`
	UID      imap.UID  `json:"uid"` // of the last mail
	At       time.Time `json:"at"`  // when that came
}

const (
	positionKey = "position"
	commandTime = time.Minute
	fetchTime   = 5 * time.Minute // of one mail
	// batchSize bounds the mails that are handed over before the position moves.
	batchSize = 25
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
	at, behind, err := p.begin(ctx, c)
	if err != nil {
		return err
	}
	p.board.in(nil)
	for {
		uids, err := c.newer(at, behind)
		if err != nil {
			return fmt.Errorf("look for new mail: %w", err)
		}
		for batch := range slices.Chunk(uids, batchSize) {
			if at, err = p.take(ctx, in, c, at, batch); err != nil {
				return err
			}
		}
		behind = time.Time{}
		if err := p.threads.forget(ctx, maxThreads); err != nil {
			return err
		}
		if err := p.wait(ctx, c, news); err != nil {
			return err
		}
		if p.board.noWayOut() { // nothing else would notice that it is there again
			p.board.out(p.tryOut(ctx))
		}
	}
}

// begin opens the mailbox, without changing anything in it, and finds out where to go on. Where the server has numbered the mails anew, that is not
// known: behind is then the time from which on all are read again, and the host recognises by their ids those that it has.
func (p *plugin) begin(ctx context.Context, c *session) (at position, behind time.Time, err error) {
	now, err := c.open(p.settings.Mailbox)
	if err != nil {
		return at, behind, err
	}
	value, known, err := p.host.Get(ctx, positionKey)
	if err != nil {
		return at, behind, err
	}
	if known {
		if err := json.Unmarshal(value, &at); err != nil {
			return at, behind, fmt.Errorf("read how far the mailbox was read: %w", err)
		}
	}
	switch {
	case !known: // what came before Flynn is not for it
		at = position{now.UIDValidity, max(now.UIDNext, 1) - 1, time.Now()}
		return at, behind, p.remember(ctx, at)
	case at.Validity != now.UIDValidity:
		p.log.Warn("the server has numbered the mailbox anew; recent mail is read again", "since", at.At)
		behind = at.At
		at.Validity, at.UID = now.UIDValidity, 0
	}
	return at, behind, nil
}

func (p *plugin) remember(ctx context.Context, at position) error {
	value, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return p.host.Set(ctx, positionKey, value)
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

// newer lists the mails behind a position, oldest first; with since only those of that day and later.
func (s *session) newer(at position, since time.Time) ([]imap.UID, error) {
	defer s.within(commandTime)()
	criteria := &imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: at.UID + 1, Stop: 0}}}}
	if !since.IsZero() {
		criteria.Since = since.AddDate(0, 0, -1) // the server counts days in a time zone of its own
	}
	data, err := s.UIDSearch(criteria, nil).Wait()
	if err != nil {
		return nil, err
	}
	uids := data.AllUIDs()
	uids = slices.DeleteFunc(uids, func(u imap.UID) bool { return u <= at.UID }) // "9:*" always holds the last mail
	slices.Sort(uids)
	return uids, nil
}

// take hands mails over and returns when the host has all of them.
func (p *plugin) take(ctx context.Context, in channel.Inbox, c *session, at position, uids []imap.UID) (position, error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	done := func(err error) {
		mu.Lock()
		failed = errors.Join(failed, err)
		mu.Unlock()
		all.Done()
	}
	next := at
	var stopped error
	for _, uid := range uids {
		var came time.Time
		if came, stopped = p.takeOne(ctx, in, c, place{Validity: at.Validity, UID: uid}, &all, done); stopped != nil {
			break
		}
		next.UID = uid
		if came.After(next.At) {
			next.At = came
		}
	}
	all.Wait()
	if err := errors.Join(stopped, failed); err != nil {
		return at, err
	}
	return next, p.remember(ctx, next)
}

func (p *plugin) takeOne(ctx context.Context, in channel.Inbox, c *session, at place, all *sync.WaitGroup, done func(error)) (time.Time, error) {
	l, came, err := c.read(at.UID)
	if err != nil {
		return came, fmt.Errorf("fetch a mail: %w", err)
	}
	if l == nil {
		p.log.Warn("a mail was skipped: it is gone, or its header is malformed", "uid", at.UID)
		return came, nil
	}
	at.At = came
	e, ok := p.settings.event(l, at)
	if !ok {
		p.log.Warn("a mail was skipped: it is empty, or has no sender whom Flynn could answer", "uid", at.UID)
		return came, nil
	}
	if !e.Sender.Self {
		if err := p.note(ctx, l, e); err != nil {
			return came, err
		}
	}
	all.Add(1)
	err = in.DeliverAsync(ctx, e, done)
	if err == nil {
		return came, nil
	}
	all.Done()
	if !errors.Is(err, channel.ErrMalformed) {
		return came, err
	}
	p.log.Warn("dropped a malformed event", "uid", at.UID, "error", err)
	return came, nil
}

// note remembers what an answer to this mail needs.
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

// readWhole reads a mail and makes sure that all of it has come: half a mail must not pass for a whole one. A mail that makes no sense is nil.
func readWhole(r imap.LiteralReader) (*letter, error) {
	counted := &counter{from: r}
	l, _ := readMail(counted)
	_, err := io.Copy(io.Discard, counted)
	if err == nil && counted.n < r.Size() {
		err = io.ErrUnexpectedEOF
	}
	return l, err
}

// counter counts what is read.
type counter struct {
	from io.Reader
	n    int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// wait returns when there may be new mail.
func (p *plugin) wait(ctx context.Context, c *session, news <-chan struct{}) error {
	poll := time.NewTimer(time.Duration(p.settings.PollSeconds) * time.Second)
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
		err = c.Noop().Wait() // tells the server that we are here, and it us what is new
	}
	return err
}
