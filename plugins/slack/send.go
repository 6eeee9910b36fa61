package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

const (
	metadataType = "flynn_message" // of the metadata that carries the idempotency key
	actionPrefix = "flynn_"
	maxSection   = 3000 // characters of one section of blocks
	maxSections  = 45
	sectionRoom  = 2600 // characters of Markdown that go into one; its dialect is a little longer
)

// again marks a message that may have been sent before, where Slack could not be asked.
const again = "(possibly again) "

// Send implements channel.Channel. chat.postMessage knows no idempotency key; the key goes into the message's metadata, where
// Reconcile finds it. A message with files is two: the text, then the files.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	var before []string // of a text that was unclear and is there
	if s.PossibleDuplicate && s.Delivered() == 0 {
		sent, err := p.Reconcile(ctx, channel.Reconcile{Key: s.Key, Conversation: s.Conversation, Text: s.Text})
		switch {
		case err == nil && sent.Outcome == channel.OutcomeSent && len(s.Attachments) == 0:
			sent.Outcome = channel.OutcomeDuplicate
			return sent, nil
		case err == nil && sent.Outcome == channel.OutcomeSent:
			s.Resume, before = "1", sent.MessageIDs
		case err != nil || sent.Outcome == channel.OutcomeUnknown:
			s.Text = again + s.Text
		}
	}
	p.unclear.Set(s.Key, time.Now(), time.Hour)
	where, thread := split(s.Conversation.ID)
	messages := []func(context.Context) (string, error){func(ctx context.Context) (string, error) {
		ts, err := p.sendText(ctx, where, thread, s)
		if ts == "" {
			return "", err
		}
		p.places.locate(where, ts, s.Conversation)
		return messageID(where, ts), err
	}}
	if len(s.Attachments) > 0 {
		messages = append(messages, func(ctx context.Context) (string, error) { return "", p.share(ctx, where, thread, s.Attachments) })
	}
	sent, err := channel.Series(ctx, s, len(messages), func(ctx context.Context, i int) (string, error) { return messages[i](ctx) }, sentBy)
	if sent.Outcome != channel.OutcomeUnknown {
		p.unclear.Delete(s.Key)
	}
	if sent.Outcome == channel.OutcomeSent && thread != "" {
		p.places.call(s.Conversation.ID)
	}
	sent.MessageIDs, sent.ThreadID = append(before, sent.MessageIDs...), thread
	return sent, err
}

// sendText posts the text, if there is one.
func (p *plugin) sendText(ctx context.Context, where, thread string, s channel.Send) (ts string, err error) {
	if strings.TrimSpace(s.Text) == "" && len(s.Buttons) == 0 && len(s.Attachments) > 0 {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options := append(compose(s.Text, s.Markdown, s.Buttons),
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(), keyed(s.Key))
	if thread != "" {
		options = append(options, slack.MsgOptionTS(thread))
	}
	_, ts, err = p.web.client.PostMessageContext(ctx, where, options...)
	return ts, err
}

// keyed adds the idempotency key to the message.
func keyed(key string) slack.MsgOption {
	return slack.MsgOptionMetadata(slack.SlackMetadata{EventType: metadataType, EventPayload: map[string]any{"key": key}})
}

// compose returns the text in Slack's dialect. Blocks are used for buttons only: a message of text can be four times as long as one of a section.
func compose(text string, marked bool, buttons []channel.Button) []slack.MsgOption {
	options := []slack.MsgOption{slack.MsgOptionText(dialect(text, marked), false)}
	if !marked {
		options = append(options, slack.MsgOptionDisableMarkdown())
	}
	if len(buttons) == 0 {
		return options
	}
	var blocks []slack.Block
	for _, piece := range sections(text, marked) {
		kind := slack.MarkdownType
		if !marked {
			kind = slack.PlainTextType
		}
		section := slack.NewSectionBlock(slack.NewTextBlockObject(kind, piece, false, marked), nil, nil)
		blocks = append(blocks, section)
	}
	var elements []slack.BlockElement
	for i, b := range buttons {
		label := slack.NewTextBlockObject(slack.PlainTextType, cmp.Or(strings.TrimSpace(b.Text), "?"), false, false)
		e := slack.NewButtonBlockElement(actionPrefix+strconv.Itoa(i), b.Value, label)
		switch b.Style {
		case channel.ButtonPrimary:
			e.Style = slack.StylePrimary
		case channel.ButtonDanger:
			e.Style = slack.StyleDanger
		}
		elements = append(elements, e)
	}
	blocks = append(blocks, slack.NewActionBlock("", elements...))
	return append(options, slack.MsgOptionBlocks(blocks...))
}

// dialect returns text as Slack reads it. Plain text is escaped, so that nothing in it calls a whole channel.
func dialect(text string, marked bool) string {
	if marked {
		return markdown.Render(text, markdown.Slack)
	}
	return escape(text)
}

// sections cuts text into pieces that fit a section each.
func sections(text string, marked bool) []string {
	shown := func(s string) string {
		if marked {
			return markdown.Render(s, markdown.Slack)
		}
		return s
	}
	var out []string
	for _, piece := range markdown.Split(text, sectionRoom, func(s string) int { return utf8.RuneCountInString(shown(s)) }) {
		piece = shown(piece)
		if strings.TrimSpace(piece) == "" {
			continue
		}
		if r := []rune(piece); len(r) > maxSection {
			piece = string(r[:maxSection])
		}
		if out = append(out, piece); len(out) == maxSections {
			break
		}
	}
	return out
}

// Edit implements channel.Editor. The blocks of before go: those of now are given whole.
func (p *plugin) Edit(ctx context.Context, e channel.Edit) (channel.Edited, error) {
	where, _ := split(e.Conversation.ID)
	options := compose(e.Text, e.Markdown, e.Buttons)
	if len(e.Buttons) == 0 {
		options = append(options, slack.MsgOptionBlocks())
	}
	_, _, _, err := p.web.client.UpdateMessageContext(ctx, where, tsOf(e.MessageID), options...)
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		return channel.Edited{RetryAfter: max(limited.RetryAfter, time.Second)}, nil
	}
	if err != nil {
		err = final("edit", err)
	}
	return channel.Edited{}, err
}

// Delete implements channel.Deleter. A message that is gone is no error.
func (p *plugin) Delete(ctx context.Context, c channel.Conversation, id string) error {
	where, _ := split(c.ID)
	_, _, err := p.web.client.DeleteMessageContext(ctx, where, tsOf(id))
	return unless(err, "delete", "message_not_found")
}

// React implements channel.Reacter. If the reaction is already in that state, that is not an error.
func (p *plugin) React(ctx context.Context, r channel.Reaction) error {
	where, _ := split(r.Conversation.ID)
	item, name := slack.NewRefToMessage(where, tsOf(r.MessageID)), reactionName(r.Reaction)
	if r.Remove {
		return unless(p.web.client.RemoveReactionContext(ctx, name, item), "take back the reaction", "no_reaction")
	}
	return unless(p.web.client.AddReactionContext(ctx, name, item), "react", "already_reacted")
}

// unless drops the error that means that there is nothing to do.
func unless(err error, doing, code string) error {
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); err == nil || ok && refused.Err == code {
		return nil
	}
	return final(doing, err)
}

// Typing implements channel.Typer. Slack shows a bot's activity only in a thread.
func (p *plugin) Typing(ctx context.Context, t channel.Typing) error {
	where, thread := split(t.Conversation.ID)
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if thread == "" || silent {
		return nil
	}
	status := ""
	if t.On {
		status = "is typing..."
	}
	err := p.web.client.SetAssistantThreadsStatusContext(ctx, slack.AssistantThreadsSetStatusParameters{
		ChannelID: where, ThreadTS: thread, Status: status,
	})
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok && authErrors[refused.Err] {
		p.log.Info("the workspace does not let Flynn show that it is typing", "error", err)
		p.mu.Lock()
		p.silent = true
		p.mu.Unlock()
		return nil
	}
	if err != nil {
		err = clean("show the status", err)
	}
	return err
}

// Resolve implements channel.Resolver: "#general", the id of a conversation, or that of a person.
func (p *plugin) Resolve(ctx context.Context, query string) ([]channel.Target, error) {
	query = strings.TrimSpace(query)
	id := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(query, "<"), "@"), ">")
	switch {
	case slackID(id, "UW"):
		return p.private(ctx, id)
	case slackID(id, "CGD"):
		return p.named(ctx, id)
	}
	return p.search(ctx, strings.ToLower(strings.TrimPrefix(query, "#")))
}

// slackID reports whether s is an id that begins with one of the letters.
func slackID(s, first string) bool {
	return len(s) >= 2 && len(s) <= 32 && strings.ContainsRune(first, rune(s[0])) &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && strings.ContainsAny(s, "0123456789")
}

func (p *plugin) private(ctx context.Context, user string) ([]channel.Target, error) {
	c, _, _, err := p.web.client.OpenConversationContext(ctx, &slack.OpenConversationParameters{Users: []string{user}, ReturnIM: true})
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok && refused.Err == "user_not_found" {
		return nil, nil
	}
	if err != nil {
		return nil, clean("open the conversation", err)
	}
	return []channel.Target{{Conversation: channel.Conversation{ID: c.ID, Kind: channel.DM}, Title: "@" + cmp.Or(p.people.name(ctx, user), user)}}, nil
}

func (p *plugin) named(ctx context.Context, id string) ([]channel.Target, error) {
	c, err := p.web.client.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: id})
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok && refused.Err == "channel_not_found" {
		return nil, nil
	}
	if err != nil {
		return nil, clean("look the conversation up", err)
	}
	return []channel.Target{target(*c)}, nil
}

func target(c slack.Channel) channel.Target {
	if c.IsIM {
		return channel.Target{Conversation: channel.Conversation{ID: c.ID, Kind: channel.DM}, Title: "@" + c.User}
	}
	return channel.Target{Conversation: channel.Conversation{ID: c.ID, Kind: channel.Group}, Title: "#" + c.Name}
}

const listPages = 10 // of 200 channels

// search lists channels whose name equals or begins with a word; an exact match comes first.
func (p *plugin) search(ctx context.Context, name string) ([]channel.Target, error) {
	var out []channel.Target
	if name == "" {
		return nil, nil
	}
	for cursor, n := "", 0; n < listPages; n++ {
		list, next, err := p.web.client.GetConversationsContext(ctx, &slack.GetConversationsParameters{
			Cursor: cursor, ExcludeArchived: true, Limit: 200, Types: []string{"public_channel", "private_channel"},
		})
		if err != nil {
			return nil, fmt.Errorf("list channels: %w", err)
		}
		for _, c := range list {
			switch {
			case c.Name == name:
				out = append([]channel.Target{target(c)}, out...)
			case strings.HasPrefix(c.Name, name):
				out = append(out, target(c))
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	return out, nil
}
