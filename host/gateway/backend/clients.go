package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// Clients answers API clients.
type Clients struct {
	Conversations Conversations
	Current       func() InForce
	Turns         interface {
		HangUp(conversation message.ConversationKey) bool
	}
	Files FileKeeper
	Store interface {
		FindInbox(ctx context.Context, channel, eventID string) (mailbox.InboxRow, error)
		Trail(ctx context.Context, id string) (turnlog.Trail, error)
	}
}

// FileKeeper stores files of senders; its error is builtin.ErrNotKept for a file that it may not store.
type FileKeeper interface {
	Keep(ctx context.Context, sender message.SenderKey, name string, body io.Reader) (message.Attachment, error)
}

var _ api.Host = Clients{}

// Submit implements api.Host.
func (c Clients) Submit(ctx context.Context, m message.Message) error {
	return c.Conversations.Submit(ctx, m)
}

// Watch implements api.Host.
func (c Clients) Watch(channel, conversation string) (live []message.Event, events <-chan message.Event, stop func()) {
	return c.Conversations.Watch(channel, conversation)
}

// machineTools are the tools that an API client may call itself in the sandbox of an agent.
var machineTools = []string{"shell.exec", "file.read", "file.write", "file.edit", "file.list"}

// Agents implements api.Host.
func (c Clients) Agents(client string) []api.Agent {
	now := c.Current()
	names := now.Names
	if known, ok := now.Config.Clients[client]; ok && client != config.Gatekeeper {
		names = slices.Sorted(slices.Values(known.Agents))
	} else if client != config.Gatekeeper {
		return nil
	}
	var out []api.Agent
	for _, name := range slices.Compact(names) {
		if a := now.Generation.Agents[name]; a != nil {
			out = append(out, api.Agent{Name: name, Machine: machineOf(a), Folders: a.CLI != nil && a.CLI.Folder != nil})
		}
	}
	return out
}

func machineOf(a *agent.Agent) []api.Tool {
	if !a.Sandboxed {
		return nil
	}
	var out []api.Tool
	for _, t := range a.Tools {
		if slices.Contains(machineTools, t.Name) {
			out = append(out, api.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
		}
	}
	return out
}

// Ignores implements api.Host.
func (c Clients) Ignores(client string) (parts []string, section string) {
	in := c.Current().Config
	if client == config.Gatekeeper {
		return in.Gateway.Ignore, "[gateway]"
	}
	return in.Clients[client].Ignore, "[clients." + client + "]"
}

// MaxFiles implements api.Host.
func (c Clients) MaxFiles() int { return c.Current().Config.Media.MaxFiles }

// Keep implements api.Host. The handle of the file is its digest.
func (c Clients) Keep(ctx context.Context, sender message.SenderKey, f api.File) (message.Attachment, error) {
	a, err := c.Files.Keep(ctx, sender, f.Name, bytes.NewReader(f.Data))
	if errors.Is(err, builtin.ErrNotKept) {
		err = fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	a.Handle, a.Digest = a.Digest, ""
	return a, err
}

// HangUp implements api.Host.
func (c Clients) HangUp(channel, conversation string) {
	c.Turns.HangUp(message.NewConversationKey(channel, conversation))
}

// Settled implements api.Host.
func (c Clients) Settled(ctx context.Context, channel, event string) (api.Settlement, error) {
	row, err := c.Store.FindInbox(ctx, channel, event)
	switch {
	case errors.Is(err, store.ErrNotFound): // beyond the rate at which refusals are recorded
		return api.Settlement{Done: true, Failed: true, Refused: true, Text: "too many messages were refused; try again later"}, nil
	case err != nil:
		return api.Settlement{}, err
	case row.State == mailbox.InboxNew:
		return api.Settlement{Message: row.Message}, nil
	case row.State == mailbox.InboxDropped || row.State == mailbox.InboxStale:
		return api.Settlement{Message: row.Message, Done: true, Failed: true, Refused: true, Text: row.Note}, nil
	}
	t, err := c.turnOf(ctx, row)
	if err != nil {
		return api.Settlement{}, err
	}
	s := api.Settlement{Message: row.Message, Done: true, Turn: t.ID, Agent: t.Agent, Failed: row.State != mailbox.InboxDone || t.State != turnlog.TurnDone}
	steps, err := c.Conversations.Store.Steps(ctx, t.ID)
	if err != nil {
		return s, err
	}
	if s.Usage.Input, s.Usage.Output, err = transcript.Tokens(steps); err != nil {
		return s, err
	}
	replies, err := c.Conversations.Store.Replies(ctx, t.ID)
	if err != nil {
		return s, err
	}
	for _, r := range replies {
		if transcript.IsAnswer(t.ID, r.Reply) {
			s.Text = r.Reply.Text
		}
	}
	if row.Message.Call != nil && !s.Failed {
		s.Text, s.Failed, err = transcript.Called(steps)
	}
	if err == nil && t.State == turnlog.TurnFailed {
		s.Limited, s.RetryAfter, err = c.limited(ctx, t.ID)
	}
	return s, err
}

// retryLater is when a client may try again if no circuit breaker is open.
const retryLater = 10 * time.Second

// limited reports whether the last model call of a turn failed for a rate limit, and when another may succeed.
func (c Clients) limited(ctx context.Context, turn string) (bool, time.Duration, error) {
	trail, err := c.Store.Trail(ctx, turn)
	if err != nil || len(trail.Usage) == 0 {
		return false, 0, err
	}
	last := trail.Usage[len(trail.Usage)-1]
	if last.Failure != string(model.RateLimited) {
		return false, 0, nil
	}
	wait := retryLater
	for _, s := range c.Current().Tiers.Status() {
		if s.Tier == last.Tier {
			wait = max(wait, time.Until(s.Until))
		}
	}
	return true, wait, nil
}

// recentTurns bounds the search for the turn of a message.
const recentTurns = 50

// turnOf returns the turn that answered a message. A chat command, which the host answers itself, has a turn of no agent.
func (c Clients) turnOf(ctx context.Context, row mailbox.InboxRow) (turnlog.Turn, error) {
	m := row.Message
	turns, err := c.Conversations.Store.History(ctx, m.Channel, m.Conversation.ID, recentTurns)
	if err != nil {
		return turnlog.Turn{}, err
	}
	for _, t := range slices.Backward(turns) {
		if slices.Contains(t.Inbox, row.ID) {
			return t, nil
		}
	}
	return turnlog.Turn{ID: mailbox.CommandTurn(row.ID), State: turnlog.TurnDone}, nil
}

// Questions returns the messages of API clients among recovered work.
func Questions(items []agent.Item) []message.Message {
	var out []message.Message
	for _, it := range items {
		for _, row := range append(it.Rows, it.Row) {
			if m := row.Message; m.Channel == api.OpenAI || m.Channel == api.MCP {
				out = append(out, m)
			}
		}
	}
	return out
}
