package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Source is a store that sessions are read from.
type Source interface {
	Session(ctx context.Context, key message.SessionKey) (turnlog.Session, error)
	SessionTurns(ctx context.Context, key message.SessionKey) ([]turnlog.Turn, error)
	Steps(ctx context.Context, turn string) ([]turnlog.Step, error)
	LatestSummary(ctx context.Context, session message.SessionKey) (turnlog.Summary, error)
}

// Export writes a session. It returns store.ErrNotFound if there is none.
func Export(ctx context.Context, from Source, key message.SessionKey, now time.Time, w io.Writer) error {
	s, err := from.Session(ctx, key)
	if err != nil {
		return Missing(key, err)
	}
	sum, err := from.LatestSummary(ctx, key) // before the turns, so that the turns include those that it stands for
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("export session %s: %w", key, err)
	}
	turns, err := from.SessionTurns(ctx, key)
	if err != nil {
		return fmt.Errorf("export session %s: %w", key, err)
	}
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{Version: Version, Key: s.Key, Agent: s.Agent, Exported: now.UTC()}); err != nil {
		return fmt.Errorf("export session %s: %w", key, err)
	}
	var end endLine
	for _, t := range turns {
		steps, err := from.Steps(ctx, t.ID)
		if err == nil && t.State != turnlog.TurnRunning {
			err = writeTurn(enc, t, steps)
			end.Turns, end.Steps = end.Turns+1, end.Steps+len(steps)
		}
		if err != nil {
			return fmt.Errorf("export session %s: %w", key, err)
		}
	}
	if err := writeSummary(enc, sum); err != nil {
		return fmt.Errorf("export session %s: %w", key, err)
	}
	if err := enc.Encode(line{End: &end}); err != nil {
		return fmt.Errorf("export session %s: %w", key, err)
	}
	return buffered.Flush()
}

func writeSummary(enc *json.Encoder, s turnlog.Summary) error {
	if s.Text == "" {
		return nil
	}
	return enc.Encode(line{Summary: &summaryLine{s.ID, s.Through, s.Turns, s.Text, s.Labels, s.At}})
}

func writeTurn(enc *json.Encoder, t turnlog.Turn, steps []turnlog.Step) error {
	err := enc.Encode(line{Turn: &turnLine{
		ID: t.ID, Channel: t.Channel, Conversation: t.Conversation, Sender: t.Sender, State: t.State, Error: t.Error,
		Started: t.Started, Ended: t.Ended,
	}})
	for _, s := range steps {
		if err == nil {
			err = enc.Encode(line{Step: &stepLine{Kind: s.Kind, At: s.At, Data: s.Data}})
		}
	}
	return err
}
