package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// line is one line in either direction.
type line struct {
	Type         string `json:"type"`
	ID           string `json:"id,omitempty"`
	Key          string `json:"key,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Group        bool   `json:"group,omitempty"`
	Sender       string `json:"sender,omitempty"`
	Text         string `json:"text,omitempty"`
	ReplyTo      string `json:"reply_to,omitempty"`
	PID          int    `json:"pid,omitempty"`

	PossibleDuplicate bool `json:"possible_duplicate,omitempty"`

	rich
}

const (
	maxLine      = 1 << 20 // bytes
	writeTimeout = 10 * time.Second
)

// link is one connection. Lines collect while a write is under way and go out with the next.
type link struct {
	conn net.Conn
	gone chan struct{} // closed when the connection is over

	mu      sync.Mutex
	out     []byte
	wake    chan struct{}          // capacity 1: out is not empty
	answers map[string]chan<- line // sends and questions that wait, by key; each has room for its answer
}

func newLink(conn net.Conn) *link {
	return &link{conn: conn, gone: make(chan struct{}), wake: make(chan struct{}, 1), answers: map[string]chan<- line{}}
}

// run reads and writes until ctx ends or the connection breaks.
func (l *link) run(ctx context.Context, in channel.Inbox) error {
	defer context.AfterFunc(ctx, func() { l.conn.Close() })()
	var writer sync.WaitGroup
	writer.Go(l.write)
	l.put(line{Type: "hello", PID: os.Getpid()})
	err := l.read(ctx, in)
	close(l.gone)
	l.conn.Close()
	writer.Wait()
	return err
}

func (l *link) read(ctx context.Context, in channel.Inbox) error {
	lines := bufio.NewScanner(l.conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m line
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("read a line: %w", err)
		}
		if err := l.take(ctx, in, m); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the other end closed the connection")
}

func (l *link) take(ctx context.Context, in channel.Inbox, m line) error {
	switch m.Type {
	case "event":
		taken := func(err error) {
			if channel.Settled(err) {
				l.put(line{Type: "ack", ID: m.ID})
			}
		}
		return in.DeliverAsync(ctx, m.event(), taken)
	case "sent", "duplicate", "done", "refused":
		l.answer(m)
	}
	return nil // other types belong to future versions
}

func (m line) event() channel.Event {
	e := channel.Event{
		ID: m.ID, Text: m.Text, Addressed: true, Sender: channel.Sender{ID: m.Sender},
		Conversation: channel.Conversation{ID: m.Conversation, Kind: channel.DM},
	}
	if m.Group {
		e.Conversation.Kind = channel.Group
	}
	m.rich.fill(&e)
	return e
}

func (l *link) answer(m line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait, ok := l.answers[m.Key]; ok {
		delete(l.answers, m.Key)
		wait <- m
	}
}

// ask writes a line with a key and waits for the answer. Without one, the outcome is unknown.
func (l *link) ask(ctx context.Context, m line) (line, error) {
	answer := make(chan line, 1)
	l.mu.Lock()
	l.answers[m.Key] = answer
	l.mu.Unlock()
	l.put(m)
	select {
	case a := <-answer:
		return a, nil
	case <-l.gone:
		return line{}, errors.New("the connection broke before the answer")
	case <-ctx.Done():
		l.answer(line{Key: m.Key})
		return line{}, ctx.Err()
	}
}

// send shows one message and waits for the answer.
func (l *link) send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	a, err := l.ask(ctx, line{
		Type: "send", Key: s.Key, Conversation: s.Conversation.ID, Text: s.Text, ReplyTo: s.ReplyTo, PossibleDuplicate: s.PossibleDuplicate,
		rich: sendRich(s),
	})
	if err != nil {
		return channel.Sent{}, err
	}
	switch a.Type {
	case "sent":
		return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{s.Key}}, nil
	case "duplicate":
		return channel.Sent{Outcome: channel.OutcomeDuplicate, MessageIDs: []string{s.Key}}, nil
	case "refused":
		if a.Never {
			return channel.Sent{Outcome: channel.OutcomeRefused}, errors.New(a.Text)
		}
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: a.wait()}, errors.New(a.Text)
	}
	return channel.Sent{}, fmt.Errorf("the answer to a send is %q", a.Type)
}

// put appends a line to those to be written.
func (l *link) put(m line) {
	text, err := json.Marshal(m)
	if err != nil { // strings, numbers and truth values always encode
		panic(err)
	}
	l.mu.Lock()
	l.out = append(append(l.out, text...), '\n')
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *link) write() {
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-l.gone:
			return
		}
		l.mu.Lock()
		batch := l.out
		l.out = spare[:0]
		l.mu.Unlock()
		l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := l.conn.Write(batch); err != nil {
			l.conn.Close() // which ends the reader
			return
		}
		spare = batch
	}
}
