package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/usage"
)

// Account names the payers of a model call: the sender, the agent, and with them the host.
type Account struct {
	Session string
	Turn    string // "" outside a turn
	Step    int    // that the answer becomes
	Sender  message.SenderKey
	Agent   string
	Task    string // of the host's own, such as "compaction"; "" for an agent's answer
}

// Metered calls a model of a tier. Every model call of the host goes through it: before each attempt the most that it can cost is
// reserved in the daily budgets of the account. There is a row for each attempt, also for one that failed and cost nothing; the caller
// commits them together with what came of the call (turnlog.Commit.Usage, or AddUsage outside a turn).
func (r *Runner) Metered(ctx context.Context, gen *Generation, account Account, tier string, req model.Request, emit func(model.Delta)) (
	model.Response, []usage.Row, error) {
	m := &meter{runner: r, gen: gen, account: account}
	defer m.settle(budget.Amount{}) // of an attempt that broke down on its way
	req.Gate, req.Source = m, string(m.account.Sender)
	resp, err := gen.Models.Stream(ctx, tier, req, emit)
	return resp, m.rows, err
}

// meter is the gate of one call. Its attempts come one after the other.
type meter struct {
	runner  *Runner
	gen     *Generation
	account Account
	room    *budget.Reservation // of the attempt under way
	rows    []usage.Row
}

var _ model.Gate = (*meter)(nil)

// Enter implements model.Gate.
func (m *meter) Enter(ctx context.Context, a model.Attempt) error {
	if m.runner.cfg.Ledger == nil {
		return nil
	}
	room, err := m.runner.cfg.Ledger.Reserve(ctx, m.claim(a.Worst))
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

// charge opens the accounts for what has been used already. Where a budget is full it stays so without this.
func (m *meter) charge(ctx context.Context) {
	if m.runner.cfg.Ledger == nil {
		return
	}
	room, err := m.runner.cfg.Ledger.Reserve(ctx, m.claim(model.Usage{}))
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

// failure is the class of an attempt's error.
func failure(err error) string {
	var e *model.Error
	if errors.As(err, &e) {
		return string(e.Kind)
	}
	return "cancelled"
}

func amount(u model.Usage) budget.Amount {
	return budget.Amount{
		Tokens: int64(max(u.Input, 0)) + int64(max(u.Output, 0)) + int64(max(u.CacheRead, 0)) + int64(max(u.CacheWrite, 0)),
		Cost:   billionths(u.CostUSD),
	}
}

// billionths turns dollars into billionths, rounded up, without an overflow.
func billionths(usd float64) int64 {
	const most = 9e9
	if !(usd > 0) {
		return 0
	}
	return int64(math.Ceil(min(usd, most) * 1e9 * (1 - 1e-12))) // a float's last digit is no money
}

// Dollars is an amount of dollars for a day's budget.
func Dollars(usd float64) int64 { return billionths(usd) }

// inWords tells people which budget is full and when it opens again. It does not say what others have used.
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
		return whose + " is smaller than what one answer may take here, so that no new day helps. /new makes that less where a conversation is long; " +
			"else the budget has to be raised, or max_output_tokens of the model lowered"
	}
	return fmt.Sprintf("%s has no room for another answer. It opens again on %s", whose, e.Opens.Format("2 January at 15:04 MST"))
}
