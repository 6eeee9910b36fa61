package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/prove"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/store"
)

// Models are the models of the configuration in force.
type Models struct {
	Current func() InForce
	Runner  *agent.Runner

	testing sync.Map // tier: one test at a time
}

var _ gateway.Models = (*Models)(nil)

// Models implements gateway.Models.
func (m *Models) Models(context.Context) ([]gateway.ModelTier, error) {
	now := m.Current()
	var out []gateway.ModelTier
	for _, status := range models(now.Tiers.Status()) {
		c := now.Config.Models[status.Tier]
		tier := gateway.ModelTier{
			ModelStatus: status, BaseURL: c.BaseURL, Key: c.KeySource(), Fallbacks: append([]string{}, c.Fallbacks...), ContextWindow: c.ContextWindow,
			MaxOutput: c.MaxOutputTokens, Timeout: c.TimeoutSeconds, Images: c.Images, Reasoning: string(c.Reasoning), Agents: []string{},
		}
		if priced(c) {
			p := gateway.ModelPrices(c.Prices)
			tier.Prices = &p
		}
		for _, name := range slices.Sorted(maps.Keys(now.Config.Agents)) {
			if a := now.Config.Agents[name]; a.Kind != agent.KindCLI && a.ModelTier == status.Tier {
				tier.Agents = append(tier.Agents, name)
			}
		}
		out = append(out, tier)
	}
	return out, nil
}

// testTask names tests in the records of usage.
const testTask = "model_test"

// TestModel implements gateway.Models.
func (m *Models) TestModel(ctx context.Context, tier string, by message.SenderKey) (gateway.ModelTest, error) {
	c, ok := m.Current().Config.Models[tier]
	if !ok {
		return gateway.ModelTest{}, store.NotFound(fmt.Sprintf("no tier %.64q", tier))
	}
	if _, busy := m.testing.LoadOrStore(tier, true); busy {
		return gateway.ModelTest{}, store.Conflict(fmt.Sprintf("tier %s is being tested already", tier))
	}
	defer m.testing.Delete(tier)
	began := time.Now()
	var out gateway.ModelTest
	var asked bool
	err := m.Runner.Paid(ctx, agent.Account{Sender: by, Task: testTask}, model.Attempt{
		Tier: tier, Provider: c.Provider, Model: c.Model, Number: 1, Start: began, Worst: prove.Worst(c),
	}, func() (model.Usage, error) {
		asked = true
		call, cancel := context.WithTimeout(ctx, testWait)
		defer cancel()
		proof, err := prove.Model(call, c)
		out = tested(c, proof, err)
		return proof.Usage, err
	})
	out.Millis = time.Since(began).Milliseconds()
	if err != nil && !asked && ctx.Err() == nil { // a budget has no room
		return out, store.Conflict(err.Error())
	}
	return out, err
}

// testWait leaves time to answer before the request ends.
const testWait = 25 * time.Second

// tested is the result of a proof.
func tested(c config.Model, proof prove.Proof, err error) gateway.ModelTest {
	if err != nil {
		fault, words := prove.FaultOf(c, err)
		if errors.Is(err, context.DeadlineExceeded) {
			fault, words = prove.Slow, fmt.Sprintf("no answer within %v; flynn model test waits longer", testWait)
		}
		return gateway.ModelTest{Fault: string(fault), Detail: words}
	}
	return gateway.ModelTest{Works: true, Text: proof.Text, Tokens: proof.Tokens, CostUSD: gateway.KnownUSD(proof.Usage.CostUSD, priced(c))}
}

// priced reports whether it is known what calls of a model cost.
func priced(m config.Model) bool { return m.Provider == usage.Free || m.Prices != config.Prices{} }
