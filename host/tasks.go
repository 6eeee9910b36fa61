package host

import (
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/config"
)

// tasksOf is what a configuration says of the host's own uses of models.
func tasksOf(c *config.Config) agent.Tasks {
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
