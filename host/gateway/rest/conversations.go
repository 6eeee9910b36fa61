package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// conversations shows the conversations and takes messages.
type conversations struct{ gateway.Conversations }

// deleteTimeout bounds a deletion with the wait for the turns that it stops.
const deleteTimeout = 25 * time.Second

// InConversation is the path of a conversation.
type InConversation struct {
	Channel      string `path:"channel" minLength:"1" maxLength:"256" doc:"web and terminal are this machine's, console is that of people who are signed in"`
	Conversation string `path:"conversation" minLength:"1" maxLength:"256" doc:"The conversation's id on the channel"`
}

func (c conversations) register(r *registrar) {
	const subject, path = "Conversations", "/conversations/{channel}/{conversation}"
	type choice struct {
		Paging
		From string `query:"from" enum:"all,people,programs" default:"all" doc:"Whose: programs are API clients and schedules"`
	}
	add(r, Operation{ID: "list-conversations", Method: http.MethodGet, Path: "/conversations", Subject: subject, Least: guest,
		Summary: "All conversations of this machine, latest first; for members and guests their own private ones"},
		func(ctx context.Context, by gateway.Caller, in *choice) (gateway.Page[gateway.ConversationInfo], error) {
			f := gateway.ConversationFilter{From: gateway.ConversationFrom(in.From), Cursor: in.Cursor, Limit: in.Limit}
			if !by.Owner() {
				f.Of = by.Sender
			}
			return wholeOr(c.Conversations.Conversations(ctx, f))
		})
	add(r, Operation{ID: "get-conversation", Method: http.MethodGet, Path: path, Subject: subject, Least: guest, Summary: "A conversation of this machine"},
		func(ctx context.Context, by gateway.Caller, in *InConversation) (v gateway.ConversationInfo, err error) {
			if err := may(ctx, c.Conversations, by, in.Channel, in.Conversation); err != nil {
				return v, err
			}
			return c.Conversation(ctx, in.Channel, in.Conversation)
		})
	type history struct {
		InConversation
		Paging
	}
	add(r, Operation{ID: "list-entries", Method: http.MethodGet, Path: path + "/entries", Subject: subject, Least: guest,
		Summary: "The last entries of a conversation, oldest first; the next page has those before them"},
		func(ctx context.Context, by gateway.Caller, in *history) (page gateway.Page[gateway.Entry], err error) {
			if err := may(ctx, c.Conversations, by, in.Channel, in.Conversation); err != nil {
				return page, err
			}
			return wholeOr(c.Entries(ctx, in.Channel, in.Conversation, in.Cursor, in.Limit))
		})
	type message struct {
		InConversation
		Body gateway.NewMessage
	}
	type accepted struct {
		ID string `json:"id"`
	}
	add(r, Operation{ID: "send-message", Method: http.MethodPost, Path: path + "/messages", Subject: subject, Least: guest, Status: http.StatusAccepted,
		Summary: "Say something on the web page, the terminal or the console; once it is accepted it is durable, and answered once however often it is sent"},
		func(ctx context.Context, by gateway.Caller, in *message) (accepted, error) {
			m, err := in.Body.Message(by, in.Channel, in.Conversation)
			if err != nil {
				return accepted{}, err
			}
			return accepted{in.Body.ID}, c.Submit(ctx, m)
		})
	act(r, Operation{ID: "stop-turn", Method: http.MethodPost, Path: path + "/stop", Subject: subject, Least: guest,
		Summary: "End the running turn; without one nothing happens"},
		func(ctx context.Context, by gateway.Caller, in *InConversation) error {
			if err := may(ctx, c.Conversations, by, in.Channel, in.Conversation); err != nil {
				return err
			}
			return c.Stop(ctx, in.Channel, in.Conversation)
		})
	type removal struct {
		InConversation
		Stop bool `query:"stop" doc:"End a running turn first; without it the deletion is refused while one runs"`
	}
	act(r, Operation{ID: "delete-conversation", Method: http.MethodDelete, Path: path, Subject: subject, Least: guest, Timeout: deleteTimeout,
		Summary: "Delete all sessions of a conversation, with their files"},
		func(ctx context.Context, by gateway.Caller, in *removal) error {
			if err := may(ctx, c.Conversations, by, in.Channel, in.Conversation); err != nil {
				return err
			}
			return c.DeleteConversation(ctx, in.Channel, in.Conversation, string(by.Sender), in.Stop)
		})
	c.registerTalk(r)
}

// may refuses a conversation that is not the caller's, as if there were none. Owners may look at all.
func may(ctx context.Context, c gateway.Conversations, by gateway.Caller, channel, conversation string) error {
	if by.Owner() || by.Writes(channel, conversation) {
		return nil
	}
	theirs, err := c.BelongsTo(ctx, by.Sender, channel, conversation)
	if err == nil && !theirs {
		err = store.NotFound("there is no such conversation of yours")
	}
	return err
}
