package doctor

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/admin/preflight"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

// loadFindings returns the errors of a configuration that cannot be loaded, as config check has them.
func loadFindings(err error) (out []Finding) {
	var all config.Errors
	if !errors.As(err, &all) {
		return []Finding{find(ConfigInvalid, "flynn config check", "%v", err)}
	}
	for _, e := range all {
		path, _, open := strings.Cut(e.Problem, " is open to others")
		f := ofError(ConfigInvalid, e)
		switch {
		case open:
			f = find(FileOpen, "chmod 600 "+path, "%s", e.Problem)
			f.File, f.Fixable, f.mode = path, true, 0o600
		case strings.HasPrefix(e.Problem, "environment variable "):
			f = ofError(SecretMissing, e)
		}
		out = append(out, f)
	}
	return out
}

// ofError makes a finding of an error of the configuration.
func ofError(code Code, e config.Error) Finding {
	mend := e.Hint
	if mend == "" {
		mend = "edit the file, then: flynn config check"
	}
	what := e.Problem
	if e.Key != "" {
		what = e.Key + ": " + what
	}
	f := find(code, mend, "%s", what)
	f.File, f.Line = e.File, e.Line
	return f
}

func ofErrors(code Code, all config.Errors) (out []Finding) {
	for _, e := range all {
		out = append(out, ofError(code, e))
	}
	return out
}

func checkConfig(_ context.Context, in Input) []Finding {
	out := append(ofErrors(ConfigInvalid, instances.CheckAllSettings(in.Config)), ofErrors(ConfigDoubtful, in.Weak)...)
	return append(out, ofErrors(SenderUnproved, in.Senders)...)
}

func checkPolicies(ctx context.Context, in Input) []Finding {
	return ofErrors(PolicyFails, preflight.Policies(ctx, in.Config, in.Sources))
}

// checkWeak looks for settings that work and that nobody should leave as they are.
func checkWeak(_ context.Context, in Input) (out []Finding) {
	c := in.Config
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		if !c.Channels[name].Enabled {
			continue
		}
		if c.AccessOn(name).Mode == "open" {
			for _, agent := range shellsOnHost(c) {
				out = append(out, find(ShellOpen, "set access = \"pair\" under [channels."+name+"], or sandbox = true for the agent",
					"anybody may write on channel %q, and agent %q runs commands on this machine", name, agent).at(c, "channels", name))
			}
		}
	}
	if c.Sandbox.Enabled && c.Sandbox.OnUnavailable == "host" && enabledChannels(c) > 0 {
		out = append(out, find(SandboxFallsBack, `set on_unavailable = "deny" under [sandbox]`, `[sandbox] on_unavailable = "host", with channels`).
			at(c, "sandbox", "on_unavailable"))
	}
	for _, origin := range c.Gateway.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "https" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
			continue
		}
		out = append(out, find(PageOnForeignHosts, "serve it by https, or forward the port with ssh -L and remove the origin",
			"[gateway] origins has %q, without encryption", origin).at(c, "gateway", "origins"))
	}
	return out
}

func enabledChannels(c *config.Config) (n int) {
	for _, channel := range c.Channels {
		if channel.Enabled {
			n++
		}
	}
	return n
}

// shellsOnHost returns the agents of kind chat with a shell on this machine.
func shellsOnHost(c *config.Config) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		shell := a.ToolProfile == "coding" || a.ToolProfile == "full" || slices.Contains(a.ToolOverrides.Allow, "shell.exec")
		if shell && !slices.Contains(a.ToolOverrides.Deny, "shell.exec") && !(c.Sandbox.Enabled && a.Sandbox.Enabled) {
			names = append(names, name)
		}
	}
	return names
}
