package agent

import (
	"context"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/tool"
)

// Memories about a person are extracted after a turn is answered. The commit that carries the answer puts the turn on the list, and the
// commit that carries the notes takes it off. A crash costs a second look at the turn, and no answer waits for the extraction.

const (
	extractBatch    = 16
	extractAttempts = 3
	extractPause    = time.Minute // before a retry
)

// extracts reports whether memories are to be extracted from this turn.
func (t *turn) extracts() bool {
	return t.gen.Tasks.Extract && !t.silent && t.origin.Act == "" && len(t.state.User.Said) > 0
}

func (r *Runner) wakeExtraction() {
	select {
	case r.ended <- struct{}{}:
	default: // a look is pending already
	}
}

// Remember works through the list until ctx ends.
func (r *Runner) Remember(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended:
		case <-timer.C:
		}
		if r.rememberAll(ctx) {
			timer.Reset(extractPause)
		}
	}
}

// rememberAll looks once at each turn on the list, and reports whether some are left.
func (r *Runner) rememberAll(ctx context.Context) (left bool) {
	tried := map[string]bool{}
	for ctx.Err() == nil {
		waiting, err := r.cfg.Store.PendingExtractions(ctx, extractBatch+len(tried))
		if err != nil {
			if ctx.Err() == nil {
				r.cfg.Log.Error("list turns to extract memories from", "error", err)
			}
			return true
		}
		fresh := 0
		for _, e := range waiting {
			if tried[e.Turn.ID] {
				continue
			}
			tried[e.Turn.ID] = true
			fresh++
			r.remember(ctx, e)
		}
		if fresh == 0 {
			return len(waiting) > 0
		}
	}
	return false
}

// remember looks at one turn. After several failures it gives up.
func (r *Runner) remember(ctx context.Context, e memory.Extraction) {
	gen, policies := r.cfg.Generations.InForce()
	policies.Release()
	notes, err := r.extract(ctx, gen, e.Turn)
	log := r.cfg.Log.With("turn", e.Turn.ID)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		err = r.cfg.Store.FinishExtraction(ctx, e.Turn.ID, notes, gen.Tasks.MaxNotes)
		if err == nil && len(notes) > 0 {
			log.Info("notes taken", "agent", e.Turn.Agent, "person", e.Turn.Sender, "notes", len(notes))
		}
	case e.Attempts+1 < extractAttempts:
		log.Warn("cannot extract memories from a turn; trying again later", "error", err)
		err = r.cfg.Store.RetryExtraction(ctx, e.Turn.ID)
	default:
		log.Warn("no memories are extracted from a turn", "attempts", e.Attempts+1, "error", err)
		err = r.cfg.Store.FinishExtraction(ctx, e.Turn.ID, nil, gen.Tasks.MaxNotes)
	}
	if err != nil && ctx.Err() == nil {
		log.Error("keep memories extracted from a turn", "error", err)
	}
}

// extract makes the notes of a turn from what its sender wrote and the answer, with all labels of the session.
func (r *Runner) extract(ctx context.Context, gen *Generation, turn turnlog.Turn) ([]memory.Note, error) {
	if !gen.Tasks.Extract || gen.Agents[turn.Agent] == nil {
		return nil, nil
	}
	steps, err := r.cfg.Store.Steps(ctx, turn.ID)
	if err != nil {
		return nil, err
	}
	state, err := transcript.Read(steps)
	if err != nil {
		return nil, err
	}
	known, err := r.cfg.Store.SearchNotes(ctx, memory.NoteQuery{Agent: turn.Agent, Persons: []string{string(turn.Sender)}, Limit: 100})
	if err != nil {
		return nil, err
	}
	account := Account{Session: turn.Session, Turn: turn.ID, Sender: turn.Sender, Agent: turn.Agent}
	service := r.tasksFor(ctx, gen, account, nil)
	facts, err := service.Facts(ctx, state.User.Words(), state.Text(), extractedKeys(known))
	if err != nil {
		return nil, err
	}
	labels := tool.JoinLabels(state.Labels(), []string{memory.Extracted})
	var notes []memory.Note
	for _, f := range facts {
		notes = append(notes, memory.Note{
			Agent: turn.Agent, Person: string(turn.Sender), Key: f.Key, Text: f.Text, By: string(turn.Sender), Turn: turn.ID, Labels: labels, Updated: r.cfg.Now().UTC(),
		})
	}
	return notes, nil
}

// extractedKeys returns the keys of the notes that an extraction may replace.
func extractedKeys(known []memory.Note) []string {
	var keys []string
	for _, n := range known {
		if slices.Contains(n.Labels, memory.Extracted) {
			keys = append(keys, n.Key)
		}
	}
	return keys
}
