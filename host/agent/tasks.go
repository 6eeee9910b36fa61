package agent

import (
	"context"
	"sync"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/task"
)

// Tasks is what the configuration says of the host's own uses of models.
type Tasks struct {
	Tiers map[task.Name]task.Tier
	// ThresholdPct of an agent's window may be taken before the turns up to the last KeepTurns give way to a summary of at most
	// SummaryTokens. 0 never compacts.
	ThresholdPct, KeepTurns, SummaryTokens int
	// ResultMax is how many bytes of a result are shown before it is summed up; 0 shows what the runner lets through.
	ResultMax int
	// Classify looks for orders in what comes from the web.
	Classify bool
	// Extract notes what is worth remembering after a turn, of at most MaxNotes for each person; Recall shows it again.
	Extract, Recall bool
	MaxNotes        int
}

// TaskStep is one use of a model by the host itself, in a turn.
type TaskStep = task.Use

// uses are the calls for tasks that no commit has yet. Tasks of one turn may run side by side.
type uses struct {
	mu   sync.Mutex
	list []task.Use
	kept []store.KeptResult // whole results, likewise
}

func (u *uses) add(use task.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, use)
}

func (u *uses) keep(r store.KeptResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = append(u.kept, r)
}

func (u *uses) take() ([]task.Use, []store.KeptResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	list, kept := u.list, u.kept
	u.list, u.kept = nil, nil
	return list, kept
}

// tasks is the desk for what the host asks a model in this turn.
func (t *turn) tasks() task.Desk {
	return task.Desk{Models: t.taskModels(), Tiers: t.gen.Tasks.Tiers, Session: t.row.Session, Used: t.uses.add}
}

// taskModels is where a task's calls go.
func (t *turn) taskModels() task.Models { return t.gen.Models }

// recordUses makes steps of the tasks that ran since the last commit. The session has used what they took; the turn's own limit
// is about its agent's calls.
func (t *turn) recordUses() {
	list, kept := t.uses.take()
	for _, u := range list {
		t.used.add(u.Usage)
		t.step(store.StepTask, u)
	}
	t.pending.Results = append(t.pending.Results, kept...)
}

// think answers a question of the tool think.hard.
func (t *turn) think(ctx context.Context, question string) (string, error) {
	answer, err := t.tasks().Think(ctx, question)
	if err != nil && ctx.Err() == nil {
		t.cfg.Log.Warn("a hard question has no answer", "turn", t.row.ID, "error", err)
		return "", plainError("no answer: " + forPeople(err))
	}
	return answer, err
}

// sum is what uses of a model have cost together.
func sum(list []task.Use) model.Usage {
	var all model.Usage
	for _, u := range list {
		all.Input += u.Usage.Input
		all.Output += u.Usage.Output
		all.CacheRead += u.Usage.CacheRead
		all.CacheWrite += u.Usage.CacheWrite
		all.CostUSD += u.Usage.CostUSD
	}
	return all
}
