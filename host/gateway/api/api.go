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
	MCP    = message.MCPDoor
)

// Host is what a Service needs of the host. Methods are safe for concurrent use.
type Host interface {
	// Submit accepts a message: when it returns nil the message is durable. The same channel and event id twice is accepted once.
	Submit(ctx context.Context, m message.Message) error
	// Subscribe watches a conversation until the function is called; a watcher that is too slow finds its channel closed.
	Subscribe(channel, conversation string) (<-chan message.Event, func())
	// HangUp ends the running turn of a conversation, whose answer nobody waits for any more.
	HangUp(channel, conversation string)
	// Settled returns the outcome of a message.
	Settled(ctx context.Context, channel, event string) (Settlement, error)
	// Agents returns those that a client may ask.
	Agents(client string) []Agent
	// Ignores are the parts of a client's requests that are passed over, where they would be refused otherwise, and the section of the
	// configuration that says so.
	Ignores(client string) (parts []string, section string)
	// MaxFiles is how many files of one message agents are given.
	MaxFiles() int
	// Keep stores a file for a message of a client. ErrInvalid if it cannot be kept as it is.
	Keep(ctx context.Context, sender string, f File) (message.Attachment, error)
}

// File is one that comes with a question.
type File struct {
	Name string
	Type string // media type
	Data []byte
}

// Agent is one agent as clients see it.
type Agent struct {
	Name string
	// Machine are the tools of its machine that a client may call itself; none where the agent has no sandbox.
	Machine []Tool
	// Folders is true where a question may name the folder of the host that its session is about.
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
	// Message is what was accepted, without content where that was deleted since.
	Message message.Message
	Done    bool
	Text    string // the answer, or why there is none
	Failed  bool
	// Refused is a failure before any turn: admission or routing does not want the message.
	Refused bool
	// Limited is a failure for the model's rate limit; RetryAfter is when another try may help.
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
	// Session is the conversation; empty is one for this question alone.
	Session string
	// ID makes a question that comes again the same one; empty is none.
	ID    string
	Text  string
	Files []File
	// Folder is the one of the host that the session is to be about; for agents with Folders.
	Folder string
	// Call asks for a tool instead of an answer.
	Call *message.Call
	// Watch is called with the events of the turn; it may be nil.
	Watch func(message.Event)
}

// Errors of a client.
var (
	ErrInvalid = errors.New("invalid question")
	// ErrReused is a question that has the id of another one. It was not asked.
	ErrReused = errors.New("this id was used for another question: choose a new one")
)

// Service takes questions.
type Service struct {
	host Host
	now  func() time.Time
	id   func() string

	mu   sync.Mutex
	busy map[string]chan struct{} // conversations with a question under way; closed when it ends
	left []message.Message        // see Left
	till time.Time                // when nobody asks again for what is left
}

// New returns a service. id makes names that are unique for ever.
func New(host Host, id func() string) *Service {
	return &Service{host: host, now: time.Now, id: id, busy: map[string]chan struct{}{}}
}

// retryTime is how long after a start a client may repeat a question that the end of the process before left unanswered.
const retryTime = 10 * time.Minute

// Left takes the questions that an earlier process left unanswered. A client whose connection broke then asks again, by itself, and
// mostly without an ID: the first such question that comes within retryTime is the one that it had asked, and is not asked twice.
func (svc *Service) Left(questions []message.Message) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	svc.left, svc.till = slices.Clone(questions), svc.now().Add(retryTime)
}

// again returns the question that was left and that m is, or m.
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
			alike.Conversation = l.Conversation // each of these has one of its own
		}
		if l.Channel == m.Channel && l.SenderKey() == m.SenderKey() && l.Text != "" && asks(l, alike) {
			svc.left = slices.Delete(svc.left, i, i+1)
			return l
		}
	}
	return m
}

// NewSession names a conversation that nobody has used.
func (svc *Service) NewSession() string { return fresh + svc.id() }

// MaxFiles is how many files a question may have.
func (svc *Service) MaxFiles() int { return svc.host.MaxFiles() }

// Ignores are the parts of a client's requests that are passed over, and the section of the configuration that says so.
func (svc *Service) Ignores(client string) (parts []string, section string) {
	return svc.host.Ignores(client)
}

// Agents returns those that a client may ask.
func (svc *Service) Agents(client string) []Agent { return svc.host.Agents(client) }

// recheck is how often the store is asked, for what no event tells: a message that routing dropped.
const recheck = 500 * time.Millisecond

// MaxText bounds a question, in bytes. Nothing of it is cut.
const MaxText = message.MaxText

// Ask puts a question and waits for its end. A message that was accepted is answered even when ctx ends; asked again with the same
// ID, it gives that answer. Without an ID nobody could ask again, and the turn is stopped; only a question that the process did not
// live to answer is known again (see Left). Another question with that ID is ErrReused.
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
	events, cancel := svc.host.Subscribe(m.Channel, m.Conversation.ID)
	defer func() { cancel() }()
	if err := svc.host.Submit(ctx, m); err != nil {
		return Settlement{}, err
	}
	s, err := svc.await(ctx, m, &events, &cancel, q.Watch)
	if err != nil && ctx.Err() != nil && q.ID == "" {
		svc.host.HangUp(m.Channel, m.Conversation.ID)
	}
	return s, err
}

// message is the question as the inbox takes it.
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
	// A client's names are its own: another's session cannot be named, and another's question not be taken for one's own.
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

// once is in the name of a conversation that has one question; sessions of a client's choosing have no slash. fresh begins the name of one
// that was made for a question and may go on.
const (
	once  = "/once/"
	fresh = "new-"
)

// Once reports whether a conversation of a channel, of so many turns, was made for one question of a client, and has no other.
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

// enter waits until no other question is under way in a conversation, so that what happens there belongs to this one.
func (svc *Service) enter(ctx context.Context, conversation string) (leave func(), err error) {
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

// await follows the conversation until the message is settled. The store has the last word: events may be missed.
func (svc *Service) await(ctx context.Context, m message.Message, events *<-chan message.Event, cancel *func(), watch func(message.Event)) (Settlement, error) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	begun := map[string]bool{} // turns that began since; what an earlier one still says is not for us
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
			case e, open := <-*events:
				if !open {
					(*cancel)()
					*events, *cancel = svc.host.Subscribe(m.Channel, m.Conversation.ID)
					settle = true
					break
				}
				if e.Kind == message.TurnStarted {
					begun[e.Turn] = true
				}
				if watch != nil && begun[e.Turn] {
					watch(e)
				}
				settle = e.Kind == message.TurnDone
			case <-tick.C:
				settle = true
			case <-ctx.Done():
				return Settlement{}, ctx.Err()
			}
		}
	}
}

// asks reports whether the accepted message is the question, as far as it is known.
func asks(accepted, m message.Message) bool {
	if accepted.Text == "" && len(accepted.Attachments) == 0 {
		return true
	}
	handle := func(a, b message.Attachment) bool { return a.Handle == b.Handle }
	return accepted.Text == m.Text && accepted.Agent == m.Agent && accepted.Folder == m.Folder && accepted.Conversation.ID == m.Conversation.ID &&
		slices.EqualFunc(accepted.Attachments, m.Attachments, handle) && sameCall(accepted.Call, m.Call)
}

// sameCall compares calls, however their arguments are written.
func sameCall(a, b *message.Call) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Tool == b.Tool && jsonform.Same(a.Args, b.Args)
}
