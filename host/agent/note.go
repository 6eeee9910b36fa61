package agent

import (
	"fmt"
	"sync"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// notes are what was done to earlier messages (edits, deletions, reactions) and told to no turn yet, by place. The store has
// them all; this is so that a turn need not ask it.
type notes struct {
	scopes Generations

	mu sync.Mutex
	by map[string]*noted
}

// noted is what waits for the next turn of a place.
type noted struct {
	ids  []int64
	rows []mailbox.InboxRow // the last maxNotes, texts cut
}

// maxNotes bounds what one turn is told; of more, the latest are.
const maxNotes = 20

// Note keeps a row in state Noted for the next turn of its place.
func (s *notes) Note(row mailbox.InboxRow) {
	row.Message.Text = quotable(row.Message.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.scopes.Scope(row.Message)
	n := s.by[key]
	if n == nil {
		n = &noted{}
		s.by[key] = n
	}
	n.ids = append(n.ids, row.ID)
	n.rows = append(n.rows, row)
	n.trim()
}

// quotable keeps what a line can show of a text.
func quotable(text string) string {
	n := 0
	for i := range text {
		if n++; n > transcript.MaxQuote+1 {
			return text[:i]
		}
	}
	return text
}

// Untold takes what waits for the next turn of a place, by the rows that hold it, for the caller that ends those.
func (s *notes) Untold(scope string) []int64 {
	if n := s.take(scope); n != nil {
		return n.ids
	}
	return nil
}

func (s *notes) take(scope string) *noted {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.by[scope]
	delete(s.by, scope)
	return n
}

// Regroup puts what waits for turns where the configuration in force says that it belongs.
func (s *notes) Regroup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string]*noted{}
	for old, n := range s.by {
		key := old
		if len(n.rows) > 0 {
			key = s.scopes.Scope(n.rows[0].Message)
		}
		if by[key] == nil {
			by[key] = &noted{}
		}
		by[key].ids = append(by[key].ids, n.ids...)
		by[key].rows = append(by[key].rows, n.rows...)
		by[key].trim()
	}
	s.by = by
}

// trim keeps the latest.
func (n *noted) trim() {
	if extra := len(n.rows) - maxNotes; extra > 0 {
		n.rows = append(n.rows[:0:0], n.rows[extra:]...)
	}
}

// takeNotes gives the turn what waits for one, and puts it into the next commit.
func (t *turn) takeNotes() []string {
	n := t.notes.take(t.scope.Key)
	if n == nil {
		return nil
	}
	t.pending.Told = n.ids
	var lines []string
	for _, row := range n.rows {
		m := row.Message
		t.session.label(roleLabel(t.gen.Roles.Of(m.Channel, m.SenderKey())))
		lines = append(lines, "["+actLine(m)+"]")
	}
	return lines
}

// told is a message as a model reads it: its words, or a line about what its sender did.
func told(m message.Message) string {
	if m.Act == "" || m.Act == message.Delegated {
		return m.Text
	}
	return "[" + actLine(m) + "]"
}

// actLine describes in the host's words an edit, a deletion or a reaction. Words that people chose are quoted.
func actLine(m message.Message) string {
	by, which := speaker(m.Sender), "an earlier message"
	switch {
	case m.About.Ours:
		which = "your message " + transcript.Quote(m.About.Text)
	case m.About.Text != "":
		which = "the message " + transcript.Quote(m.About.Text)
	}
	switch m.Act {
	case message.Edit:
		return fmt.Sprintf("%s changed %s to %s", by, which, transcript.Quote(m.Text))
	case message.Delete:
		return fmt.Sprintf("%s took back %s", by, which)
	}
	return fmt.Sprintf("%s reacted with %s to %s", by, transcript.Quote(m.Text), which)
}
