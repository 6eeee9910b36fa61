package assemble

import (
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/config"
)

// Tiers returns the tiers that people may choose for an agent, its own first. An agent of kind cli has no tiers: it brings its own
// model.
func Tiers(a config.Agent) []string {
	if a.Kind == agent.KindCLI {
		return nil
	}
	tiers := []string{a.ModelTier}
	for _, t := range a.ModelTiers {
		if t != a.ModelTier {
			tiers = append(tiers, t)
		}
	}
	return tiers
}

// windows returns the context window of each tier that people may choose for an agent.
func windows(c *config.Config, a config.Agent) map[string]int {
	windows := map[string]int{}
	for _, tier := range Tiers(a) {
		if m, ok := c.Models[tier]; ok {
			windows[tier] = window(m)
		}
	}
	return windows
}

func window(m config.Model) int {
	return agent.Window(m.ContextWindow, m.MaxOutputTokens+m.Reasoning.Tokens())
}

// tasks returns how the host itself uses models.
func tasks(c *config.Config) agent.Tasks {
	t := agent.Tasks{
		Tiers:        map[task.Name]task.Tier{},
		ThresholdPct: c.Compaction.ThresholdPct, KeepTurns: c.Compaction.KeepTurns, SummaryTokens: c.Compaction.SummaryMaxTokens,
		Classify: c.Tasks.ClassifyUntrusted,
		Extract:  c.Memory.Extract, Recall: c.Memory.Recall, MaxNotes: c.Memory.MaxNotes,
	}
	if c.Tasks.ToolSummaries {
		t.ResultMax = int(c.Tasks.ToolResultMax)
	}
	for name, tier := range map[task.Name]string{
		task.Compaction: c.Tasks.Compaction, task.MemoryExtraction: c.Tasks.MemoryExtraction, task.Classification: c.Tasks.Classification,
		task.ToolSummarisation: c.Tasks.ToolSummarisation, task.ComplexReasoning: c.Tasks.ComplexReasoning,
	} {
		tier = c.TierOf(tier)
		m := c.Models[tier]
		t.Tiers[name] = task.Tier{Name: tier, Window: agent.Window(m.ContextWindow, m.MaxOutputTokens)}
	}
	return t
}
