package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
)

const (
	// channelDeadline bounds the wait for a platform.
	channelDeadline = 12 * time.Second
	// settling is how long an instance may take to connect before that counts as a failure.
	settling = 30 * time.Second
)

// checkChannels asks the running host for the state of its channels. Where none runs it starts the plugin of each channel until its platform
// accepts the account.
func checkChannels(ctx context.Context, x *exam) {
	if x.Running != nil {
		for _, p := range x.Running.Plugins {
			if ch, ok := x.Config.Channels[p.Name]; ok && ch.Enabled {
				x.channelState(p)
				x.privacy(p.Name, p.Detail)
			}
		}
		return
	}
	if len(x.Config.Channels) > 0 && x.Config.Store.Host != "" {
		x.unexamined("channels, because other hosts that share the store may be using their accounts; start flynn here and look again")
		return
	}
	if len(x.Config.Channels) > 0 && inUse(x.Config.Store.Dir) {
		x.unexamined("channels, because another flynn may be using them")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channelDeadline)
	defer cancel()
	var wait sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(x.Config.Channels)) {
		if why, ok := x.provable(name); ok {
			wait.Go(func() { x.prove(ctx, name) })
		} else if why != "" {
			x.unexamined("channel %s, because %s", name, why)
		}
	}
	wait.Wait()
}

// provable reports whether a channel can be proved here, and why not. Without a reason it is disabled, or something else is found.
func (x *exam) provable(name string) (why string, ok bool) {
	ch := x.Config.Channels[name]
	if _, dev := x.Config.Plugins.DevPaths[ch.Plugin]; dev {
		return "", ch.Enabled && !x.lacks("channels", name)
	}
	s, err := plugin.OpenStore(x.Config.Plugins.Dir)
	switch {
	case !ch.Enabled || x.lacks("channels", name) || err != nil:
		return "", false
	case s.Awaits(ch.Plugin):
		return "its plugin is installed at the first start: flynn channel test " + name + " does it now", false
	}
	_, err = s.Verify(ch.Plugin)
	return "", err == nil
}

func (x *exam) prove(ctx context.Context, name string) {
	proof, err := setup.ProveChannel(ctx, x.Config, name, x.Launcher)
	var refused setup.CredentialError
	var degraded setup.DegradedError
	switch {
	case errors.As(err, &refused):
		x.refused(name, string(refused))
	case errors.As(err, &degraded):
		x.down(ChannelDegraded, name, string(degraded), "flynn channel test "+name)
	case err != nil:
		x.down(ChannelDown, name, err.Error(), "flynn channel test "+name)
	case proof.Login:
		x.at(Finding{Code: ChannelToken, What: "channel " + name + " waits until a person links it to a device", Mend: "start flynn, then scan the code",
			Command: "flynn plugin login " + name},
			"channels", name)
	default:
		x.privacy(name, proof.Detail)
		var loose []gateway.PluginMeasure
		for _, m := range proof.Contained {
			loose = append(loose, gateway.PluginMeasure{Name: m.Name, On: m.On, Detail: m.Detail})
		}
		x.loose(name, loose)
	}
}

// channelState reports a channel of the running host that does not work.
func (x *exam) channelState(p gateway.PluginStatus) {
	why := trouble(p)
	switch credential, refused := strings.CutPrefix(why, plugin.CredentialRefused); {
	case p.Login:
		x.at(Finding{Code: ChannelToken, What: "channel " + p.Name + " waits until a person links it to a device", Mend: "scan the code",
			Command: "flynn plugin login " + p.Name},
			"channels", p.Name)
	case refused:
		x.refused(p.Name, strings.TrimPrefix(credential, ": "))
	case why != "" && p.State == string(plugin.Degraded):
		x.down(ChannelDegraded, p.Name, why, "flynn plugin logs "+p.Name)
	case why != "":
		x.down(ChannelDown, p.Name, why, "flynn plugin logs "+p.Name)
	}
}

// trouble is why an instance of the running host does not work, or "". One that is starting is given time.
func trouble(p gateway.PluginStatus) string {
	detail := p.Detail
	if detail == "" || p.State != string(plugin.Degraded) && p.LastError != "" {
		detail = p.LastError
	}
	switch plugin.State(p.State) {
	case plugin.Ready:
		return ""
	case plugin.Degraded:
		if strings.HasPrefix(detail, "connecting") && time.Since(p.Since) < settling {
			return ""
		}
		detail = strings.TrimPrefix(detail, "degraded: ")
	case plugin.Backoff, plugin.Quarantined, plugin.Disabled:
	default:
		if time.Since(p.Since) < settling {
			return ""
		}
	}
	if detail == "" {
		return "it is " + p.State
	}
	return detail
}

// refused reports a credential that a platform does not accept.
func (x *exam) refused(name, why string) {
	f := Finding{Code: ChannelToken, What: "channel " + name + ": " + why, Mend: "store a new one, under the name that the _file key of the channel has"}
	ch := x.Config.Channels[name]
	for _, secret := range slices.Sorted(maps.Keys(ch.Secrets)) {
		f.Command = "flynn secret set " + name + "_" + secret
		break
	}
	x.at(f, "channels", name)
}

func (x *exam) down(code Code, name, why, command string) {
	x.at(Finding{Code: code, What: "channel " + name + ": " + why, Mend: "see its plugin's README in plugins/" + x.Config.Channels[name].Plugin, Command: command},
		"channels", name)
}

// privacy reports a bot of Telegram that is to answer everything in groups, of which it gets only what is meant for it. The plugin says so
// in its detail.
func (x *exam) privacy(name, detail string) {
	ch := x.Config.Channels[name]
	if ch.Plugin != "telegram" || x.Config.AccessOn(name).Groups != "all" || !strings.Contains(detail, "privacy mode") {
		return
	}
	key := []string{"channels", name, "access_groups"}
	if ch.AccessGroups == "" {
		key = []string{"access", "groups"}
	}
	x.at(Finding{
		Code: ChannelPrivacy, What: "channel " + name + " is to answer everything in groups, and its bot is in privacy mode",
		Mend: "write /setprivacy to @BotFather and choose Disable, then add the bot to its groups again",
	}, key...)
}
