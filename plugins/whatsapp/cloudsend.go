package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// object is a JSON object.
type object = map[string]any

// again marks a message that may have been sent before, with an unknown outcome.
const again = "(possibly again) "

const reconcileWait = 8 * time.Second

// Send implements line. Text and media are a message each; the ones that went out are not sent again when a later one fails.
func (c *cloud) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	if !digits(s.Conversation.ID) {
		return channel.Sent{Outcome: channel.OutcomeRefused}, fmt.Errorf("%q is not a number of WhatsApp", s.Conversation.ID)
	}
	var before []string // of a message that was unclear and went out
	if s.PossibleDuplicate {
		key := partKey(s.Key, s.Delivered())
		switch f, known := c.statuses.wait(ctx, key, reconcileWait); {
		case known && f.failed == nil:
			s.Resume, before = strconv.Itoa(s.Delivered()+1), []string{f.wamid}
		case known:
			c.statuses.forget(key)
			fallthrough
		default:
			if s.Delivered() == 0 {
				s.Text = again + s.Text
			}
		}
	}
	bodies, choice := c.bodies(s)
	if len(bodies) == 0 {
		return channel.Sent{Outcome: channel.OutcomeRefused}, errors.New("there is nothing to send")
	}
	if s.Delivered() >= len(bodies) {
		return channel.Sent{Outcome: channel.OutcomeDuplicate, MessageIDs: before}, nil
	}
	sent, err := channel.Series(ctx, s, len(bodies), func(ctx context.Context, i int) (string, error) {
		id, err := c.sendPart(ctx, s, partKey(s.Key, i), bodies[i])
		if err == nil && choice && i == 0 {
			c.choices.offer(s.Conversation.ID, id, s.Buttons)
		}
		return id, err
	}, sentBy)
	sent.MessageIDs = append(before, sent.MessageIDs...)
	return sent, err
}

// partKey returns the key of one message of a send.
func partKey(key string, part int) string {
	if part == 0 {
		return key
	}
	return key + "#" + strconv.Itoa(part)
}

// bodies returns the messages that a send becomes, and whether its buttons are written out.
func (c *cloud) bodies(s channel.Send) (list []object, choice bool) {
	plain, text := s.Text, s.Text
	if s.Markdown {
		text = markdown.Render(plain, markdown.WhatsApp)
	}
	asButtons := fit(s.Buttons) && text != "" && utf8.RuneCountInString(text) <= maxCaption
	if !asButtons && len(s.Buttons) > 0 {
		text, choice = written(text, s.Buttons), true
	}
	caption := ""
	if len(s.Attachments) > 0 && len(s.Buttons) == 0 && utf8.RuneCountInString(text) <= maxCaption && captioned(s.Attachments[0].Type) {
		caption, text = text, ""
	}
	switch {
	case asButtons:
		list = append(list, interactive(text, s.Buttons))
	case strings.TrimSpace(text) != "":
		list = append(list, object{"type": "text", "text": object{"body": text, "preview_url": false}})
	}
	for i, a := range s.Attachments {
		kind := mediaKind(a.Type)
		medium := object{"id": a.Handle}
		if i == 0 && caption != "" {
			medium["caption"] = caption
		}
		if kind == "document" && a.Name != "" {
			medium["filename"] = a.Name
		}
		list = append(list, object{"type": kind, kind: medium})
	}
	return list, choice
}

const (
	maxButtons = 3
	maxLabel   = 20 // characters on a button
)

// fit reports whether WhatsApp can show the buttons: three at most, with short names that differ.
func fit(list []channel.Button) bool {
	names := map[string]bool{}
	for _, b := range list {
		name := strings.TrimSpace(b.Text)
		if name == "" || names[name] || utf8.RuneCountInString(name) > maxLabel {
			return false
		}
		names[name] = true
	}
	return len(list) > 0 && len(list) <= maxButtons
}

func interactive(text string, list []channel.Button) object {
	var buttons []object
	for _, b := range list {
		buttons = append(buttons, object{"type": "reply", "reply": object{"id": b.Value, "title": strings.TrimSpace(b.Text)}})
	}
	return object{"type": "interactive", "interactive": object{"type": "button", "body": object{"text": text}, "action": object{"buttons": buttons}}}
}

// sendPart sends one message and waits a moment for a status that it failed: Meta accepts first and reports failures later.
func (c *cloud) sendPart(ctx context.Context, s channel.Send, key string, body object) (string, error) {
	id, err := c.post(ctx, s, key, body)
	if err == nil {
		if f, known := c.statuses.wait(ctx, key, c.settings.confirm()); known && f.failed != nil {
			c.statuses.forget(key)
			err = f.failed
		}
	}
	e, ok := errors.AsType[*graphError](err)
	if !ok || e.Code != outsideWindow || c.settings.Template == "" {
		return id, err
	}
	text := s.Text
	if s.Markdown {
		text = markdown.Render(text, markdown.Plain)
	}
	return c.post(ctx, s, key+"#template", c.template(text))
}

// post makes the request. The key is returned with each status.
func (c *cloud) post(ctx context.Context, s channel.Send, key string, body object) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r := object{"messaging_product": "whatsapp", "recipient_type": "individual", "to": s.Conversation.ID, "biz_opaque_callback_data": key}
	if s.ReplyTo != "" {
		r["context"] = object{"message_id": s.ReplyTo}
	}
	maps.Copy(r, body)
	var answer struct {
		Messages []struct {
			ID string `json:"id"`
		} `json:"messages"`
	}
	if err := c.graph.post(ctx, c.graph.phone+"/messages", r, &answer); err != nil {
		return "", err
	}
	if len(answer.Messages) == 0 || answer.Messages[0].ID == "" {
		return "", errors.New("meta names no message") // outcome unknown
	}
	return answer.Messages[0].ID, nil
}

const maxVariable = 1000 // characters of a template's variable

// template wraps text into the configured template. A variable has no line breaks and no runs of spaces.
func (c *cloud) template(text string) object {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxVariable {
		text = string(r[:maxVariable]) + "…"
	}
	return object{"type": "template", "template": object{
		"name": c.settings.Template, "language": object{"code": c.settings.TemplateLanguage},
		"components": []object{{"type": "body", "parameters": []object{{"type": "text", "text": text}}}},
	}}
}

// Reconcile implements line: WhatsApp reports each message that went out, with our key. A missing report proves nothing.
func (c *cloud) Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	f, known := c.statuses.wait(ctx, r.Key, reconcileWait)
	switch {
	case !known:
		return channel.Sent{Outcome: channel.OutcomeUnknown}, nil
	case f.failed != nil:
		c.statuses.forget(r.Key)
		return channel.Sent{Outcome: channel.OutcomeNotSent}, nil
	}
	return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{f.wamid}}, nil
}

// React implements line.
func (c *cloud) React(ctx context.Context, r channel.Reaction) error {
	emoji := r.Reaction
	if r.Remove {
		emoji = ""
	}
	body := object{"type": "reaction", "reaction": object{"message_id": r.MessageID, "emoji": emoji}}
	_, err := c.post(ctx, channel.Send{Conversation: r.Conversation}, "", body)
	return final(err)
}

// Typing implements line. WhatsApp ties it to a message of the person, which it also marks as read, and ends it by itself after 25
// seconds.
func (c *cloud) Typing(ctx context.Context, t channel.Typing) error {
	id, _ := c.last.Get(t.Conversation.ID)
	if !t.On || id == "" || !c.settings.ReadReceipts {
		return nil
	}
	var answer struct{}
	return c.graph.post(ctx, c.graph.phone+"/messages", object{
		"messaging_product": "whatsapp", "status": "read", "message_id": id, "typing_indicator": object{"type": "text"},
	}, &answer)
}
