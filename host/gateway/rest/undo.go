package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// registerUndo adds what undoes the changes of files. Everybody who may write in a conversation may undo there.
func (c conversations) registerUndo(r *registrar) {
	const subject, path = "Conversations", "/conversations/{channel}/{conversation}/undo"
	type look struct {
		InConversation
		Back int `query:"back" minimum:"1" maximum:"10" default:"1" doc:"How many turns that changed files, or undos, to go back"`
	}
	add(r, Operation{ID: "plan-undo", Method: http.MethodGet, Path: path, Subject: subject, Least: guest, Timeout: talkTimeout,
		Summary: "What an undo of the files that the last turns changed would change; refused while something runs in the conversation"},
		func(ctx context.Context, by gateway.Caller, in *look) (snapshot.Plan, error) {
			if err := by.CheckWrites(in.Channel, in.Conversation); err != nil {
				return snapshot.Plan{}, err
			}
			return c.PlanUndo(ctx, in.Channel, in.Conversation, in.Back)
		})
	type undo struct {
		InConversation
		Body gateway.Undo
	}
	add(r, Operation{ID: "undo-files", Method: http.MethodPost, Path: path, Subject: subject, Least: guest, Timeout: talkTimeout,
		Summary: "Do what plan-undo has shown, and end the session's sandboxes; another undo takes it back"},
		func(ctx context.Context, by gateway.Caller, in *undo) (snapshot.Plan, error) {
			if err := by.CheckWrites(in.Channel, in.Conversation); err != nil {
				return snapshot.Plan{}, err
			}
			return c.Undo(ctx, in.Channel, in.Conversation, in.Body, by)
		})
}
