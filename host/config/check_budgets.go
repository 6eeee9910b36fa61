package config

import (
	"fmt"
	"math"
	"time"
)

// compaction refuses a share of the window that is too small for any conversation; 0 turns compaction off.
func (c *checker) compaction() {
	if pct := c.cfg.Compaction.ThresholdPct; pct > 0 && pct < 10 {
		c.report(keyPath{"compaction", "threshold_pct"}, fmt.Sprintf("%d is out of range", pct), "from 10 to 100, or 0 to switch compaction off")
	}
}

func (c *checker) budgets() {
	b := c.cfg.Budgets
	if _, err := b.location(); err != nil {
		c.report(keyPath{"budgets", "time_zone"}, fmt.Sprintf("no time zone %q", b.TimeZone), `write a name of the IANA list such as "Europe/Berlin", or remove it`)
	}
	for _, d := range []struct {
		key    string
		tokens int
	}{{"sender_tokens_per_day", b.SenderTokensPerDay}, {"agent_tokens_per_day", b.AgentTokensPerDay}, {"host_tokens_per_day", b.HostTokensPerDay}} {
		c.tokensPerDay(keyPath{"budgets", d.key}, d.tokens, sorted(c.cfg.Models))
	}
	for _, name := range sorted(c.cfg.Agents) {
		if at := (keyPath{"agent_configs", name, "tokens_per_day"}); c.lines.has(at) {
			c.tokensPerDay(at, c.cfg.Agents[name].TokensPerDay, []string{c.cfg.Agents[name].ModelTier})
		}
	}
}

// tokensPerDay reports a daily budget that is too small for one call of any of the tiers, as the longest answer is reserved.
func (c *checker) tokensPerDay(at keyPath, tokens int, tiers []string) {
	least := math.MaxInt
	for _, tier := range tiers {
		if m, ok := c.cfg.Models[tier]; ok {
			least = min(least, m.MaxOutputTokens+m.Reasoning.Tokens())
		}
	}
	if tokens > 0 && tokens <= least && least < math.MaxInt {
		c.report(at, "too small for one model call", fmt.Sprintf("an answer may have %d tokens: raise it, or lower max_output_tokens", least))
	}
}

// Zone is the time zone of the budgets' days.
func (b Budgets) Zone() *time.Location {
	zone, err := b.location()
	if err != nil { // a configuration with such a zone is refused
		return time.Local
	}
	return zone
}

func (b Budgets) location() (*time.Location, error) {
	if b.TimeZone == "" {
		return time.Local, nil
	}
	return time.LoadLocation(b.TimeZone)
}
