package explain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// Listed is a line of the list of turns.
type Listed struct {
	ID           string            `json:"id"` // of the turn; "message/N" of a message that no turn took
	Agent        string            `json:"agent,omitempty"`
	Channel      string            `json:"channel"`
	Conversation string            `json:"conversation"`
	Sender       message.SenderKey `json:"sender"`
	State        string            `json:"state"`
	Error        string            `json:"error,omitempty"` // why it failed, or why the message was not answered
	Text         string            `json:"text,omitempty"`  // the beginning of its first message
	Started      time.Time         `json:"started,omitzero"`
	Ended        time.Time         `json:"ended,omitzero"`
	Parent       string            `json:"parent,omitempty"` // the turn that delegated it
	Background   bool              `json:"background,omitempty"`
}

// ErrCursor is the error of a cursor that no list had.
var ErrCursor = errors.New("the cursor is none that an answer had")

// Lister lists turns.
type Lister struct{ Store turnlog.Lists }

// Turns lists turns and the messages that no turn took, latest first. next is the cursor of what follows, "" at the end. The filter's limit
// bounds the list. The error of a cursor that it did not return is ErrCursor.
func (r Lister) Turns(ctx context.Context, f turnlog.TurnFilter, cursor string) (list []Listed, next string, err error) {
	turn, row, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	turns, err := r.Store.LatestTurns(ctx, f, turn)
	if err != nil {
		return nil, "", fmt.Errorf("list turns: %w", err)
	}
	left, err := r.Store.LatestUnanswered(ctx, f, row)
	if err != nil {
		return nil, "", fmt.Errorf("list messages: %w", err)
	}
	full := len(turns) == f.Limit || len(left) == f.Limit || len(turns)+len(left) > f.Limit
	for len(list) < f.Limit && len(turns)+len(left) > 0 {
		if len(left) == 0 || len(turns) > 0 && !left[0].Message.ReceivedAt.After(turns[0].Started) {
			list, turn, turns = append(list, listedTurn(turns[0])), turns[0].ID, turns[1:]
		} else {
			list, row, left = append(list, listedMessage(left[0])), left[0].ID, left[1:]
		}
	}
	if full {
		next = fmt.Sprintf("%s.%d", turn, row)
	}
	return list, next, nil
}

func parseCursor(cursor string) (turn string, row int64, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	turn, number, ok := strings.Cut(cursor, ".")
	row, err = strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || row < 0 || len(turn) > 64 {
		return "", 0, ErrCursor
	}
	return turn, row, nil
}

func listedTurn(b turnlog.Begun) Listed {
	return Listed{
		ID: b.ID, Agent: b.Agent, Channel: b.Channel, Conversation: b.Conversation.ID, Sender: b.Sender, State: string(b.State), Error: short(b.Error),
		Text: b.Text, Started: b.Started, Ended: b.Ended, Parent: b.Parent, Background: b.Background,
	}
}

func listedMessage(r mailbox.InboxRow) Listed {
	m := r.Message
	return Listed{
		ID: mailbox.MessageID(r.ID), Channel: m.Channel, Conversation: m.Conversation.ID, Sender: m.SenderKey(), State: string(r.State), Error: short(r.Note),
		Text: m.Text, Started: m.ReceivedAt,
	}
}
