package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// deletedSession is a session about to be deleted, with what was read of it before the write. Nothing runs in it; the writer checks the
// rest again.
type deletedSession struct {
	turnlog.Deletion
	turns   []turnlog.Turn
	ids     string   // their ids, as a JSON array
	said    []int64  // inbox rows
	digests []string // named in their steps
}

// family selects the turns of a session and all turns delegated by them. Sessions of children are found by their parents: their keys
// begin with the session's, but so may unrelated ones.
const family = `WITH RECURSIVE family (id) AS (SELECT id FROM turns WHERE session = ? UNION
	SELECT turns.id FROM turns JOIN family ON turns.parent = family.id WHERE turns.parent <> '') `

// toldIn selects the edits, reactions and the like of a conversation that some turn has seen; which one is not recorded.
const toldIn = `SELECT id FROM inbox WHERE channel = ? AND state = 'done' AND json_extract(CAST(message AS TEXT), '$.conversation.id') = ? AND
	json_type(CAST(message AS TEXT), '$.noted') = 'true'`

// digest matches every digest in a step.
var digest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{64}\b`) })

// toDelete reads what is deleted with a session.
func (s *Store) toDelete(ctx context.Context, d turnlog.Deletion) (deletedSession, error) {
	v := deletedSession{Deletion: d}
	var err error
	if v.turns, err = list(ctx, s.read, scanTurn, family+"SELECT "+turnColumns+" FROM turns WHERE id IN (SELECT id FROM family)", d.Key); err != nil {
		return v, err
	}
	ids, named, scopes := []string{}, map[string]bool{}, map[[2]string]bool{}
	for _, t := range v.turns {
		ids = append(ids, t.ID)
		v.said = append(v.said, t.Inbox...)
		scopes[[2]string{t.Channel, t.Conversation.ID}] = true
		steps, err := s.Steps(ctx, t.ID)
		if err != nil {
			return v, err
		}
		for _, st := range steps {
			for _, found := range digest().FindAll(st.Data, -1) {
				named[string(found)] = true
			}
		}
	}
	for p := range scopes {
		told, err := list(ctx, s.read, scanNumber, toldIn, p[0], p[1])
		if err != nil {
			return v, err
		}
		orders, err := s.ordersIn(ctx, v, p[0], p[1])
		if err != nil {
			return v, err
		}
		v.said = append(append(v.said, told...), orders...)
		for _, id := range orders {
			ids = append(ids, mailbox.CommandTurn(id))
		}
	}
	v.digests = slices.Sorted(maps.Keys(named))
	text, err := jsonform.Marshal(ids)
	v.ids = string(text)
	return v, err
}

// ordersIn returns the messages of a conversation that no turn has answered: commands, and messages without an answer. Their session is
// not recorded. With the last session of the conversation all of them are deleted, before that those between its first and last
// message.
func (s *Store) ordersIn(ctx context.Context, d deletedSession, channel, conversation string) ([]int64, error) {
	answered := map[int64]bool{}
	first, last, others := int64(math.MaxInt64), int64(0), false
	deletedSession := map[string]bool{}
	for _, t := range d.turns {
		deletedSession[t.ID] = true
	}
	turns, err := list(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE channel = ? AND conversation = ?", channel, conversation)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		others = others || !deletedSession[t.ID]
		for _, id := range t.Inbox {
			answered[id] = true
			if deletedSession[t.ID] {
				first, last = min(first, id), max(last, id)
			}
		}
	}
	all, err := list(ctx, s.read, scanNumber, `SELECT id FROM inbox WHERE channel = ? AND state NOT IN ('new', 'noted') AND
		json_extract(CAST(message AS TEXT), '$.conversation.id') = ?`, channel, conversation)
	return slices.DeleteFunc(all, func(id int64) bool { return answered[id] || others && (id < first || id > last) }), err
}

// DeleteSession implements turnlog.Archive.
func (s *Store) DeleteSession(ctx context.Context, d turnlog.Deletion) error {
	v, err := s.toDelete(ctx, d)
	if err == nil {
		err = s.writer.write(ctx, func(w *writer) error { return w.deleteSession(v) })
	}
	if err != nil {
		return fmt.Errorf("delete session %s: %w", d.Key, err)
	}
	return nil
}

// ofTurns deletes what belongs to turns. The argument is the turn ids.
var ofTurns = []string{
	"DELETE FROM steps WHERE turn IN (SELECT value FROM json_each(?))",
	"DELETE FROM extractions WHERE turn IN (SELECT value FROM json_each(?))",
	"DELETE FROM notes WHERE turn <> '' AND turn IN (SELECT value FROM json_each(?))",
	"DELETE FROM approvals WHERE json_extract(CAST(body AS TEXT), '$.Turn') IN (SELECT value FROM json_each(?))",
	`INSERT INTO leftovers (kind, name) SELECT DISTINCT 'replies', turn FROM outbox WHERE state IN ('pending', 'sending') AND
		turn IN (SELECT value FROM json_each(?)) ON CONFLICT DO NOTHING`,
	"DELETE FROM outbox WHERE state NOT IN ('pending', 'sending') AND turn IN (SELECT value FROM json_each(?))",
	"DELETE FROM turns WHERE id IN (SELECT value FROM json_each(?))",
}

func (w *writer) deleteSession(d deletedSession) error {
	// The row first: Postgres then waits for a turn that is about to begin, and what follows sees it.
	n, err := w.changed("DELETE FROM sessions WHERE key = ?", d.Key)
	if err != nil {
		return err
	}
	var running int
	err = w.row(family+"SELECT count(*) FROM turns WHERE id IN (SELECT id FROM family) AND state = 'running'", []any{string(d.Key)}, &running)
	if err != nil {
		return err
	}
	if running > 0 {
		return store.Conflict("a turn of it runs")
	}
	if n == 0 {
		return store.ErrNotFound
	}
	row := consent.AuditRow{
		At: d.At, Kind: consent.AuditDeleted, Subject: string(d.Key), Actor: d.By, Session: d.Key, Agent: d.Key.Parse().Agent, Detail: fmt.Sprintf("turns: %d", len(d.turns)),
	}
	return errors.Join(w.unsay(d.said), w.dropGrants(d), w.dropSessionRows(d), w.dropTurnRows(d), w.leaveBehind(d), w.audit(row))
}

// dropSessionRows deletes the rows with the key of the session or of a session delegated by it.
func (w *writer) dropSessionRows(d deletedSession) error {
	for _, key := range d.keys() {
		for _, query := range []string{"DELETE FROM summaries WHERE session = ?", "DELETE FROM results WHERE session = ?"} {
			if err := w.exec(query, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys returns the keys of the session and of the sessions delegated by it.
func (d deletedSession) keys() []string {
	keys := map[string]bool{string(d.Key): true}
	for _, t := range d.turns {
		keys[string(t.Session)] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

func (w *writer) dropTurnRows(d deletedSession) error {
	for _, query := range ofTurns {
		if err := w.exec(query, d.ids); err != nil {
			return err
		}
	}
	return nil
}

// unsay deletes the text of inbox rows. The rows stay, so that their events are never answered again.
func (w *writer) unsay(ids []int64) error {
	for _, id := range ids {
		row, err := scanInbox(func(dest ...any) error {
			return w.row("SELECT "+inboxColumns+" FROM inbox WHERE id = ?", []any{id}, dest...)
		})
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		m := row.Message
		body, err := jsonform.Marshal(message.Message{
			Channel: m.Channel, EventID: m.EventID, Conversation: m.Conversation, Sender: message.Sender{ID: m.Sender.ID},
			SentAt: m.SentAt, ReceivedAt: m.ReceivedAt,
		})
		if err != nil {
			return err
		}
		if err := w.exec("UPDATE inbox SET message = ? WHERE id = ?", body, id); err != nil {
			return err
		}
		if err := w.exec("DELETE FROM drafts WHERE inbox = ?", id); err != nil {
			return err
		}
	}
	return nil
}

// dropGrants deletes the session's grants, and records the end of each that was still valid.
func (w *writer) dropGrants(d deletedSession) error {
	for _, key := range d.keys() {
		grants, err := rowsOf(w, scanGrant, `SELECT body FROM grants WHERE json_extract(CAST(body AS TEXT), '$.scope') = ? AND
			json_extract(CAST(body AS TEXT), '$.session') = ?`, consent.GrantSession, key)
		if err != nil {
			return err
		}
		for _, g := range grants {
			if err := w.exec("DELETE FROM grants WHERE id = ?", g.ID); err != nil {
				return err
			}
			if !g.Open(d.At) {
				continue
			}
			row := consent.AuditRow{
				At: d.At, Kind: consent.AuditGrantEnded, Subject: g.ID, Actor: d.By, Session: g.Session, Agent: g.Agent, Tool: g.Tool,
				Detail: "its session is deleted",
			}
			if err := w.audit(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveBehind records what the store cannot remove: files and, with the last session of a workspace, its data on the engine.
func (w *writer) leaveBehind(d deletedSession) error {
	left := make([]turnlog.Leftover, 0, len(d.digests)+1)
	for _, name := range d.digests {
		left = append(left, turnlog.Leftover{Kind: turnlog.LeftMedia, Name: name})
	}
	workspace := d.Key.Parse().Workspace()
	others, err := rowsOf(w, scanText[message.SessionKey], "SELECT key FROM sessions WHERE key = ?1 OR key >= ?1 || '#' AND key < ?1 || '$'", workspace)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(others, func(key message.SessionKey) bool { return key.Parse().Workspace() == workspace }) {
		left = append(left, turnlog.Leftover{Kind: turnlog.LeftContainers, Name: string(workspace)})
	}
	for _, l := range left {
		if err := w.exec("INSERT INTO leftovers (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING", l.Kind, l.Name); err != nil {
			return err
		}
	}
	return nil
}

// pruneReplies deletes replies that were unsent when their session was deleted and have been sent since.
func pruneReplies(w *writer) error {
	err := w.exec("DELETE FROM outbox WHERE state NOT IN ('pending', 'sending') AND turn IN (SELECT name FROM leftovers WHERE kind = 'replies')")
	if err != nil {
		return err
	}
	return w.exec("DELETE FROM leftovers WHERE kind = 'replies' AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = name)")
}

// SessionsIn implements turnlog.Archive.
func (s *Store) SessionsIn(ctx context.Context, scope string) ([]turnlog.Session, error) {
	all, err := list(ctx, s.read, scanSession, "SELECT key, agent, turns, last FROM sessions WHERE key >= ?1 || ':' AND key < ?1 || ';' ORDER BY key", scope)
	return slices.DeleteFunc(all, func(v turnlog.Session) bool { return v.Key.Parse().Scope != scope }), err
}

// ListLeftovers implements turnlog.Leftovers.
func (s *Store) ListLeftovers(ctx context.Context, kind turnlog.LeftoverKind) ([]turnlog.Leftover, error) {
	return list(ctx, s.read, func(scan func(...any) error) (l turnlog.Leftover, err error) {
		err = scan(&l.Kind, &l.Name)
		return l, err
	}, "SELECT kind, name FROM leftovers WHERE kind = ? ORDER BY name", kind)
}

// DropLeftover implements turnlog.Leftovers.
func (s *Store) DropLeftover(ctx context.Context, l turnlog.Leftover) error {
	return s.writer.write(ctx, func(w *writer) error {
		return w.exec("DELETE FROM leftovers WHERE kind = ? AND name = ?", l.Kind, l.Name)
	})
}

// NamedInSteps implements turnlog.Leftovers.
func (s *Store) NamedInSteps(ctx context.Context, digest string) (bool, error) {
	return one(ctx, s.read, scanFlag, "SELECT EXISTS (SELECT 1 FROM steps WHERE instr(CAST(data AS TEXT), ?) > 0)", digest)
}

func scanText[T ~string](scan func(...any) error) (text T, err error) {
	err = scan(&text)
	return text, err
}

func scanFlag(scan func(...any) error) (flag bool, err error) {
	err = scan(&flag)
	return flag, err
}

func scanNumber(scan func(...any) error) (n int64, err error) {
	err = scan(&n)
	return n, err
}
