// Package api lets clients such as bots and editors ask agents: a question becomes a message like any other, and the client waits for its answer.
//
// Start with Service.Ask. The protocols of clients are the packages below: openai and mcp. The package decides nothing: admission, routing and
// the enforcement of tool calls treat a client as they treat people.
package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

// The channel instances of clients.
const (
	OpenAI = "openai"
	MCP    = message.MCPFrontend
)

// Host is what a Service needs of the host. Methods are safe for concurrent use.
type Host interface {
	// Submit accepts a message: when it returns nil the message is durable. The same channel and event id twice is accepted once.
	Submit(ctx context.Context, m message.Message) error
	// Watch watches a conversation until stop is called; see gateway.Conversations.
	Watch(channel, conversation string) (live []message.Event, events <-chan message.Event, stop func())
	// HangUp ends the running turn of a conversation whose client is gone.
	HangUp(channel, conversation string)
	// Settled returns the outcome of a message.
	Settled(ctx context.Context, channel, event string) (Settlement, error)
	// Agents returns the agents that a client may ask.
	Agents(client string) []Agent
	// Ignores returns the parts of a client's requests that are ignored instead of refused, and the section of the configuration that
	// lists them.
	Ignores(client string) (parts []string, section string)
	// MaxFiles bounds the files of one message.
	MaxFiles() int
	// Keep stores a file for a message of a client: ErrInvalid if it may not be stored.
	Keep(ctx context.Context, sender message.SenderKey, f File) (message.Attachment, error)
}

// File is a file of a question.
type File struct {
	Name string
	Type string // media type
	Data []byte
}

// Agent is one agent as clients see it.
type Agent struct {
	Name string
	// Machine are the tools of its sandbox that a client may call itself; none if the agent has no sandbox.
	Machine []Tool
	// Folders is true if a question may name the folder of the host in which its session works.
	Folders bool
}

// Tool is a tool of an agent's machine.
type Tool struct {
	Name        string
	Description string
	Schema      []byte // JSON Schema of an object
}

// Settlement is the outcome of a message.
type Settlement struct {
	// Message is the accepted message, without content if that was deleted since.
	Message message.Message
	Done    bool
	Text    string // the answer, or the reason why there is none
	Failed  bool
	// Refused is a failure before any turn: admission or routing refused the message.
	Refused bool
	// Limited is a failure because of the model's rate limit; RetryAfter is when to try again.
	Limited    bool
	RetryAfter time.Duration
	Agent      string
	Turn       string
	Usage      Usage
}

// Usage counts the tokens of a turn.
type Usage struct{ Input, Output int }

// Question is what a client asks.
type Question struct {
	Channel string // OpenAI or MCP
	Client  string
	Agent   string
	// Session is the conversation; empty means a new one for this question only.
	Session string
	// ID identifies a repeated question; it may be empty.
	ID    string
	Text  string
	Files []File
	// Folder is the folder of the host in which the session works, for agents with Folders.
	Folder string
	// Call asks for a tool instead of an answer.
	Call *message.Call
	// Watch is called with the events of the turn; it may be nil.
	Watch func(message.Event)
}

// Errors of a client.
var (
	ErrInvalid = errors.New("invalid question")
	// ErrReused is the error of a question with the ID of a different one. It was not asked.
	ErrReused = errors.New("this id was used for another question: choose a new one")
)

// Service asks agents on behalf of clients.
type Service struct {
	host Host
	now  func() time.Time
	id   func() string

	mu   sync.Mutex
	busy map[message.ConversationKey]chan struct{} // conversations with a question under way; closed when it ends
	left []message.Message                         // see Left
	till time.Time                                 // until when left is kept
}

// New returns a service. id generates unique names.
func New(host Host, id func() string) *Service {
	return &Service{host: host, now: time.Now, id: id, busy: map[message.ConversationKey]chan struct{}{}}
}

// retryTime is how long after a start a client may repeat a question that the previous process left unanswered.
const retryTime = 10 * time.Minute

// Left sets the questions that an earlier process left unanswered. A client whose connection broke then repeats its question, mostly
// without an ID: the first equal question within retryTime is taken for the one that was left, and is not asked twice.
func (svc *Service) Left(questions []message.Message) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	svc.left, svc.till = slices.Clone(questions), svc.now().Add(retryTime)
}

// again returns the left question that m repeats, or m.
func (svc *Service) again(m message.Message) message.Message {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if len(svc.left) > 0 && !svc.now().Before(svc.till) {
		svc.left = nil
	}
	once := m.Sender.ID + "/once/"
	for i, l := range svc.left {
		alike := m
		if strings.HasPrefix(m.Conversation.ID, once) && strings.HasPrefix(l.Conversation.ID, once) {
			alike.Conversation = l.Conversation // differs for each question without a session
		}
		if l.Channel == m.Channel && l.SenderKey() == m.SenderKey() && l.Text != "" && asks(l, alike) {
			svc.left = slices.Delete(svc.left, i, i+1)
			return l
		}
	}
	return m
}

// NewSession returns the name of a new conversation.
func (svc *Service) NewSession() string { return fresh + svc.id() }

// MaxFiles bounds the files of a question.
func (svc *Service) MaxFiles() int { return svc.host.MaxFiles() }

// Ignores is that of Host.
func (svc *Service) Ignores(client string) (parts []string, section string) {
	return svc.host.Ignores(client)
}

// Agents returns the agents that a client may ask.
func (svc *Service) Agents(client string) []Agent { return svc.host.Agents(client) }

// recheck is how often the store is read, because there is no event for a message that routing dropped.
const recheck = 500 * time.Millisecond

// MaxText bounds a question, in bytes. A longer one is refused, not cut.
const MaxText = message.MaxText

// Ask asks a question and waits for its settlement. When ctx ends, an accepted question with an ID is answered all the same, and asking
// it again returns that answer; the turn of one without an ID is stopped. A question that the end of the process left unanswered is
// recognized without an ID, see Left. A different question with a known ID is ErrReused.
func (svc *Service) Ask(ctx context.Context, q Question) (Settlement, error) {
	m, err := svc.message(q)
	if err != nil {
		return Settlement{}, err
	}
	for _, f := range q.Files {
		kept, err := svc.host.Keep(ctx, m.SenderKey(), f)
		if err != nil {
			return Settlement{}, err
		}
		m.Attachments = append(m.Attachments, kept)
	}
	if q.ID == "" {
		m = svc.again(m)
	}
	leave, err := svc.enter(ctx, m.ConversationKey())
	if err != nil {
		return Settlement{}, err
	}
	defer leave()
	v := newView(svc.host, m, q.Watch)
	defer func() { v.stop() }()
	if err := svc.host.Submit(ctx, m); err != nil {
		return Settlement{}, err
	}
	s, err := svc.await(ctx, m, v)
	if err != nil && ctx.Err() != nil && q.ID == "" {
		svc.host.HangUp(m.Channel, m.Conversation.ID)
	}
	return s, err
}

// message is the question as a message for the inbox.
func (svc *Service) message(q Question) (message.Message, error) {
	switch {
	case strings.TrimSpace(q.Text) == "" && len(q.Files) == 0:
		return message.Message{}, fmt.Errorf("%w: it is empty", ErrInvalid)
	case len(q.Text) > MaxText:
		return message.Message{}, fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalid, len(q.Text), MaxText)
	case !name(q.Session) || !name(q.ID):
		return message.Message{}, fmt.Errorf("%w: sessions and ids have at most %d letters, digits and signs", ErrInvalid, maxName)
	}
	now, id := svc.now().UTC(), q.ID
	if id == "" {
		id = svc.id()
	}
	// Names start with the client's, so that no client can name a session or question of another.
	session := q.Client + "/" + q.Session
	if q.Session == "" {
		session = q.Client + once + id
	}
	return message.Message{
		Channel: q.Channel, EventID: q.Client + "/" + id, Conversation: message.Conversation{ID: session, Kind: message.DM},
		Sender: message.Sender{ID: q.Client, Name: q.Client}, Agent: q.Agent, Text: q.Text, Folder: q.Folder, Call: q.Call, Addressed: true, SentAt: now,
		ReceivedAt: now,
	}, nil
}

// once is part of the name of a conversation for a single question; names that clients choose have no slash. fresh begins the name of a
// conversation that was made for a question and may be continued.
const (
	once  = "/once/"
	fresh = "new-"
)

// Once reports whether a conversation with that many turns was made for a single question of a client.
func Once(channel, conversation string, turns int) bool {
	if channel != OpenAI && channel != MCP {
		return false
	}
	_, session, _ := strings.Cut(conversation, "/")
	return strings.Contains(conversation, once) || strings.HasPrefix(session, fresh) && turns <= 1
}

// maxName bounds sessions and ids, in bytes.
const maxName = 128

func name(s string) bool {
	return len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == '/' || r == ':' || r == ' '
	}) < 0
}

// enter waits until no other question is under way in a conversation, so that its events belong to this one.
func (svc *Service) enter(ctx context.Context, conversation message.ConversationKey) (leave func(), err error) {
	for {
		svc.mu.Lock()
		before, busy := svc.busy[conversation]
		if !busy {
			mine := make(chan struct{})
			svc.busy[conversation] = mine
			svc.mu.Unlock()
			return func() {
				svc.mu.Lock()
				defer svc.mu.Unlock()
				delete(svc.busy, conversation)
				close(mine)
			}, nil
		}
		svc.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// await follows the conversation until the message is settled. The store decides, because events may be missed.
func (svc *Service) await(ctx context.Context, m message.Message, v *view) (Settlement, error) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		s, err := svc.host.Settled(ctx, m.Channel, m.EventID)
		switch {
		case err != nil:
			return Settlement{}, err
		case !asks(s.Message, m):
			return Settlement{}, ErrReused
		case s.Done:
			return s, nil
		}
		for settle := false; !settle; {
			select {
			case e, open := <-v.events:
				if !open {
					v.stop()
					v.join()
					settle = true
					break
				}
				v.event(e)
				settle = e.Kind == message.TurnDone
			case <-tick.C:
				settle = true
			case <-ctx.Done():
				return Settlement{}, ctx.Err()
			}
		}
	}
}

// asks reports whether the accepted message is the same question; one whose content was deleted is.
func asks(accepted, m message.Message) bool {
	if accepted.Text == "" && len(accepted.Attachments) == 0 {
		return true
	}
	handle := func(a, b message.Attachment) bool { return a.Handle == b.Handle }
	return accepted.Text == m.Text && accepted.Agent == m.Agent && accepted.Folder == m.Folder && accepted.Conversation.ID == m.Conversation.ID &&
		slices.EqualFunc(accepted.Attachments, m.Attachments, handle) && sameCall(accepted.Call, m.Call)
}

// sameCall compares calls; the formatting of their arguments does not matter.
func sameCall(a, b *message.Call) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Tool == b.Tool && jsonform.Same(a.Args, b.Args)
}
