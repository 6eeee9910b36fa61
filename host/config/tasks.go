package config

// Tasks names the tier of each of the host's own uses of a model. One that is not configured gives way to default.
type Tasks struct {
	// Compaction sums up the older part of a conversation.
	Compaction string `toml:"compaction" default:"fast" oneof:"fast default complex local"`
	// MemoryExtraction proposes what to remember of a turn.
	MemoryExtraction string `toml:"memory_extraction" default:"fast" oneof:"fast default complex local"`
	// Classification reports whether a text tries to give orders.
	Classification string `toml:"classification" default:"fast" oneof:"fast default complex local"`
	// ToolSummarisation sums up long results of tools.
	ToolSummarisation string `toml:"tool_summarisation" default:"fast" oneof:"fast default complex local"`
	// ComplexReasoning answers what the tool think.hard is asked.
	ComplexReasoning string `toml:"complex_reasoning" default:"complex" oneof:"fast default complex local"`
	// ToolSummaries shows an agent beginning, end and a summary of a result longer than ToolResultMax; it costs a call each.
	ToolSummaries bool `toml:"tool_summaries"`
	ToolResultMax Size `toml:"tool_result_max" default:"32k" range:"4k..64k"`
	// ClassifyUntrusted looks through what comes from the web and from tools of providers, and labels the session where it gives orders.
	ClassifyUntrusted bool `toml:"classify_untrusted"`
}

// Compaction says when the older turns of a conversation give way to a summary.
type Compaction struct {
	// ThresholdPct is how full the model's window may be, from 10; 0 never sums up.
	ThresholdPct int `toml:"threshold_pct" default:"80" range:"0..100"`
	// KeepTurns is how many of the last turns are always kept whole.
	KeepTurns int `toml:"keep_turns" default:"6" range:"1..100"`
	// SummaryMaxTokens bounds the summary.
	SummaryMaxTokens int `toml:"summary_max_tokens" default:"1024" range:"64..16_384"`
}

// Memory says what agents remember by themselves.
type Memory struct {
	// Extract lets a model propose facts about a person after each of their turns.
	Extract bool `toml:"extract"`
	// Recall shows an agent what it remembers about a person that fits their words, in private chats.
	Recall bool `toml:"recall"`
	// MaxNotes bounds what one agent remembers about one person, and beside that for all.
	MaxNotes int `toml:"max_notes" default:"1000" range:"1..100_000"`
}

// TierOf is the tier that stands behind one that a task names: itself, else default, else the first there is.
func (c *Config) TierOf(name string) string {
	for _, tier := range append([]string{name, "default"}, sorted(c.Models)...) {
		if _, ok := c.Models[tier]; ok {
			return tier
		}
	}
	return name
}
