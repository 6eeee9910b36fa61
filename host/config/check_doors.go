package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
)

func (c *checker) models() {
	if len(c.cfg.Models) == 0 {
		c.report(keyPath{"models"}, "no model tier", `add [models.default] with a provider, or remove [models] to use the demo provider`)
	}
	for _, tier := range sorted(c.cfg.Models) {
		m, at := c.cfg.Models[tier], keyPath{"models", tier}
		c.required(at.child("provider"), m.Provider, `"anthropic", "openai" or "demo"`)
		if m.Provider == "anthropic" || m.Provider == "openai" {
			c.required(at.child("model"), m.Model, `"the provider's name of it"`)
		}
		c.baseURL(at.child("base_url"), m.BaseURL)
		m.APIKey = c.apiKey(at, m)
		c.cfg.Models[tier] = m
		if slices.Contains(m.Fallbacks, tier) {
			c.report(at.child("fallbacks"), "tier falls back to itself", fmt.Sprintf("remove %q", tier))
		}
	}
}

func (c *checker) apiKey(at keyPath, m Model) Secret {
	switch hosted := m.BaseURL == "" && (m.Provider == "anthropic" || m.Provider == "openai"); {
	case m.APIKeyEnv != "" && m.APIKeyFile != "":
		c.report(at.child("api_key_file"), "two sources of one secret", "keep api_key_env or api_key_file")
	case m.APIKeyEnv != "":
		return c.fromEnv(at.child("api_key_env"), m.APIKeyEnv, true)
	case m.APIKeyFile != "":
		return c.fromFile(at.child("api_key_file"), m.APIKeyFile, true)
	case hosted:
		c.report(at.child("api_key_env"), "missing", "name the environment variable of the key, or its file with api_key_file")
	}
	return ""
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

func (c *checker) channels() {
	for _, name := range sorted(c.cfg.Channels) {
		channel, at := c.cfg.Channels[name], keyPath{"channels", name}
		c.required(at.child("plugin"), channel.Plugin, `"telegram" or another installed plugin`)
		for _, key := range sorted(channel.refs) {
			c.channelSecret(at.child(key), channel)
		}
	}
}

func (c *checker) channelSecret(at keyPath, channel Channel) {
	key := at.last()
	stem := secretStem(key)
	if _, ok := channel.Settings[stem]; ok {
		c.report(at, "two values of one key", fmt.Sprintf("keep %s or %s", stem, key))
		return
	}
	if _, ok := channel.refs[stem+"_env"]; ok && key == stem+"_file" {
		c.report(at, "two sources of one secret", fmt.Sprintf("keep %s_env or %s_file", stem, stem))
		return
	}
	var secret Secret
	if key == stem+"_env" {
		secret = c.fromEnv(at, channel.refs[key], channel.Enabled)
	} else {
		secret = c.fromFile(at, channel.refs[key], channel.Enabled)
	}
	if secret != "" {
		channel.Secrets[stem] = secret
	}
}

func (c *checker) policies() {
	first := map[string]int{}
	for i, p := range c.cfg.Policies {
		c.required(policyPath(i, "name"), p.Name, `"a-name-of-yours"`)
		c.required(policyPath(i, "path"), p.Path, `"policies/NAME.wasm"`)
		if len(p.Kinds) == 0 {
			c.report(policyPath(i, "kinds"), "missing", `write kinds = ["route"], ["tool"] or both`)
		}
		if earlier, ok := first[p.Name]; ok && p.Name != "" {
			c.report(policyPath(i, "name"), fmt.Sprintf("two policies are named %q", p.Name), fmt.Sprintf("the first is in line %d", earlier))
		} else {
			first[p.Name] = c.lines.line(policyPath(i, "name"))
		}
		c.policyFile(policyPath(i, "path"), p.Path)
	}
}

func (c *checker) policyFile(at keyPath, path string) {
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		c.report(at, fmt.Sprintf("%s: %v", path, cause(err)), "paths count from the folder of the configuration file")
	case !info.Mode().IsRegular():
		c.report(at, path+" is no regular file", "name a .wasm file")
	}
}

func (c *checker) gateway() {
	g, at := c.cfg.Gateway, keyPath{"gateway"}
	c.loopback(at.child("listen"), g.Listen)
	for i, origin := range g.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || origin != u.Scheme+"://"+u.Host {
			c.report(at.child("origins").index(i), fmt.Sprintf("%q is no origin", origin), `write scheme and host, such as "https://flynn.example.com"`)
		}
	}
}

// loopback keeps the gateway off the network: whoever reaches it can run tools.
func (c *checker) loopback(at keyPath, address string) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.report(at, fmt.Sprintf("%q is no address and port", address), `write one such as "127.0.0.1:7351"`)
		return
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		c.report(at, fmt.Sprintf("%q is not a loopback address", address),
			fmt.Sprintf(`write "127.0.0.1:%s" and put a reverse proxy or an SSH tunnel before it`, port))
	}
}
