package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/door"
	"github.com/flynnhost/flynn/host/gateway/door/mcp"
	"github.com/flynnhost/flynn/host/gateway/door/openai"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// programs are the doors for programs, by the configuration in force.
func (h *Host) programs() *gateway.Programs {
	desk := door.NewDesk(programHost{backend{h}}, func() string { return store.NewID(time.Now()) })
	h.questions = desk
	return &gateway.Programs{
		Client: func(token string) (string, bool) { return h.current.Load().config.ClientOf(token) },
		Owner:  config.Gatekeeper, OpenAI: openai.New(desk), MCP: mcp.New(desk, h.version),
	}
}

// questionsOf are the messages of programs among recovered work.
func questionsOf(items []agent.Item) []message.Message {
	var out []message.Message
	for _, it := range items {
		for _, row := range append(it.Rows, it.Row) {
			if m := row.Message; m.Channel == door.OpenAI || m.Channel == door.MCP {
				out = append(out, m)
			}
		}
	}
	return out
}

// programHost is the host as programs see it.
type programHost struct{ backend }

// machineTools are what a program may call itself in the sandbox of an agent.
var machineTools = []string{"shell.exec", "file.read", "file.write", "file.edit", "file.list"}

// Agents implements door.Host.
func (b programHost) Agents(client string) []door.Agent {
	g := b.h.current.Load()
	names := g.Names
	if c, ok := g.config.Clients[client]; ok && client != config.Gatekeeper {
		names = slices.Sorted(slices.Values(c.Agents))
	} else if client != config.Gatekeeper {
		return nil
	}
	var out []door.Agent
	for _, name := range slices.Compact(names) {
		if a := g.Agents[name]; a != nil {
			out = append(out, door.Agent{Name: name, Machine: machineOf(a), Folders: a.CLI != nil && a.CLI.Folder != nil})
		}
	}
	return out
}

func machineOf(a *agent.Agent) []door.Tool {
	if !a.Sandboxed {
		return nil
	}
	var out []door.Tool
	for _, t := range a.Tools {
		if slices.Contains(machineTools, t.Name) {
			out = append(out, door.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
		}
	}
	return out
}

// Ignores implements door.Host.
func (b programHost) Ignores(client string) (parts []string, section string) {
	c := b.h.current.Load().config
	if client == config.Gatekeeper {
		return c.Gateway.Ignore, "[gateway]"
	}
	return c.Clients[client].Ignore, "[clients." + client + "]"
}

// MaxFiles implements door.Host.
func (b programHost) MaxFiles() int { return b.h.current.Load().config.Media.MaxFiles }

// Keep implements door.Host. The file's handle at its door is its digest.
func (b programHost) Keep(ctx context.Context, sender string, f door.File) (message.Attachment, error) {
	a, err := b.h.files.Keep(ctx, sender, f.Name, bytes.NewReader(f.Data))
	if errors.Is(err, builtin.ErrNotKept) {
		err = fmt.Errorf("%w: %w", door.ErrInvalid, err)
	}
	a.Handle, a.Digest = a.Digest, ""
	return a, err
}

// HangUp implements door.Host.
func (b programHost) HangUp(channel, conversation string) {
	b.h.runner.HangUp(channel + ":" + conversation)
}

// Settled implements door.Host.
func (b programHost) Settled(ctx context.Context, channel, event string) (door.Settlement, error) {
	row, err := b.h.store.FindInbox(ctx, channel, event)
	switch {
	case errors.Is(err, store.ErrNotFound): // refused faster than refusals are recorded
		return door.Settlement{Done: true, Failed: true, Refused: true, Text: "too many messages are refused; try again later"}, nil
	case err != nil:
		return door.Settlement{}, err
	case row.State == store.InboxNew:
		return door.Settlement{Message: row.Message}, nil
	case row.State == store.InboxDropped || row.State == store.InboxStale:
		return door.Settlement{Message: row.Message, Done: true, Failed: true, Refused: true, Text: row.Note}, nil
	}
	t, err := b.turnOf(ctx, row)
	if err != nil {
		return door.Settlement{}, err
	}
	s := door.Settlement{Message: row.Message, Done: true, Turn: t.ID, Agent: t.Agent, Failed: row.State != store.InboxDone || t.State != store.TurnDone}
	steps, err := b.h.store.Steps(ctx, t.ID)
	if err != nil {
		return s, err
	}
	if s.Usage.Input, s.Usage.Output, err = agent.Spent(steps); err != nil {
		return s, err
	}
	replies, err := b.h.store.Replies(ctx, t.ID)
	if err != nil {
		return s, err
	}
	for _, r := range replies {
		if agent.IsAnswer(t.ID, r.Reply) {
			s.Text = r.Reply.Text
		}
	}
	if row.Message.Call != nil && !s.Failed {
		s.Text, s.Failed, err = agent.Called(steps)
	}
	if err == nil && t.State == store.TurnFailed {
		s.Limited, s.RetryAfter, err = b.limited(ctx, t.ID)
	}
	return s, err
}

// retryLater is when a client may try again where no breaker says it.
const retryLater = 10 * time.Second

// limited reports whether the last model call of a turn failed for a rate limit, and when another may succeed.
func (b programHost) limited(ctx context.Context, turn string) (bool, time.Duration, error) {
	trail, err := b.h.store.Trail(ctx, turn)
	if err != nil || len(trail.Usage) == 0 {
		return false, 0, err
	}
	last := trail.Usage[len(trail.Usage)-1]
	if last.Failure != string(model.RateLimited) {
		return false, 0, nil
	}
	wait := retryLater
	for _, s := range b.h.current.Load().models.Status() {
		if s.Tier == last.Tier {
			wait = max(wait, time.Until(s.Until))
		}
	}
	return true, wait, nil
}

// recentTurns bounds how far back the turn of a message is looked for.
const recentTurns = 50

// turnOf is the turn that answered a message. What the host answers itself, a command, is none of an agent's.
func (b programHost) turnOf(ctx context.Context, row store.InboxRow) (store.Turn, error) {
	m := row.Message
	turns, err := b.h.store.History(ctx, m.Channel, m.Conversation.ID, recentTurns)
	if err != nil {
		return store.Turn{}, err
	}
	for _, t := range slices.Backward(turns) {
		if slices.Contains(t.Inbox, row.ID) {
			return t, nil
		}
	}
	return store.Turn{ID: store.CommandTurn(row.ID), State: store.TurnDone}, nil
}
