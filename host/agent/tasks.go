package agent

import (
	"context"
	"sync"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/usage"
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

// uses are the calls for tasks that no commit has yet. Tasks of one turn may run side by side.
type uses struct {
	mu   sync.Mutex
	list []task.Use
	kept []turnlog.KeptResult // whole results, likewise
	paid []usage.Row
}

func (u *uses) add(use task.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, use)
}

func (u *uses) keep(r turnlog.KeptResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = append(u.kept, r)
}

func (u *uses) pay(rows []usage.Row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.paid = append(u.paid, rows...)
}

func (u *uses) take() ([]task.Use, []turnlog.KeptResult, []usage.Row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	list, kept, paid := u.list, u.kept, u.paid
	u.list, u.kept, u.paid = nil, nil, nil
	return list, kept, paid
}

// hostTasks carries out what the host asks a model in this turn.
func (t *turn) hostTasks() task.Service {
	return task.Service{
		Models: taskModels{t.Runner, t.gen, t.account(), t.uses.pay}, Tiers: t.gen.Tasks.Tiers, Session: t.row.Session, Used: t.uses.add,
	}
}

// taskModels are where the calls of tasks go: like an agent's, they are metered.
type taskModels struct {
	runner  *Runner
	gen     *Generation
	account Account
	paid    func([]usage.Row) // takes what has to be committed
}

// Ask implements task.Models.
func (m taskModels) Ask(ctx context.Context, name task.Name, tier string, req model.Request) (model.Response, error) {
	account := m.account
	account.Task = string(name)
	resp, rows, err := m.runner.Metered(ctx, m.gen, account, tier, req, func(model.Delta) {})
	m.paid(rows)
	return resp, err
}

// tasksFor carries out what the host asks a model outside a turn. What was paid is committed by itself.
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
