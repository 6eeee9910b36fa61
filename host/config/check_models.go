package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

func (c *checker) models() {
	providers := strings.ReplaceAll(list(oneofOf[Model]("provider")), ", ", " or ")
	if len(c.cfg.Models) == 0 {
		c.report(keyPath{"models"}, "no model tier", `add [models.default] with a provider, or remove [models] to use the demo provider`)
	}
	for _, tier := range sorted(c.cfg.Models) {
		m, at := c.cfg.Models[tier], keyPath{"models", tier}
		c.required(at.child("provider"), m.Provider, providers)
		if m.Provider == "anthropic" || m.Provider == "openai" {
			c.required(at.child("model"), m.Model, `"the provider's name of it"`)
		}
		c.baseURL(at.child("base_url"), m.BaseURL)
		if m.ContextWindow > 0 && m.MaxOutputTokens+m.Reasoning.Tokens() >= m.ContextWindow {
			c.report(at.child("context_window"), "max_output_tokens and reasoning leave no room for a question", "lower them, or write the model's real window")
		}
		m.APIKey = c.apiKey(at, m)
		c.cfg.Models[tier] = m
		if slices.Contains(m.Fallbacks, tier) {
			c.report(at.child("fallbacks"), "tier falls back to itself", fmt.Sprintf("remove %q", tier))
		}
	}
}

func (c *checker) apiKey(at keyPath, m Model) Secret {
	missing := ""
	if m.BaseURL == "" && (m.Provider == "anthropic" || m.Provider == "openai") {
		missing = "name the environment variable of the key, or its file with api_key_file"
	}
	return c.secret(at, "api_key", m.APIKeyEnv, m.APIKeyFile, true, missing)
}

func (c *checker) baseURL(at keyPath, address string) {
	if address == "" {
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.report(at, "no address of a server", `write one such as "http://127.0.0.1:11434/v1"`)
	case u.User != nil:
		c.report(at, openSecret, "name the key by api_key_env or api_key_file")
	}
}
