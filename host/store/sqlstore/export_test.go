package sqlstore

import (
	"context"

	"github.com/flynnhost/flynn/host/policy/journal"
)

// GroupMax is groupMax.
const GroupMax = groupMax

// Enqueue adds a write, and returns a function that waits for it.
func (s *Store) Enqueue(do func(Session) error) (wait func(context.Context) error, err error) {
	o := &op{do: func(w *writer) error { return do(w.session) }}
	return o.wait, s.writer.enqueue(o)
}

// Group commits writes as one group.
func (s *Store) Group(ops []func(Session) error) (waits []func(context.Context) error) {
	s.writer.waiting.Lock()
	for _, do := range ops {
		o := &op{done: make(chan error, 1), do: func(w *writer) error { return do(w.session) }}
		s.writer.ops, waits = append(s.writer.ops, o), append(waits, o.wait)
	}
	s.writer.waiting.Unlock()
	s.writer.wakeUp()
	return waits
}

// Waits reports whether a write is pending.
func (s *Store) Waits() bool { return s.writer.waits() }

// Over calls f when the present transaction has ended. It is called within a write.
func (s *Store) Over(f func()) { s.writer.over = append(s.writer.over, f) }

// DecisionQuery returns the query of EachDecision.
func DecisionQuery(f journal.DecisionFilter) (string, []any) {
	where, args := decisionsWhere(f)
	return decisionColumns(f, false) + where + " AND (d.at, d.id) > (?, ?) ORDER BY d.at, d.id LIMIT ?", append(args, 0, 0, 10)
}
