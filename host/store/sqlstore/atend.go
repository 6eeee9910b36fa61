package sqlstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// atEnd is what a transaction writes last, together for all of its writes: logs that the transaction itself does not read, what it has
// changed, once for each thing however often it was written, and the texts that can be searched. In Postgres triggers write the last two:
// deferred ones number changes in the order of the commits.
type atEnd struct {
	decisions []journal.Decision
	usage     []usage.Row
	changed   []store.Change
	said      []saidText
}

// A saidText is a row of the table said.
type saidText struct {
	turn           string
	seq            int
	who, key, text string
	at             time.Time
}

// touch records a change with the transaction. Triggers record those of tables that are seldom written.
func (w *writer) touch(kind store.ChangeKind, id string, of message.SenderKey) {
	if w.session.Dialect() == Postgres {
		return
	}
	w.end.changed = append(w.end.changed, store.Change{Kind: kind, ID: id, Of: of, At: time.Now()})
}

func (w *writer) touchConversation(k message.ConversationKey, of message.SenderKey) {
	w.touch(store.Conversations, k.Channel()+"/"+k.ID(), of)
}

// touchMessage records that the conversation of an inbox row has changed.
func (w *writer) touchMessage(row int64) error {
	if w.session.Dialect() == Postgres {
		return nil
	}
	var body []byte
	if err := w.row("SELECT message FROM inbox WHERE id = ?", []any{row}, &body); err != nil {
		return err
	}
	var m message.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("inbox row %d: %w", row, err)
	}
	w.touchConversation(m.ConversationKey(), m.SenderKey())
	return nil
}

// say records what new steps say.
func (w *writer) say(texts []saidText) {
	if w.session.Dialect() == Postgres {
		return
	}
	w.end.said = append(w.end.said, texts...)
}

// writeEnd writes what the transaction has recorded: of several changes of a thing the last.
func (w *writer) writeEnd() error {
	if err := w.putDecisions(w.end.decisions); err != nil {
		return err
	}
	if err := w.putUsage(w.end.usage); err != nil {
		return err
	}
	if err := w.putChanges(w.end.changed); err != nil {
		return err
	}
	return w.putSaid(w.end.said)
}

func (w *writer) putSaid(texts []saidText) error {
	if len(texts) == 0 {
		return nil
	}
	err := insertRows(w.exec, "INSERT OR FAIL INTO said (turn, seq, who, key, at, text) VALUES %s", "(?, ?, ?, ?, ?, ?)", texts, func(s saidText) []any {
		return []any{s.turn, s.seq, s.who, s.key, nanos(s.at), s.text}
	})
	if err != nil {
		return err
	}
	if w.unindexed += len(texts); w.unindexed < IndexTogether {
		return nil
	}
	return w.indexSaid()
}

// putChanges records the latest change of each thing, with a new number.
func (w *writer) putChanges(list []store.Change) error {
	type thing struct {
		kind store.ChangeKind
		id   string
	}
	seen, last := map[thing]bool{}, make([]store.Change, 0, len(list))
	for _, c := range slices.Backward(list) {
		if t := (thing{c.Kind, c.ID}); !seen[t] {
			seen[t], last = true, append(last, c)
		}
	}
	slices.Reverse(last)
	return insertRows(w.exec, "INSERT OR REPLACE INTO changes (kind, id, of, at) VALUES %s", "(?, ?, ?, ?)", last, func(c store.Change) []any {
		return []any{c.Kind, c.ID, c.Of, nanos(c.At)}
	})
}

// IndexTogether is the number of texts that are indexed at once. Each transaction that writes the index flushes it.
const IndexTogether = 256

// indexSaid adds the texts to the index that are not in it. A table of FTS5 records in one that ends with _docsize which texts it has.
func (w *writer) indexSaid() error {
	w.unindexed = 0
	return w.exec("INSERT INTO said_text (rowid, text) SELECT id, text FROM said WHERE id > (SELECT coalesce(max(id), 0) FROM said_text_docsize) ORDER BY id")
}

// saidIn returns the texts of new steps, for the search of conversations. A delegated turn says nothing there.
func saidIn(t turnlog.Turn, steps []turnlog.Step) ([]saidText, error) {
	if t.Parent != "" {
		return nil, nil
	}
	var texts []saidText
	add := func(s turnlog.Step, who, key, text string) {
		if text != "" {
			texts = append(texts, saidText{t.ID, s.Seq, who, key, text, s.At})
		}
	}
	for _, s := range steps {
		if s.Kind != turnlog.StepUser && s.Kind != turnlog.StepModel {
			continue
		}
		var step struct {
			Said []struct {
				Event string `json:"event"`
				Text  string `json:"text"`
			} `json:"said"`
			Message struct {
				Text string `json:"text"`
			} `json:"message"`
		}
		if err := json.Unmarshal(s.Data, &step); errors.As(err, new(*json.UnmarshalTypeError)) {
			continue // it holds no text
		} else if err != nil {
			return nil, fmt.Errorf("step %d: %w", s.Seq, err)
		}
		if s.Kind == turnlog.StepModel {
			add(s, "agent", t.ID+"/0", step.Message.Text)
			continue
		}
		for _, m := range step.Said {
			add(s, "user", m.Event, m.Text)
		}
	}
	return texts, nil
}
