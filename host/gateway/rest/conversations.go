package rest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// conversations shows the conversations and takes messages.
type conversations struct{ gateway.Conversations }

// deleteTimeout bounds a deletion with the wait for the turns that it stops.
const deleteTimeout = 25 * time.Second

// InConversation is the path of a conversation.
type InConversation struct {
	Channel      string `path:"channel" minLength:"1" maxLength:"256" doc:"The channel instance; web and terminal are this machine's"`
	Conversation string `path:"conversation" minLength:"1" maxLength:"256" doc:"The conversation's id on the channel"`
}

func (c conversations) register(r *registrar) {
	const subject, path = "Conversations", "/conversations/{channel}/{conversation}"
	type choice struct {
		Paging
		From string `query:"from" enum:"all,people,programs" default:"all" doc:"Whose: programs are API clients and schedules"`
	}
	add(r, Operation{ID: "list-conversations", Method: http.MethodGet, Path: "/conversations", Subject: subject, Least: owner, Summary: "All conversations, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *choice) (gateway.Page[gateway.ConversationInfo], error) {
			list, err := c.Conversations.Conversations(ctx)
			list = slices.DeleteFunc(list, func(v gateway.ConversationInfo) bool { return in.From != "all" && v.Program != (in.From == "programs") })
			return paged(list, in.Paging, func(v gateway.ConversationInfo) string { return position(v.Last, v.Channel+":"+v.ID) }), err
		})
	type history struct {
		InConversation
		Paging
	}
	add(r, Operation{ID: "list-entries", Method: http.MethodGet, Path: path + "/entries", Subject: subject, Least: owner,
		Summary: "The last entries of a conversation, oldest first; the next page has those before them"},
		func(ctx context.Context, _ gateway.Caller, in *history) (gateway.Page[gateway.Entry], error) {
			return wholeOr(c.Entries(ctx, in.Channel, in.Conversation, in.Cursor, in.Limit))
		})
	type message struct {
		InConversation
		Body gateway.NewMessage
	}
	type accepted struct {
		ID string `json:"id"`
	}
	add(r, Operation{ID: "send-message", Method: http.MethodPost, Path: path + "/messages", Subject: subject, Least: owner, Status: http.StatusAccepted,
		Summary: "Say something on the web page or the terminal; once it is accepted it is durable, and answered once however often it is sent"},
		func(ctx context.Context, by gateway.Caller, in *message) (accepted, error) {
			m, err := in.Body.Message(by, in.Channel, in.Conversation)
			if err != nil {
				return accepted{}, err
			}
			return accepted{in.Body.ID}, c.Submit(ctx, m)
		})
	act(r, Operation{ID: "stop-turn", Method: http.MethodPost, Path: path + "/stop", Subject: subject, Least: owner, Summary: "End the running turn; without one nothing happens"},
		func(ctx context.Context, _ gateway.Caller, in *InConversation) error {
			return c.Stop(ctx, in.Channel, in.Conversation)
		})
	type removal struct {
		InConversation
		Stop bool `query:"stop" doc:"End a running turn first; without it the deletion is refused while one runs"`
	}
	act(r, Operation{ID: "delete-conversation", Method: http.MethodDelete, Path: path, Subject: subject, Least: owner, Timeout: deleteTimeout,
		Summary: "Delete all sessions of a conversation, with their files"},
		func(ctx context.Context, by gateway.Caller, in *removal) error {
			return c.DeleteConversation(ctx, in.Channel, in.Conversation, string(by.Sender), in.Stop)
		})
	c.registerTalk(r)
}
