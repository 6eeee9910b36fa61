package agent

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Bounds of recalled memory.
const (
	maxRecalled   = 5
	recalledBytes = 500 // bytes of one note
	recallWords   = 32  // words of the messages to search for
	shortestWord  = 3   // runes
)

// recall finds the agent's notes about the speaker that match the speaker's words. They stay in the transcript, so they are shown only
// in private conversations, and their labels are added to the session.
func (t *turn) recall(ctx context.Context, rows []mailbox.InboxRow) []transcript.Recalled {
	if !t.gen.Tasks.Recall || !t.private() {
		return nil
	}
	words := searchWords(rows)
	if words == "" {
		return nil
	}
	notes, err := t.cfg.Store.SearchNotes(ctx, memory.NoteQuery{
		Agent: t.row.Agent, Persons: memory.Scopes(t.gen.persons(t.row.Sender)), Words: words, Any: true, Limit: 4 * maxRecalled,
	})
	if err != nil {
		t.cfg.Log.Warn("cannot recall memories", "turn", t.row.ID, "error", err)
		return nil
	}
	var out []transcript.Recalled
	for _, n := range notes {
		text, _ := clip(n.Text, recalledBytes)
		r := transcript.Recalled{Key: n.Key, Text: text, At: n.Updated}
		if len(out) == maxRecalled || t.session.shows(r.Line()) {
			continue
		}
		out = append(out, r)
		t.session.label(n.Labels)
	}
	return out
}

// searchWords returns the words of the messages that are useful for a search.
func searchWords(rows []mailbox.InboxRow) string {
	var words []string
	for _, r := range rows {
		for _, w := range strings.FieldsFunc(r.Message.Text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) }) {
			w = strings.ToLower(w)
			if utf8.RuneCountInString(w) >= shortestWord && len(words) < recallWords && !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	return strings.Join(words, " ")
}

// clip cuts text at a rune boundary and reports whether it was cut.
func clip(s string, max int) (string, bool) {
	if len(s) <= max {
		return s, false
	}
	return cut.Head(s, max) + "…", true
}

// shows reports whether the model sees a line of memory already.
func (s *session) shows(line string) bool {
	return slices.ContainsFunc(s.turns, func(t endedTurn) bool { return len(t.messages) > 0 && strings.Contains(t.messages[0].Text, line) })
}
