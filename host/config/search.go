package config

import "fmt"

// Search is a service that web.search asks. The services are asked in the order of the file, until one has results.
type Search struct {
	Provider string `toml:"provider" oneof:"searxng brave tavily exa model"` // required
	// BaseURL is the address of the service. It is required for searxng, and may be a private one.
	BaseURL    string `toml:"base_url"`
	APIKey     Secret `toml:"-"` // from APIKeyEnv or APIKeyFile
	APIKeyEnv  string `toml:"api_key_env"`
	APIKeyFile string `toml:"api_key_file" is:"path"` // mode 0600 or stricter
	// Tier is the one whose model searches, for provider model. Default: default
	Tier string `toml:"tier,omitempty" ref:"tier"`
	// USDPerSearch is the price of a search. Default: what the service says, or its list price
	USDPerSearch   float64 `toml:"usd_per_search" range:"0..1_000"`
	TimeoutSeconds int     `toml:"timeout_seconds" default:"20" range:"1..300"`
}

// WebSearch is the tool that asks the services of [[search]].
const WebSearch = "web.search"

// search checks [[search]].
func (c *checker) search() {
	for i, s := range c.cfg.Search {
		at := keyPath{"search"}.index(i)
		c.required(at.child("provider"), s.Provider, `"searxng", or brave, tavily, exa or model`)
		c.baseURL(at.child("base_url"), s.BaseURL)
		missing := ""
		switch s.Provider {
		case "searxng":
			c.required(at.child("base_url"), s.BaseURL, `"http://127.0.0.1:8888"`)
		case "brave", "tavily", "exa":
			if s.BaseURL == "" {
				missing = "name the environment variable of the key, or its file with api_key_file"
			}
		case "model":
			s.Tier = c.searchTier(at.child("tier"), s.Tier)
		}
		if s.Provider == "model" {
			c.foreign(at, s.Provider, map[string]string{"base_url": s.BaseURL, "api_key_env": s.APIKeyEnv, "api_key_file": s.APIKeyFile})
		} else {
			c.foreign(at, s.Provider, map[string]string{"tier": s.Tier})
			s.APIKey = c.secret(at, "api_key", s.APIKeyEnv, s.APIKeyFile, true, missing)
		}
		c.cfg.Search[i] = s
	}
}

// searchTier returns the tier whose model searches.
func (c *checker) searchTier(at keyPath, tier string) string {
	if tier == "" {
		tier = "default"
		if _, ok := c.cfg.Models[tier]; !ok {
			c.report(at, "missing", "name the tier whose model searches: tier = "+list(sorted(c.cfg.Models)))
		}
	}
	switch m := c.cfg.Models[tier]; {
	case m.Provider == "demo":
		c.report(at, fmt.Sprintf("the model of tier %s cannot search", tier), "name a tier with provider anthropic or openai, or another search service")
	}
	return tier
}

// foreign reports keys that do not belong to a provider.
func (c *checker) foreign(at keyPath, provider string, values map[string]string) {
	for _, key := range sorted(values) {
		if values[key] != "" {
			c.report(at.child(key), fmt.Sprintf("provider %s has no %s", provider, key), "remove it")
		}
	}
}
