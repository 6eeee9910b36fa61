package agent

import (
	"fmt"
	"sync"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// notes are the edits, deletions and reactions that no turn has been told about yet, by conversation scope. They are in the store as
// well; the copy saves each turn a query.
type notes struct {
	scopes Generations

	mu sync.Mutex
	by map[string]*noted
}

// noted are the notes for the next turn of a scope.
type noted struct {
	ids  []int64
	rows []mailbox.InboxRow // the last maxNotes, with texts cut
}

// maxNotes bounds the notes that one turn gets; the latest are kept.
const maxNotes = 20

// Note keeps a row in state Noted for the next turn of its scope.
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

// quotable cuts a text to what a line can show.
func quotable(text string) string {
	n := 0
	for i := range text {
		if n++; n > transcript.MaxQuote+1 {
			return text[:i]
		}
	}
	return text
}

// Untold removes the notes for the next turn of a scope and returns their row ids, for the caller to settle.
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

// Regroup moves all notes to the scopes that the configuration in force assigns to them.
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

// trim keeps the latest notes.
func (n *noted) trim() {
	if extra := len(n.rows) - maxNotes; extra > 0 {
		n.rows = append(n.rows[:0:0], n.rows[extra:]...)
	}
}

// takeNotes gives the turn the pending notes and settles them with the next commit.
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

// told returns a message as the model reads it: its text, or a line about what its sender did.
func told(m message.Message) string {
	if m.Act == "" || m.Act == message.Delegated {
		return m.Text
	}
	return "[" + actLine(m) + "]"
}

// actLine describes an edit, a deletion or a reaction. Text that people chose is quoted.
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
