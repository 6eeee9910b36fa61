package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// roomOf returns the room of a conversation, and the thread in it.
func roomOf(c channel.Conversation) (room, thread string) {
	if c.Kind == channel.Thread && c.Parent != "" {
		return c.Parent, c.ID
	}
	return c.ID, ""
}

// transaction returns the id by which the homeserver recognises a repeated request.
func transaction(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "flynn-" + base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Send implements channel.Channel: the text, then each attachment, all with ids derived from the key.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	roomID, thread := roomOf(s.Conversation)
	relation := related(thread, s.ReplyTo)
	type message struct {
		content map[string]any
		part    string
	}
	var list []message
	if s.Text != "" {
		list = append(list, message{text(s.Text, s.Markdown), "text"})
	}
	for i, a := range s.Attachments {
		list = append(list, message{file(a), fmt.Sprint("file", i)})
	}
	return channel.Series(ctx, s, len(list), func(ctx context.Context, i int) (string, error) {
		if relation != nil {
			list[i].content["m.relates_to"] = relation
		}
		return p.put(ctx, roomID, "m.room.message", transaction(s.Key, list[i].part), list[i].content)
	}, func(err error) (channel.Sent, error) {
		return channel.Sent{Outcome: outcome(err), RetryAfter: wait(err)}, fmt.Errorf("send to %s: %w", roomID, err)
	})
}

// put sends one event and returns its id. A transaction that the homeserver knows answers with the id of then.
func (p *plugin) put(ctx context.Context, roomID, kind, txn string, content any) (string, error) {
	var out struct {
		ID string `json:"event_id"`
	}
	err := p.client.call(ctx, http.MethodPut, room(roomID, "send", kind, txn), nil, content, &out)
	return out.ID, err
}

// text returns a message in both of its forms. It mentions nobody, because a model's text must not notify everybody.
func text(source string, isMarkdown bool) map[string]any {
	out := map[string]any{"msgtype": "m.text", "body": source, "m.mentions": map[string]any{}}
	if isMarkdown {
		out["body"] = markdown.Render(source, markdown.Plain)
		out["format"], out["formatted_body"] = "org.matrix.custom.html", markdown.Render(source, markdown.HTML)
	}
	return out
}

// file returns a message that shows media which were uploaded before.
func file(a channel.Attachment) map[string]any {
	kind := "m.file"
	for prefix, k := range map[string]string{"image/": "m.image", "audio/": "m.audio", "video/": "m.video"} {
		if strings.HasPrefix(a.Type, prefix) {
			kind = k
		}
	}
	return map[string]any{
		"msgtype": kind, "body": a.Name, "filename": a.Name, "url": a.Handle, "info": map[string]any{"mimetype": a.Type, "size": a.Size},
	}
}

// related returns the relation of a message to a thread and to another message; it may be nil.
func related(thread, replyTo string) map[string]any {
	answer := map[string]any{"event_id": replyTo}
	switch {
	case thread != "" && replyTo != "":
		return map[string]any{"rel_type": "m.thread", "event_id": thread, "m.in_reply_to": answer}
	case thread != "":
		return map[string]any{"rel_type": "m.thread", "event_id": thread}
	case replyTo != "":
		return map[string]any{"m.in_reply_to": answer}
	}
	return nil
}

// Edit implements channel.Editor.
func (p *plugin) Edit(ctx context.Context, e channel.Edit) (channel.Edited, error) {
	roomID, _ := roomOf(e.Conversation)
	content := text(e.Text, e.Markdown)
	fresh := text(e.Text, e.Markdown)
	content["body"] = "* " + fmt.Sprint(fresh["body"])
	content["m.new_content"] = fresh
	content["m.relates_to"] = map[string]any{"rel_type": "m.replace", "event_id": e.MessageID}
	_, err := p.put(ctx, roomID, "m.room.message", transaction("edit", e.MessageID, fmt.Sprint(e.Revision)), content)
	if d := wait(err); d > 0 {
		return channel.Edited{RetryAfter: d}, nil
	}
	return channel.Edited{}, final(err)
}

// Delete implements channel.Deleter.
func (p *plugin) Delete(ctx context.Context, c channel.Conversation, messageID string) error {
	roomID, _ := roomOf(c)
	return final(p.redact(ctx, roomID, messageID))
}

func (p *plugin) redact(ctx context.Context, roomID, id string) error {
	return p.client.call(ctx, http.MethodPut, room(roomID, "redact", id, transaction("redact", id)), nil, struct{}{}, nil)
}

// React implements channel.Reacter.
func (p *plugin) React(ctx context.Context, r channel.Reaction) error {
	roomID, _ := roomOf(r.Conversation)
	if !r.Remove {
		_, err := p.put(ctx, roomID, "m.reaction", transaction("react", r.MessageID, r.Reaction, fmt.Sprint(time.Now().UnixNano())), map[string]any{
			"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": r.MessageID, "key": r.Reaction},
		})
		if says(err, "M_DUPLICATE_ANNOTATION") {
			return nil
		}
		return err
	}
	var found struct {
		Chunk []event `json:"chunk"`
	}
	path := "/_matrix/client/v1/rooms/" + url.PathEscape(roomID) + "/relations/" + url.PathEscape(r.MessageID) + "/m.annotation/m.reaction"
	if err := p.client.call(ctx, http.MethodGet, path, url.Values{"limit": {"100"}}, nil, &found); err != nil {
		return err
	}
	for _, e := range found.Chunk {
		if e.Sender == p.settings.UserID && reaction(e) == r.Reaction {
			return p.redact(ctx, roomID, e.ID)
		}
	}
	return nil
}

// Typing implements channel.Typer.
func (p *plugin) Typing(ctx context.Context, t channel.Typing) error {
	roomID, _ := roomOf(t.Conversation)
	body := map[string]any{"typing": t.On}
	if t.On {
		body["timeout"] = t.TTL.Milliseconds()
	}
	return p.client.call(ctx, http.MethodPut, room(roomID, "typing", p.settings.UserID), nil, body, nil)
}

// Resolve implements channel.Resolver, for the alias of a room.
func (p *plugin) Resolve(ctx context.Context, query string) ([]channel.Target, error) {
	if !strings.HasPrefix(query, "#") || !strings.Contains(query, ":") {
		return nil, nil
	}
	var out struct {
		Room string `json:"room_id"`
	}
	err := p.client.call(ctx, http.MethodGet, v3+"/directory/room/"+url.PathEscape(query), nil, nil, &out)
	if e, ok := errors.AsType[*apiError](err); ok && e.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []channel.Target{{Conversation: channel.Conversation{ID: out.Room, Kind: channel.Group}, Title: query}}, nil
}
