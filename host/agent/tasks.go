package agent

import (
	"context"
	"sync"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/usage"
)

// Tasks configures the host's own uses of models.
type Tasks struct {
	Tiers map[task.Name]task.Tier
	// ThresholdPct is the share of an agent's window that may be used before all but the last KeepTurns turns are replaced by a summary
	// of at most SummaryTokens. 0 never compacts.
	ThresholdPct, KeepTurns, SummaryTokens int
	// ResultMax is the longest result, in bytes, that is shown without being summarised; 0 means the runner's bound.
	ResultMax int
	// Classify looks for instructions in what comes from the web.
	Classify bool
	// Extract extracts memories after a turn, at most MaxNotes for each person; Recall shows them in later turns.
	Extract, Recall bool
	MaxNotes        int
}

// taskUsage holds the task calls and results that are not committed yet. Tasks of one turn may run in parallel.
type taskUsage struct {
	mu   sync.Mutex
	list []task.Use
	kept []turnlog.KeptResult // whole results that are not committed yet
	paid []usage.Row
}

func (u *taskUsage) add(use task.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, use)
}

func (u *taskUsage) keep(r turnlog.KeptResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = append(u.kept, r)
}

func (u *taskUsage) pay(rows []usage.Row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.paid = append(u.paid, rows...)
}

func (u *taskUsage) take() ([]task.Use, []turnlog.KeptResult, []usage.Row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	list, kept, paid := u.list, u.kept, u.paid
	u.list, u.kept, u.paid = nil, nil, nil
	return list, kept, paid
}

// hostTasks returns the service for the host's own model calls in this turn.
func (t *turn) hostTasks() task.Service {
	return task.Service{
		Models: t.taskModels(), Tiers: t.gen.Tasks.Tiers, Session: t.row.Session, Used: t.taskUsage.add,
	}
}

func (t *turn) taskModels() taskModels {
	return taskModels{t.Runner, t.gen, t.account(), t.taskUsage.pay}
}

// taskModels makes the model calls of tasks, which are metered like an agent's.
type taskModels struct {
	runner  *Runner
	gen     *Generation
	account Account
	paid    func([]usage.Row) // receives the rows to commit
}

// Ask implements task.Models.
func (m taskModels) Ask(ctx context.Context, name task.Name, tier string, req model.Request) (model.Response, error) {
	account := m.account
	account.Task = string(name)
	resp, rows, err := m.runner.Metered(ctx, m.gen, account, tier, req, func(model.Delta) {})
	m.paid(rows)
	return resp, err
}

// tasksFor returns the service for the host's own model calls outside a turn. It commits their usage by itself.
func (r *Runner) tasksFor(ctx context.Context, gen *Generation, account Account, used func(task.Use)) task.Service {
	paid := func(rows []usage.Row) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
		defer cancel()
		if err := r.cfg.Store.AddUsage(ctx, rows); err != nil {
			r.cfg.Log.Error("cannot record usage", "session", account.Session, "error", err)
		}
	}
	return task.Service{Models: taskModels{r, gen, account, paid}, Tiers: gen.Tasks.Tiers, Session: account.Session, Used: used}
}
