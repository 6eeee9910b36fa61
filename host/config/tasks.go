package config

// Tasks names the tier of each of the host's own uses of a model. The tier default replaces one that is not configured.
type Tasks struct {
	// Compaction sums up the older part of a conversation.
	Compaction string `toml:"compaction" default:"fast" oneof:"fast default complex local"`
	// MemoryExtraction proposes what to remember of a turn.
	MemoryExtraction string `toml:"memory_extraction" default:"fast" oneof:"fast default complex local"`
	// Classification reports whether a text tries to give orders.
	Classification string `toml:"classification" default:"fast" oneof:"fast default complex local"`
	// ToolSummarisation sums up long results of tools.
	ToolSummarisation string `toml:"tool_summarisation" default:"fast" oneof:"fast default complex local"`
	// ComplexReasoning answers the questions of the tool think.hard.
	ComplexReasoning string `toml:"complex_reasoning" default:"complex" oneof:"fast default complex local"`
	// ToolSummaries shortens results above ToolResultMax to their beginning, their end and a summary, which costs a call each.
	ToolSummaries bool `toml:"tool_summaries"`
	ToolResultMax Size `toml:"tool_result_max" default:"32k" range:"4k..64k"`
	// ClassifyUntrusted searches results from the web and from tools of providers for orders to the model, and labels the session.
	ClassifyUntrusted bool `toml:"classify_untrusted"`
}

// Compaction says when a summary replaces the older turns of a conversation.
type Compaction struct {
	// ThresholdPct is the share of the model's window above which that happens, from 10; 0 is never.
	ThresholdPct int `toml:"threshold_pct" default:"80" range:"0..100"`
	// KeepTurns is how many of the last turns are never summed up.
	KeepTurns int `toml:"keep_turns" default:"6" range:"1..100"`
	// SummaryMaxTokens bounds the summary.
	SummaryMaxTokens int `toml:"summary_max_tokens" default:"1024" range:"64..16_384"`
}

// Memory says what agents remember by themselves.
type Memory struct {
	// Extract lets a model propose facts about a person after each of their turns.
	Extract bool `toml:"extract"`
	// Recall shows an agent its notes about a person that fit their words, in private chats.
	Recall bool `toml:"recall"`
	// MaxNotes bounds an agent's notes about one person, and its shared notes.
	MaxNotes int `toml:"max_notes" default:"1000" range:"1..100_000"`
}

// TierOf is the tier that replaces the one of a task: itself if configured, else default, else the first.
func (c *Config) TierOf(name string) string {
	for _, tier := range append([]string{name, "default"}, sorted(c.Models)...) {
		if _, ok := c.Models[tier]; ok {
			return tier
		}
	}
	return name
}
