package config

import (
	"fmt"
	"maps"
	"net"
	"reflect"
	"strconv"
	"strings"
)

// toolProvider reads one instance of a plugin with tools: our own keys, references to secrets, and the keys of the plugin.
func (d *decoder) toolProvider(at keyPath, raw any, into *ToolProvider) {
	d.instance(at, raw, reflect.ValueOf(into).Elem(), func(of Channel) {
		into.Profiles = []string{"full"}
		into.Settings, into.Secrets, into.refs = of.Settings, of.Secrets, of.refs
	})
}

func (c *checker) toolProviders() {
	for _, name := range sorted(c.cfg.Tools) {
		p, at := c.cfg.Tools[name], keyPath{"tools", name}
		c.required(at.child("plugin"), p.Plugin, `"mcp" or another installed plugin`)
		c.globs(at.child("allow"), p.Allow)
		c.globs(at.child("deny"), p.Deny)
		c.toolRules(at.child("tool"), p.Tool)
		c.networkGrants(at.child("network"), p.Network)
		c.sandboxOf(at.child("sandbox"), p.Sandbox)
		if _, err := p.Server(); p.Sandbox.Enabled && err != nil {
			c.report(at.child("command"), err.Error(), "write the program of the server, and a list of its args, to run it in a sandbox")
		}
		as := Channel{Enabled: p.Enabled, Settings: p.Settings, Secrets: p.Secrets, refs: p.refs}
		for _, key := range sorted(p.refs) {
			c.channelSecret(at.child(key), as)
		}
	}
}

// networkGrants checks the addresses that a plugin may connect to.
func (c *checker) networkGrants(at keyPath, addresses []string) {
	for i, address := range addresses {
		c.networkGrant(at.index(i), address)
	}
}

func (c *checker) networkGrant(at keyPath, address string) {
	host, port, err := net.SplitHostPort(address)
	n, perr := strconv.Atoi(port)
	if address != "*" && (err != nil || host == "" || perr != nil || n < 1 || n > 65535) {
		c.report(at, fmt.Sprintf("bad address %q", address), `write "api.example.com:443", or "*" for any`)
	}
}

// toolRules checks new names: of two tools with one name, one would hide the other.
func (c *checker) toolRules(at keyPath, rules map[string]ToolRule) {
	taken := map[string]string{}
	for _, name := range sorted(rules) {
		to := rules[name].Rename
		if to == "" {
			continue
		}
		here := at.child(name).child("rename")
		switch other, ok := taken[to]; {
		case ok:
			c.report(here, fmt.Sprintf("%s is named %q, too", other, to), "choose another name")
		case len(to) > maxName || strings.Trim(to, nameLetters+"-_") != "" || !strings.Contains(nameLetters, to[:1]):
			c.report(here, fmt.Sprintf("bad name %q", to), "use at most 64 letters, digits, - and _, with a letter or digit first")
		}
		taken[to] = name
	}
}

// maxProviderName is the longest first part of a tool's name.
const maxProviderName = 32

// toolProviderName checks the first part of the names of a provider's tools.
func (c *checker) toolProviderName(at keyPath, name string) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	switch _, isChannel := c.cfg.Channels[name]; {
	case name == "" || len(name) > maxProviderName || strings.Trim(name, letters+"0123456789-_") != "" || !strings.Contains(letters, name[:1]):
		c.report(at, fmt.Sprintf("bad name %q", name),
			fmt.Sprintf("use at most %d of a-z, 0-9, - and _, with a letter first: its tools are called NAME.TOOL", maxProviderName))
	case isChannel || BuiltinChannel(name):
		c.report(at, fmt.Sprintf("%q is a channel", name), "choose another name")
	}
}

// Server is the program that a plugin connects to, by the keys that all such plugins share.
type Server struct {
	Command string
	Args    []string
	Env     map[string]string
}

// serverKeys are the plugin's keys that Server replaces.
func serverKeys() []string { return []string{"command", "args", "env", "secret_variables", "dir"} }

// Server is the program of the plugin's settings. Its secret variables are in Env.
func (p ToolProvider) Server() (Server, error) {
	s := Server{Env: map[string]string{}}
	var ok bool
	if s.Command, ok = p.Settings["command"].(string); !ok || s.Command == "" {
		return s, fmt.Errorf("missing: the program to run in the sandbox")
	}
	args, _ := elementsOf(p.Settings["args"])
	for _, a := range args {
		text, ok := a.(string)
		if !ok {
			return s, fmt.Errorf("args holds %s", describe(a))
		}
		s.Args = append(s.Args, text)
	}
	env, _ := p.Settings["env"].(map[string]any)
	for name, value := range env {
		if s.Env[name], ok = value.(string); !ok {
			return s, fmt.Errorf("env.%s is %s", name, describe(value))
		}
	}
	secret, _ := p.Settings["secret_variables"].(map[string]any)
	for name, from := range secret {
		stem, _ := from.(string)
		s.Env[name] = p.Secrets[stem].Reveal()
	}
	return s, nil
}

// Reach returns the plugin's settings for a server behind a socket.
func (p ToolProvider) Reach(socket string) map[string]any {
	settings := maps.Clone(p.Settings)
	for _, key := range serverKeys() {
		delete(settings, key)
	}
	settings["socket"] = socket
	return settings
}
