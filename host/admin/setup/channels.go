package setup

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
)

// Channels returns the channels of a configuration, by name. states are those of the running flynn, if one runs.
func Channels(c *config.Config, states map[string]gateway.ChannelStatus) []gateway.Channel {
	var out []gateway.Channel
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		ch := c.Channels[name]
		row := gateway.Channel{
			Name: name, Plugin: ch.Plugin, Enabled: ch.Enabled, Access: c.AccessOn(name).Mode, State: "not running", Senders: string(Proof(c, name)),
			Settings: config.Shown(ch.Settings), Secrets: channelSecrets(c, ch),
		}
		if s, ok := states[name]; ok {
			row.State, row.Detail, row.Login = s.State, s.Detail, s.Login
		}
		if !ch.Enabled {
			row.State = "disabled"
		}
		out = append(out, row)
	}
	return out
}

// channelSecrets are the secrets that a channel has, and those that its plugin may have.
func channelSecrets(c *config.Config, ch config.Channel) []gateway.ChannelSecret {
	found := map[string]gateway.ChannelSecret{}
	if p, err := FindPlugin(c, ch.Plugin); err == nil {
		for _, name := range p.Config.Secrets {
			found[name] = gateway.ChannelSecret{Name: name}
		}
	}
	for key, ref := range ch.References() {
		name, file := strings.CutSuffix(key, "_file")
		name = strings.TrimSuffix(name, "_env")
		s := gateway.ChannelSecret{Name: name, Set: ch.Secrets[name] != ""}
		if file && filepath.Dir(ref) == SecretsDir(c) {
			s.Stored = filepath.Base(ref)
		}
		found[name] = s
	}
	var out []gateway.ChannelSecret
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out
}
