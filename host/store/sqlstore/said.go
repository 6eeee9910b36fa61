package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
)

// Bounds of a search.
const (
	maxWords     = 16
	excerptWords = 24
	maxExcerpt   = 1 << 10 // bytes; a word may have any length
)

// SearchSaid implements turnlog.Talk.
func (s *Store) SearchSaid(ctx context.Context, w turnlog.Words) ([]turnlog.Hit, error) {
	words := wordsOf(w.Text)
	if len(words) == 0 {
		return nil, errors.New("search: no words given")
	}
	if len(words) > maxWords {
		return nil, fmt.Errorf("search: more than %d words given", maxWords)
	}
	// Hits stand between marks that no text can have, because they are made for this search.
	mark := rand.Text()
	var hits []turnlog.Hit
	var err error
	switch s.read.Dialect() {
	case SQLite:
		err = s.writer.write(ctx, (*writer).indexSaid)
		if err != nil && !errors.Is(err, store.ErrFenced) {
			break
		}
		hits, err = list(ctx, s.read, func(scan func(...any) error) (turnlog.Hit, error) { return scanHit(scan, mark) },
			foundColumns+`snippet(said_text, 0, ?1, ?1, '...', ?2) FROM said_text JOIN said ON said.id = said_text.rowid JOIN turns ON turns.id = said.turn
			WHERE said_text MATCH ?3 AND (CAST(?4 AS BIGINT) = 0 OR said_text.rowid < ?4) AND `+foundBy+` ORDER BY said_text.rowid DESC LIMIT ?6`,
			mark, excerptWords, match(words, false)+"*", w.Below, w.Of, w.Limit)
	case Postgres: // its ts_headline knows no diacritics
		var asked []byte
		if asked, err = jsonform.Marshal(words); err != nil {
			break
		}
		hits, err = list(ctx, s.read, func(scan func(...any) error) (turnlog.Hit, error) {
			return scanHit(func(dest ...any) error {
				err := scan(dest...)
				text := dest[len(dest)-1].(*string)
				*text = excerpt(*text, words, mark)
				return err
			}, mark)
		}, foundColumns+`left(said.text, ?2) FROM said JOIN turns ON turns.id = said.turn
			WHERE said.words @@ search_query(?3, FALSE, TRUE) AND (CAST(?4 AS BIGINT) = 0 OR said.id < ?4) AND `+foundBy+` ORDER BY said.id DESC LIMIT ?6`,
			nil, searchedText, string(asked), w.Below, w.Of, w.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return hits, nil
}

const (
	foundColumns = "SELECT said.id, turns.channel, turns.conversation, turns.id, turns.agent, said.who = 'agent', said.key, said.at, "
	foundBy      = `(?5 = '' OR turns.sender = ?5 AND ` + isPrivate + `
		AND NOT EXISTS (SELECT 1 FROM turns o WHERE o.channel = turns.channel AND o.conversation = turns.conversation AND o.sender <> ?5))`
)

func scanHit(scan func(...any) error, mark string) (turnlog.Hit, error) {
	var h turnlog.Hit
	var at int64
	var excerpt string
	if err := scan(&h.ID, &h.Channel, &h.Conversation, &h.Turn, &h.Agent, &h.ByAgent, &h.Key, &at, &excerpt); err != nil {
		return h, err
	}
	h.At = instant(at)
	left := maxExcerpt
	for i, text := range strings.Split(excerpt, mark) {
		if len(text) > left {
			text = strings.ToValidUTF8(text[:left], "") + "..."
		}
		left -= min(left, len(text))
		if text != "" {
			h.Parts = append(h.Parts, turnlog.Part{Text: text, Hit: i%2 == 1})
		}
		if left == 0 {
			break
		}
	}
	return h, nil
}

// Title implements turnlog.Talk.
func (s *Store) Title(ctx context.Context, channel, conversation string) (turnlog.Title, error) {
	return one(ctx, s.read, scanTitle, "SELECT channel, conversation, title, turn FROM titles WHERE channel = ? AND conversation = ?", channel, conversation)
}

func scanTitle(scan func(...any) error) (t turnlog.Title, err error) {
	err = scan(&t.Channel, &t.Conversation, &t.Text, &t.Turn)
	return t, err
}

const putTitle = `INSERT INTO titles (channel, conversation, title, turn) SELECT ?1, ?2, ?3, ?4
	WHERE EXISTS (SELECT 1 FROM turns WHERE channel = ?1 AND conversation = ?2 AND ?4 IN ('', id)) ON CONFLICT (channel, conversation) DO `

// SetTitle implements turnlog.Talk.
func (s *Store) SetTitle(ctx context.Context, t turnlog.Title) error {
	query := putTitle + "UPDATE SET title = excluded.title, turn = excluded.turn"
	if t.Turn != "" {
		query = putTitle + "NOTHING"
	}
	err := s.writer.write(ctx, func(w *writer) error {
		n, err := w.changed(query, t.Channel, t.Conversation, t.Text, t.Turn)
		if err == nil && n == 0 && t.Turn == "" {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("set the title of %s:%s: %w", t.Channel, t.Conversation, err)
	}
	return nil
}
