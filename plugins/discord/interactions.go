package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/channel"
)

// Discord expects the callback of an interaction within three seconds, and takes its answer for fifteen minutes.
const (
	callbackBy    = 2 * time.Second
	answerWithin  = 14 * time.Minute
	maxWaiting    = 1000
	callbackTries = 5 * time.Second
)

// interaction delivers a command or the press of a button, and acknowledges it when the host has it.
func (x *incoming) interaction(i *discordgo.Interaction) error {
	user, member := i.User, i.Member
	if member != nil {
		user = member.User
	}
	if user == nil || !isSnowflake(user.ID) || !isSnowflake(i.ID) || !isSnowflake(i.ChannelID) || i.Token == "" {
		return nil
	}
	where, room := x.conversation(i.ChannelID, i.GuildID)
	e := channel.Event{
		ID: i.ID, Conversation: where, Sender: x.sender(user, member, room.guild), Addressed: true, SentAt: time.Now(),
	}
	answer := discordgo.InteractionResponseDeferredChannelMessageWithSource
	switch data := i.Data.(type) {
	case discordgo.ApplicationCommandInteractionData:
		e.Kind, e.Text = command(data)
	case discordgo.MessageComponentInteractionData:
		if i.Message == nil {
			return nil
		}
		e.Kind, e.Text, e.TargetID = channel.EventButton, strings.TrimPrefix(data.CustomID, buttonPrefix), i.Message.ID
		answer = discordgo.InteractionResponseDeferredMessageUpdate
	default:
		return nil
	}
	return x.deliver(e, x.acknowledge(i, answer))
}

// command returns the kind and the text of the event for a command. "/ask" is a message like any other.
func command(data discordgo.ApplicationCommandInteractionData) (channel.EventKind, string) {
	var words []string
	for _, o := range data.Options {
		if o == nil {
			continue
		}
		if s, ok := o.Value.(string); ok {
			words = append(words, s)
		}
	}
	text := strings.Join(words, " ")
	if data.Name == "ask" {
		return channel.EventMessage, text
	}
	return channel.EventCommand, strings.TrimSpace("/" + data.Name + " " + text)
}

// acknowledge answers an interaction when the host has it, or shortly before Discord's deadline.
func (x *incoming) acknowledge(i *discordgo.Interaction, with discordgo.InteractionResponseType) func(error) {
	w := &waitingAnswer{id: i.ID, token: i.Token, channel: i.ChannelID, at: time.Now(), told: make(chan struct{})}
	if with == discordgo.InteractionResponseDeferredChannelMessageWithSource {
		x.waiting.add(w)
	}
	taken := make(chan error, 1)
	p, ctx := x.plugin, x.running
	p.tasks.Go(func() {
		defer close(w.told)
		select {
		case err := <-taken:
			if err != nil {
				p.waiting.drop(i.ID)
				return
			}
		case <-time.After(callbackBy):
			p.log.Warn("the host is slow: an interaction is answered before it has it", "interaction", i.ID)
		case <-ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(ctx, callbackTries)
		defer cancel()
		if err := p.client.call(ctx, "POST", "/interactions/"+i.ID+"/"+i.Token+"/callback", map[string]any{"type": with}, nil); err != nil {
			p.log.Warn("interaction was not acknowledged", "interaction", i.ID, "error", err)
			p.waiting.drop(i.ID)
		}
	})
	return func(err error) { taken <- err }
}

// waitingAnswer is a command that shows "thinking" until its answer is there.
type waitingAnswer struct {
	id, token, channel string
	at                 time.Time
	told               chan struct{} // closed when Discord has the answer, or never will
}

// waiting are the commands without an answer, the oldest first. A restart forgets them: their answers are messages then.
type waiting struct {
	mu  sync.Mutex
	all []*waitingAnswer
}

func (w *waiting) add(a *waitingAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(a *waitingAnswer) bool { return time.Since(a.at) > answerWithin })
	if len(w.all) < maxWaiting {
		w.all = append(w.all, a)
	}
}

func (w *waiting) drop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(a *waitingAnswer) bool { return a.id == id })
}

// find returns the command that a send answers, once Discord has heard of it.
func (w *waiting) find(ctx context.Context, channelID, replyTo string) *waitingAnswer {
	w.mu.Lock()
	i := slices.IndexFunc(w.all, func(a *waitingAnswer) bool {
		return a.channel == channelID && a.id == replyTo && time.Since(a.at) < answerWithin
	})
	var found *waitingAnswer
	if i >= 0 {
		found = w.all[i]
	}
	w.mu.Unlock()
	if found == nil {
		return nil
	}
	select {
	case <-found.told:
		return found
	case <-ctx.Done():
		return nil
	}
}

// register registers the commands, once for each start.
func (x *incoming) register() {
	if x.registered || !x.settings.Commands {
		return
	}
	x.registered = true
	_, app := x.world.ids()
	paths := []string{"/applications/" + app + "/commands"}
	if len(x.settings.Guilds) > 0 {
		paths = nil
	}
	for _, g := range x.settings.Guilds {
		paths = append(paths, "/applications/"+app+"/guilds/"+g+"/commands")
	}
	p, ctx := x.plugin, x.running
	p.tasks.Go(func() {
		for _, path := range paths {
			if err := p.client.patient(ctx, "PUT", path, json.RawMessage(commandList), nil); err != nil && ctx.Err() == nil {
				p.log.Warn("commands were not registered", "path", path, "error", err)
			}
		}
	})
}

// commandList are the commands that people see when they type a slash.
const commandList = `[
	{"name": "ask", "type": 1, "description": "Ask Flynn", "options": [{"name": "text", "description": "What to ask", "type": 3, "required": true}]},
	{"name": "new", "type": 1, "description": "Begin a new conversation"},
	{"name": "stop", "type": 1, "description": "Stop what is under way"}
]`
