package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/tool/search"
)

// Account names the payers of a model call: the sender, the agent, and with them the host.
type Account struct {
	Session message.SessionKey
	Turn    string // "" outside a turn
	Step    int    // number of the step that records the answer
	Sender  message.SenderKey
	Agent   string
	Task    string // a task of the host, such as "compaction"; "" for an agent's answer
}

// Metered calls a model of a tier. Every model call of the host goes through it: before each attempt the most that it can cost is
// reserved in the daily budgets of the account. Every attempt yields a row, even a failed one that cost nothing; the caller commits the
// rows together with the result of the call (turnlog.Commit.Usage, or AddUsage outside a turn).
func (r *Runner) Metered(ctx context.Context, gen *Generation, account Account, tier string, req model.Request, emit func(model.Delta)) (
	model.Response, []usage.Row, error) {
	m := &meter{runner: r, gen: gen, account: account}
	defer m.settle(budget.Amount{}) // of an attempt that panicked
	req.Gate, req.Source = m, string(m.account.Sender)
	resp, err := gen.Models.Stream(ctx, tier, req, emit)
	return resp, m.rows, err
}

// Paid accounts for an attempt that its caller makes by itself: it reserves the most that the attempt may cost, and records what it did cost. An
// error of plain words says that a budget refuses it.
func (r *Runner) Paid(ctx context.Context, account Account, a model.Attempt, call func() (model.Usage, error)) error {
	gen, policies := r.cfg.Generations.InForce()
	policies.Release()
	m := &meter{runner: r, gen: gen, account: account}
	if err := m.pay(ctx, a, call); err != nil {
		return err
	}
	return r.cfg.Store.AddUsage(context.WithoutCancel(ctx), m.rows)
}

// pay is Runner.Paid up to the recording.
func (m *meter) pay(ctx context.Context, a model.Attempt, call func() (model.Usage, error)) error {
	if err := m.Enter(ctx, a); err != nil {
		return err
	}
	defer m.settle(budget.Amount{}) // of a call that panicked
	u, err := call()
	m.Leave(a, u, err)
	return nil
}

// pay implements search.Pay: what a tool pays for belongs to its turn.
func (m taskModels) pay(ctx context.Context, a model.Attempt, call func() (model.Usage, error)) error {
	meter := &meter{runner: m.runner, gen: m.gen, account: m.account}
	meter.account.Task = config.WebSearch
	err := meter.pay(ctx, a, call)
	m.paid(meter.rows)
	return err
}

// meter is the gate of one call. Its attempts are sequential.
type meter struct {
	runner  *Runner
	gen     *Generation
	account Account
	room    *budget.Reservation // of the current attempt
	rows    []usage.Row
}

var _ model.Gate = (*meter)(nil)

// Enter implements model.Gate.
func (m *meter) Enter(ctx context.Context, a model.Attempt) error {
	if err := m.runner.cfg.Ownership.Begin(ctx); err != nil {
		return fmt.Errorf("call a model: %w", err)
	}
	if m.runner.cfg.Budgets == nil {
		return nil
	}
	room, err := m.runner.cfg.Budgets.Reserve(ctx, m.claim(a.Worst))
	var full *budget.Exceeded
	switch {
	case errors.As(err, &full):
		m.runner.cfg.Log.Warn("budget refused a model call", "turn", m.account.Turn, "agent", m.account.Agent, "task", m.account.Task, "error", err)
		m.runner.cfg.Events.Publish(BudgetExceeded{full.Level})
		return plainError(inWords(full))
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("reserve room for a call: %w", err)
	}
	m.room = room
	return err
}

func (m *meter) claim(worst model.Usage) budget.Claim {
	limits := m.gen.Budgets
	if agent, ok := m.gen.Agents[m.account.Agent]; ok {
		limits.Agent = agent.Budget
	}
	return budget.Claim{Sender: string(m.account.Sender), Agent: m.account.Agent, Limits: limits, Worst: amount(worst)}
}

// charge accounts for usage that has already happened, so that an exhausted budget is seen as such.
func (m *meter) charge(ctx context.Context) {
	if m.runner.cfg.Budgets == nil {
		return
	}
	room, err := m.runner.cfg.Budgets.Reserve(ctx, m.claim(model.Usage{}))
	if err == nil {
		m.room = room
	}
}

// Leave implements model.Gate.
func (m *meter) Leave(a model.Attempt, u model.Usage, err error) {
	day := a.Start.Format(time.DateOnly)
	if m.room != nil {
		day = m.room.Day()
	}
	m.settle(amount(u))
	row := usage.Row{
		At: a.Start.UTC(), Day: day, Turn: m.account.Turn, Step: m.account.Step, Session: m.account.Session, Sender: m.account.Sender,
		Agent: m.account.Agent, Task: m.account.Task, Tier: a.Tier, Provider: a.Provider, Model: a.Model, Attempt: a.Number,
		Input: int64(max(u.Input, 0)), Output: int64(max(u.Output, 0)), CacheRead: int64(max(u.CacheRead, 0)), CacheWrite: int64(max(u.CacheWrite, 0)),
		Cost: billionths(u.CostUSD), Estimated: u.Estimated,
	}
	if err != nil {
		row.Failure = failure(err)
	}
	m.rows = append(m.rows, row)
}

func (m *meter) settle(real budget.Amount) {
	if m.room != nil {
		m.room.Settle(real)
		m.room = nil
	}
}

// failure returns the class of an attempt's error.
func failure(err error) string {
	var e *model.Error
	var s *search.Error
	switch {
	case errors.As(err, &e):
		return string(e.Kind)
	case errors.As(err, &s):
		return string(s.Kind)
	}
	return "cancelled"
}

func amount(u model.Usage) budget.Amount {
	return budget.Amount{
		Tokens: int64(max(u.Input, 0)) + int64(max(u.Output, 0)) + int64(max(u.CacheRead, 0)) + int64(max(u.CacheWrite, 0)),
		Cost:   billionths(u.CostUSD),
	}
}

// billionths converts dollars to billionths, rounded up, without overflow.
func billionths(usd float64) int64 {
	const most = 9e9
	if !(usd > 0) {
		return 0
	}
	return int64(math.Ceil(min(usd, most) * 1e9 * (1 - 1e-12))) // ignore the rounding error of the float
}

// Dollars converts dollars to the unit of budgets.
func Dollars(usd float64) int64 { return billionths(usd) }

// inWords tells people which budget is exhausted and when it is renewed, without revealing the usage of others.
func inWords(e *budget.Exceeded) string {
	whose := "the daily budget of this host"
	switch e.Level {
	case budget.Sender:
		whose = fmt.Sprintf("your daily budget of %d tokens", e.Limit.Tokens)
		if e.Unit == budget.Dollars {
			whose = fmt.Sprintf("your daily budget of %s US dollars", strconv.FormatFloat(float64(e.Limit.Cost)/1e9, 'f', -1, 64))
		}
	case budget.Agent:
		whose = "the daily budget of the agent " + e.Name
	}
	if e.Never() {
		return whose + " is smaller than what one answer may cost here, so it will not help to wait. In a long conversation /new makes answers cheaper; " +
			"otherwise raise the budget, or lower max_output_tokens of the model"
	}
	return fmt.Sprintf("%s has no room for another answer. It is renewed on %s", whose, e.Opens.Format("2 January at 15:04 MST"))
}
