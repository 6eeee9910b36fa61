package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/flynnhost/flynn/sdk/channel"
)

// readPress reads the payload of an interactive envelope: a button of ours was pressed.
func (p *plugin) readPress(ctx context.Context, payload json.RawMessage) (happening, bool, error) {
	var b struct {
		Type string
		User struct {
			ID     string
			TeamID string `json:"team_id"`
		}
		Container struct {
			MessageTS string `json:"message_ts"`
			ChannelID string `json:"channel_id"`
			ThreadTS  string `json:"thread_ts"`
		}
		Message struct {
			ThreadTS string `json:"thread_ts"`
		}
		Actions []struct {
			Type, Value string
			ActionID    string `json:"action_id"`
			ActionTS    string `json:"action_ts"`
		}
	}
	if err := json.Unmarshal(payload, &b); err != nil {
		return happening{}, false, err
	}
	if b.Type != "block_actions" || len(b.Actions) == 0 || !strings.HasPrefix(b.Actions[0].ActionID, actionPrefix) {
		return happening{}, false, nil
	}
	press := b.Actions[0]
	m := message{Channel: b.Container.ChannelID, TS: b.Container.MessageTS, ThreadTS: b.Container.ThreadTS, User: b.User.ID, UserTeam: b.User.TeamID}
	if m.ThreadTS == "" {
		m.ThreadTS = b.Message.ThreadTS
	}
	if err := m.check(); err != nil {
		return happening{}, false, err
	}
	if m.User == "" || press.ActionTS == "" {
		return happening{}, false, errors.New("a button press names no person")
	}
	return happening{event: channel.Event{
		ID:   m.Channel + ":" + m.TS + ":button:" + m.User + ":" + press.ActionTS,
		Kind: channel.EventButton, Text: press.Value, TargetID: messageID(m.Channel, m.TS), SentAt: at(press.ActionTS), Addressed: true,
		Sender: p.sender(ctx, m), Conversation: p.conversation(m, false),
	}}, true, nil
}

// readCommand parses the payload of a slash_commands envelope. The text is the command with its arguments.
func (p *plugin) readCommand(ctx context.Context, payload json.RawMessage) (happening, bool, error) {
	var c struct {
		Command, Text string
		ChannelID     string `json:"channel_id"`
		UserID        string `json:"user_id"`
		TeamID        string `json:"team_id"`
		TriggerID     string `json:"trigger_id"` // the same in each redelivery
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return happening{}, false, err
	}
	if c.ChannelID == "" || c.UserID == "" || c.TriggerID == "" || strings.Contains(c.ChannelID, ":") {
		return happening{}, false, errors.New("a command names no channel, person or id")
	}
	m := message{Channel: c.ChannelID, User: c.UserID, UserTeam: c.TeamID}
	d := decoder{name: func(id string) string { return p.people.name(ctx, id) }, me: p.me().user}
	text, _, _ := d.decode(c.Text)
	return happening{event: channel.Event{
		ID: c.ChannelID + ":command:" + c.TriggerID, Kind: channel.EventCommand, Text: strings.TrimSpace(c.Command + " " + text),
		Addressed: true, Sender: p.sender(ctx, m), Conversation: p.conversation(m, false),
	}}, true, nil
}
