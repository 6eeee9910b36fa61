package doctor

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

// checkPeople looks for settings that work and that give people more than was probably meant.
func checkPeople(_ context.Context, x *exam) {
	c := x.Config
	for _, e := range access.Warnings(c) {
		x.add(ofError(SenderUnproved, e))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		if c.Channels[name].Enabled && c.AccessOn(name).Mode == config.AccessOpen {
			x.strangers(name)
		}
	}
	for _, origin := range c.Gateway.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "https" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
			continue
		}
		x.at(Finding{Code: PageUnencrypted, What: "origins has " + origin, Mend: "serve the page with https, or remove the origin and forward the port",
			Command: "ssh -L " + port(c.Gateway.Listen) + ":" + c.Gateway.Listen + " THIS-MACHINE"}, "gateway", "origins")
	}
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// strangers looks at a channel on which everybody is answered.
func (x *exam) strangers(channel string) {
	c := x.Config
	key := []string{"channels", channel, "access"}
	if c.Channels[channel].Access == "" {
		key = []string{"access", "mode"}
	}
	agent := cmp.Or(c.Routing.Channels[channel], c.Routing.DefaultAgent)
	a := c.Agents[agent]
	if handy(a) && !(c.Sandbox.Enabled && a.Sandbox.Enabled) {
		x.at(Finding{
			Code: ToolsForStrangers, What: "everybody may write on channel " + channel + ", where agent " + agent + " has tools of this machine",
			Mend: "write access = \"pair\" for the channel, or sandbox = true or tool_profile = \"messaging\" for the agent",
		}, key...)
	}
	b, paid := c.Budgets, c.Models[c.TierOf(agent)]
	bounded := b.SenderTokensPerDay > 0 || b.SenderUSDPerDay > 0 || b.HostTokensPerDay > 0 || b.HostUSDPerDay > 0 || a.TokensPerDay > 0 || a.USDPerDay > 0
	if !bounded && paid.APIKey != "" && paid.Provider != setup.Demo {
		x.at(Finding{
			Code: SpendingUnlimited, What: "everybody may write on channel " + channel + ", and no budget bounds what agent " + agent + " spends",
			Mend: "write sender_tokens_per_day and host_tokens_per_day under [budgets]", Command: "flynn usage --by sender",
		}, key...)
	}
}

// handy reports whether an agent has tools that act on a machine.
func handy(a config.Agent) bool {
	return a.Kind == "chat" && (a.ToolProfile == "coding" || a.ToolProfile == "full" || slices.Contains(a.ToolOverrides.Allow, "shell.exec"))
}
