package config

// Budgets limit turns, and the daily cost of model calls. 0 is no limit.
type Budgets struct {
	StepsPerTurn       int `toml:"steps_per_turn" default:"25" range:"1..10_000"` // model calls
	ToolCallsPerTurn   int `toml:"tool_calls_per_turn" default:"50" range:"0..10_000"`
	TurnTimeoutSeconds int `toml:"turn_timeout_seconds" default:"600" range:"10..86_400"`
	TokensPerTurn      int `toml:"tokens_per_turn" default:"200_000" range:"1_000.."`
	ParallelTurns      int `toml:"parallel_turns" default:"64" range:"1..10_000"`

	// Tokens of a day are those read, written and cached; US dollars follow from [models.TIER.prices].
	SenderTokensPerDay int     `toml:"sender_tokens_per_day" range:"0.."`
	SenderUSDPerDay    float64 `toml:"sender_usd_per_day" range:"0..1_000_000"`
	AgentTokensPerDay  int     `toml:"agent_tokens_per_day" range:"0.."` // of each agent that does not say otherwise
	AgentUSDPerDay     float64 `toml:"agent_usd_per_day" range:"0..1_000_000"`
	HostTokensPerDay   int     `toml:"host_tokens_per_day" range:"0.."`
	HostUSDPerDay      float64 `toml:"host_usd_per_day" range:"0..1_000_000"`
	// TimeZone is the zone in which a day begins, "Europe/Berlin"; empty is the machine's.
	TimeZone string `toml:"time_zone"`
}

// fillBudgets gives agents the daily budgets that they do not set for themselves.
func (d *decoder) fillBudgets(cfg *Config) {
	for name, a := range cfg.Agents {
		if !d.lines.has(keyPath{"agent_configs", name, "tokens_per_day"}) {
			a.TokensPerDay = cfg.Budgets.AgentTokensPerDay
		}
		if !d.lines.has(keyPath{"agent_configs", name, "usd_per_day"}) {
			a.USDPerDay = cfg.Budgets.AgentUSDPerDay
		}
		cfg.Agents[name] = a
	}
}
