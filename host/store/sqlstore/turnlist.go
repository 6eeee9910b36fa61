package sqlstore

import (
	"context"
	"math"
	"strings"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
)

// listedText bounds the text of a message in a list, in characters.
const listedText = 200

// LatestTurns implements turnlog.Lists.
func (s *Store) LatestTurns(ctx context.Context, f turnlog.TurnFilter, before string) ([]turnlog.Begun, error) {
	return list(ctx, s.read, scanBegun, "SELECT "+turnColumns+`, coalesce((SELECT substr(json_extract(CAST(i.message AS TEXT), '$.text'), 1, ?1)
			FROM inbox i WHERE i.id = CAST(json_extract(CAST(turns.inbox AS TEXT), '$[0]') AS BIGINT)), '')
		FROM turns WHERE (?2 = '' OR id < ?2) AND (?3 = '' OR sender = ?3) AND (?4 = '' OR agent = ?4) AND (?5 = '' OR channel = ?5)
			AND (?6 = '' OR state = ?6) AND started >= ?7
		ORDER BY id DESC LIMIT ?8`, listedText, before, f.Person, f.Agent, f.Channel, f.State, nanos(f.Since), f.Limit)
}

func scanBegun(scan func(...any) error) (turnlog.Begun, error) {
	var b turnlog.Begun
	var err error
	b.Turn, err = scanTurn(func(dest ...any) error { return scan(append(dest, &b.Text)...) })
	return b, err
}

// LatestUnanswered implements turnlog.Lists.
func (s *Store) LatestUnanswered(ctx context.Context, f turnlog.TurnFilter, before int64) ([]mailbox.InboxRow, error) {
	if f.Agent != "" {
		return nil, nil
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	_, id, _ := f.Person.Cut()
	channel := f.Channel
	if f.Person != "" {
		channel = f.Person.Channel()
		if f.Channel != "" && f.Channel != channel {
			return nil, nil
		}
	}
	rows, err := list(ctx, s.read, scanInbox, "SELECT "+inboxColumns+` FROM inbox WHERE id < ?1 AND state IN ('dropped', 'stale') AND (?2 = '' OR state = ?2)
			AND (?3 = '' OR channel = ?3) AND (?4 = '' OR json_extract(CAST(message AS TEXT), '$.sender.id') = ?4)
			AND (CAST(?5 AS BIGINT) = 0 OR unixepoch(json_extract(CAST(message AS TEXT), '$.received_at')) * 1000000000 >= ?5)
		ORDER BY id DESC LIMIT ?6`, before, f.State, channel, id, nanos(f.Since), f.Limit)
	for i := range rows {
		if text := []rune(rows[i].Message.Text); len(text) > listedText {
			rows[i].Message.Text = strings.Clone(string(text[:listedText]))
		}
	}
	return rows, err
}
