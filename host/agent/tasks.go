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
	mu sync.Mutex
	tally
}

// tally is what tasks have come to.
type tally struct {
	list []task.Use
	rows []store.Usage      // of list
	kept []store.KeptResult // whole results
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

func (u *uses) charge(rows []store.Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rows = append(u.rows, rows...)
}

// take returns what has come together and begins anew.
func (u *uses) take() tally {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.tally
	u.tally = tally{}
	return all
}

// desk is for what the host asks models on somebody's account. It pays for it as for any call, and u is told.
func (r *Runner) desk(gen *Generation, account Account, u *uses) task.Desk {
	call := func(ctx context.Context, name task.Name, tier string, req model.Request) (model.Response, error) {
		on := account
		on.Task = string(name)
		resp, rows, err := r.Metered(ctx, gen, on, tier, req, func(model.Delta) {})
		u.charge(rows)
		return resp, err
	}
	return task.Desk{Call: call, Tiers: gen.Tasks.Tiers, Session: account.Session, Used: u.add}
}

// tasks is the desk for what the host asks a model in this turn.
func (t *turn) tasks() task.Desk {
	return t.desk(t.gen, Account{Session: t.row.Session, Turn: t.row.ID, Sender: t.row.Sender, Agent: t.row.Agent}, &t.uses)
}

// recordUses makes steps of the tasks that ran since the last commit. The session has used what they took; the turn's own limit
// is about its agent's calls.
func (t *turn) recordUses() {
	done := t.uses.take()
	for i := range done.rows {
		done.rows[i].Step = t.steps.next
	}
	for _, u := range done.list {
		t.used.add(u.Usage)
		t.step(store.StepTask, u)
	}
	t.pending.Usage = append(t.pending.Usage, done.rows...)
	t.pending.Results = append(t.pending.Results, done.kept...)
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

// pay commits the usage of calls that no turn brings.
func (r *Runner) pay(ctx context.Context, rows []store.Usage) {
	if len(rows) == 0 {
		return
	}
	if err := r.cfg.Store.AddUsage(context.WithoutCancel(ctx), rows); err != nil {
		r.cfg.Log.Error("usage of the host's own could not be kept", "rows", len(rows), "error", err)
	}
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
