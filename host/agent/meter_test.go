package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/usage"
)

// charging is a provider that counts what it charges.
type charging struct {
	input   int          // tokens of a call; 20
	charged atomic.Int64 // tokens
	answer  func(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error)
}

func (p *charging) Stream(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	if p.answer != nil {
		return p.answer(ctx, req, emit)
	}
	r := say("ok")
	r.Usage = model.Usage{Input: cmp.Or(p.input, 20), Output: req.MaxTokens}
	p.charged.Add(int64(r.Usage.Input + r.Usage.Output))
	return r, nil
}

// pricedSet is a set of models over p: default falls back to fast.
func pricedSet(t *testing.T, p *charging) *model.Set {
	t.Helper()
	set, err := model.NewSet(map[string]config.Model{
		"default": {Provider: "fake", Model: "large", MaxOutputTokens: 100, Fallbacks: []string{"fast"}, Prices: config.Prices{Input: 1, Output: 10}},
		"fast":    {Provider: "fake", Model: "small", MaxOutputTokens: 100},
	}, model.Options{Providers: map[string]model.Constructor{"fake": func(config.Model) (model.Provider, error) { return p, nil }}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (h *house) budgeted(now func() time.Time, limits budget.Limits) {
	h.runner.cfg.Budgets = budget.New(budget.Config{Store: h.store, Zone: time.UTC, Now: now})
	h.gen.Budgets = limits
}

func (h *house) spent(by usage.Key) []usage.Sum {
	h.t.Helper()
	sums, err := h.store.SumUsage(h.t.Context(), by, usage.Filter{})
	if err != nil {
		h.t.Fatal(err)
	}
	return sums
}

// TestBudgetHoldsWhateverRaces lets 256 turns of many senders run into the budget of the host together.
func TestBudgetHoldsWhateverRaces(t *testing.T) {
	const limit = 5000
	h := newHouse(t, openStore(t), nil)
	h.runner.slots = make(chan struct{}, 256)
	p := &charging{input: 12} // not more than a request is taken for: this is about races, not about guesses
	h.gen.Models = pricedSet(t, p)
	now := time.Now() // the day does not end in the middle
	h.budgeted(func() time.Time { return now }, budget.Limits{Host: budget.Amount{Tokens: limit}})
	for i := range 256 {
		h.accept(fmt.Sprint("p", i), "hello")
	}
	items, err := Recover(t.Context(), h.store)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, it := range items {
		wg.Go(func() { h.runner.Work(t.Context(), it.Key(), []Item{it}) })
	}
	wg.Wait()
	answered, refused := 0, 0
	for _, text := range h.texts() {
		switch {
		case text == "ok":
			answered++
		case strings.HasPrefix(text, "I could not answer this: the daily budget of this host has no room for another answer. It is renewed on "):
			refused++
		default:
			t.Errorf("a reply is %q", text)
		}
	}
	charged := p.charged.Load()
	if answered+refused != 256 || refused == 0 || charged > limit || charged < limit-300 {
		t.Errorf("%d answered and %d refused, %d of %d tokens charged", answered, refused, charged, limit)
	}
	if sum := h.spent(usage.All); len(sum) != 1 || sum[0].Tokens() != charged || sum[0].Calls != int64(answered) {
		t.Errorf("the store has %+v, the provider charged %d tokens in %d calls", sum, charged, answered)
	}
}

// TestABudgetThatIsTooSmall is not said to open again tomorrow.
func TestABudgetThatIsTooSmall(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.gen.Models = pricedSet(t, &charging{})
	h.budgeted(nil, budget.Limits{Sender: budget.Amount{Tokens: 101}})
	h.accept("ann", strings.Repeat("a long question ", 50))
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], "it will not help to wait. In a long conversation /new makes") || strings.Contains(got[0], "is renewed") {
		t.Errorf("replies are %q", got)
	}
}

// TestBudgetIsRemembered wants another process to know what the first has spent, and the next day to forget it.
func TestBudgetIsRemembered(t *testing.T) {
	s, now := openStore(t), time.Now()
	begin := func() *house {
		h := newHouse(t, s, nil)
		h.gen.Models = pricedSet(t, &charging{})
		h.budgeted(func() time.Time { return now }, budget.Limits{Sender: budget.Amount{Tokens: 250}})
		return h
	}
	h := begin()
	h.accept("ann", "one")
	h.work(t.Context())
	h.want("ok")
	h = begin()
	h.accept("ann", "two")
	h.work(t.Context())
	h.accept("bob", "has his own")
	h.work(t.Context())
	if got := h.texts(); len(got) != 2 || !strings.Contains(got[0], "your daily budget of 250 tokens has no room for another answer") || got[1] != "ok" {
		t.Fatalf("replies are %q", got)
	}
	now = now.AddDate(0, 0, 1)
	h.accept("ann", "three")
	h.work(t.Context())
	if got := h.texts(); got[2] != "ok" {
		t.Errorf("on the next day the reply is %q", got[2])
	}
}

func TestAgentHasItsOwnBudget(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.gen.Models = pricedSet(t, &charging{})
	h.gen.Agents["helper"].Budget = budget.Amount{Cost: Dollars(0.0001)}
	h.budgeted(nil, budget.Limits{})
	h.accept("ann", "hello")
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], "the daily budget of the agent helper is smaller than what one answer may cost") {
		t.Errorf("replies are %q", got)
	}
	if sums := h.spent(usage.All); len(sums) != 0 {
		t.Errorf("what was not asked has cost %+v", sums)
	}
}

// TestUsageRows wants a row for each attempt that was charged, with the step that it paid for, and none for others.
func TestUsageRows(t *testing.T) {
	calls := 0
	p := &charging{answer: func(_ context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
		switch calls++; {
		case calls == 1:
			return model.Response{}, &model.Error{Kind: model.Auth, Err: errors.New("nobody charges for this")}
		case req.Model == "large":
			emit(model.Delta{Text: "a beginning"})
			return model.Response{Usage: model.Usage{Input: 30, Output: 1}}, &model.Error{Kind: model.Cut, RetryAfter: time.Hour, Err: errors.New("cut")}
		case len(req.Messages[len(req.Messages)-1].Results) == 0:
			r := callTool("c1", "thing.touch", `{"what":"wood"}`)
			r.Usage = model.Usage{Input: 7, Output: 2, CacheRead: 3}
			return r, nil
		}
		return say("done"), nil
	}}
	h := newHouse(t, openStore(t), nil)
	h.gen.Models = pricedSet(t, p)
	h.budgeted(nil, budget.Limits{Host: budget.Amount{Tokens: 100_000}})
	h.accept("ann", "hello")
	h.work(t.Context())
	h.want("done")
	rows, err := h.store.ListUsage(t.Context(), usage.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%d %s/%s %q %d+%d+%d %d", r.Step, r.Tier, r.Model, r.Failure, r.Input, r.CacheRead, r.Output, r.Cost))
		if r.Turn == "" || r.Session != "irc:ann:helper" || r.Sender != "irc:ann" || r.Agent != "helper" || r.Provider != "fake" || r.Attempt != 1 {
			t.Errorf("a row is %+v", r)
		}
	}
	want := []string{
		`1 default/large "auth" 0+0+0 0`,
		`1 fast/small "" 7+3+2 0`,
		`4 default/large "stream_cut" 30+0+4 70000`,
		`4 fast/small "" 10+0+1 0`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	steps, err := h.store.Steps(t.Context(), rows[0].Turn)
	if err != nil || steps[1].Kind != turnlog.StepModel || steps[4].Kind != turnlog.StepModel {
		t.Errorf("the rows' steps are of another kind: %+v, %v", steps, err)
	}
}

// TestUsageOutlivesTheHost wants what was paid to be kept when the host goes down over a step, which is taken anew.
func TestUsageOutlivesTheHost(t *testing.T) {
	ctx, down := context.WithCancel(t.Context())
	p := &charging{answer: func(ctx context.Context, _ model.Request, emit func(model.Delta)) (model.Response, error) {
		emit(model.Delta{Text: "some words"})
		down()
		<-ctx.Done()
		return model.Response{}, ctx.Err()
	}}
	h := newHouse(t, openStore(t), nil)
	h.gen.Models = pricedSet(t, p)
	h.budgeted(nil, budget.Limits{Host: budget.Amount{Tokens: 100_000}})
	h.accept("ann", "hello")
	h.work(ctx)
	rows, err := h.store.ListUsage(t.Context(), usage.Filter{})
	if err != nil || len(rows) != 1 || rows[0].Failure != "cancelled" || rows[0].Output != 4 || rows[0].Input == 0 || !rows[0].Estimated {
		t.Fatalf("rows are %+v, %v", rows, err)
	}
	if items, err := Recover(t.Context(), h.store); err != nil || len(items) != 1 {
		t.Errorf("left to do: %+v, %v", items, err)
	}
}
