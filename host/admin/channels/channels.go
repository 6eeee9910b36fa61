// Package channels adds, changes and removes the channels of the host that runs, for the gateway.
//
// Start with Channels. It proves an account and edits the file by the functions of package setup that the command line calls, through the
// edit.Editor that all rooms share. form.go says what to ask for, fault.go at which field something is wrong.
package channels

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/admin/settings"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/store"
)

// Channels are those of a running host.
type Channels struct {
	Current func() *config.Config
	Editor  *edit.Editor
	// Launcher is the command that runs plugins in a jail.
	Launcher []string
	// States returns those of the running channels.
	States func(ctx context.Context) []gateway.ChannelStatus
}

var _ gateway.Channels = Channels{}

// Channels implements gateway.Channels.
func (c Channels) Channels(ctx context.Context) ([]gateway.Channel, error) {
	states := map[string]gateway.ChannelStatus{}
	for _, s := range c.States(ctx) {
		states[s.Name] = s
	}
	return setup.Channels(c.Current(), states), nil
}

// setup returns the steps of flynn channel add, with nobody to be asked.
func (c Channels) setup() *setup.Setup {
	e := c.Editor
	return setup.New(setup.Config{Path: e.Path, Getenv: e.Getenv, Checks: e.Checks, Launcher: c.Launcher, Asker: form{}})
}

// ProveChannel implements gateway.Channels. The file is not written.
func (c Channels) ProveChannel(ctx context.Context, n gateway.NewChannel) (gateway.ChannelAccount, error) {
	answers, err := c.answers(n)
	if err != nil {
		return gateway.ChannelAccount{}, err
	}
	f, err := edit.Open(c.Editor.Path)
	if err != nil {
		return gateway.ChannelAccount{}, store.Conflict(err.Error())
	}
	ch, err := c.setup().TryChannel(ctx, f, answers)
	if err != nil {
		return gateway.ChannelAccount{}, refusal(answers.Channel, err)
	}
	return gateway.ChannelAccount{
		Name: ch.Name, Detail: ch.Proof.Detail, Senders: string(ch.Proof.Senders), Login: ch.Proof.Login, TookMS: ch.Proof.Took.Milliseconds(),
	}, nil
}

// AddChannel implements gateway.Channels.
func (c Channels) AddChannel(ctx context.Context, n gateway.NewChannel, by string) (gateway.ChannelAccount, error) {
	account, err := c.ProveChannel(ctx, n)
	if err != nil {
		return account, err
	}
	answers, err := c.answers(n)
	if err != nil {
		return account, err
	}
	answers.NoCheck = true // it is proved
	return account, c.edit(ctx, "add", account.Name, by, func(f *edit.File, now *config.Config) error {
		s := c.setup()
		f.IfRefused(s.Undo)
		ch, err := s.TryChannel(ctx, f, answers)
		if err != nil {
			return refusal(answers.Channel, err)
		}
		return s.WriteSecrets(c.Current(), ch)
	})
}

// edit edits the file for one channel.
func (c Channels) edit(ctx context.Context, verb, name, by string, change func(f *edit.File, now *config.Config) error) error {
	_, err := c.Editor.Edit(ctx, edit.Author{By: by, What: verb + " channel " + name}, change)
	return gateway.NotEdited(err)
}

// answers checks a form by itself.
func (c Channels) answers(n gateway.NewChannel) (a setup.Answers, err error) {
	current := c.Current()
	name := cmp.Or(n.Name, n.Plugin)
	a.Channel = setup.ChannelAnswers{Name: name, Plugin: n.Plugin, Settings: map[string]any{}, Secrets: map[string]config.Secret{}}
	var faults []gateway.Fault
	wrong := func(place, format string, args ...any) {
		faults = append(faults, gateway.Fault{Location: place, Message: fmt.Sprintf(format, args...)})
	}
	if err := setup.ValidChannelName(name); err != nil {
		wrong("name", "%v", err)
	} else if _, taken := current.Channels[name]; taken {
		wrong("name", "there is a channel %s already: choose another name", name)
	}
	p, err := setup.FindPlugin(current, n.Plugin)
	if err != nil {
		wrong("plugin", "%v", err)
		return a, fault(faults)
	}
	for _, key := range slices.Sorted(maps.Keys(n.Settings)) {
		value, err := settings.Value(n.Settings[key])
		switch {
		case key == "plugin":
			wrong("settings.plugin", "it is a field of its own")
		case err != nil:
			wrong("settings."+key, "%v", err)
		}
		a.Channel.Settings[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(n.Secrets)) {
		if !slices.Contains(p.Config.Secrets, key) {
			wrong("secrets."+key, "plugin %s has no such secret: it has %s", p.Name, strings.Join(p.Config.Secrets, ", "))
			continue
		}
		if n.Secrets[key] == "" {
			continue // a field that was left empty
		}
		if a.Channel.Secrets[key], err = setup.CleanSecret(n.Secrets[key]); err != nil {
			wrong("secrets."+key, "%v", err)
		}
	}
	for _, f := range p.Settings.Fields() {
		if _, ok := a.Channel.Settings[f.Key]; f.Required && !ok {
			wrong("settings."+f.Key, "it is needed")
		}
	}
	if other := sameAccount(current, n.Plugin, a.Channel.Secrets); other != "" {
		wrong("secrets", "channel %s has this account already: two channels would take each other's messages", other)
	}
	if len(faults) == 0 {
		faults = settingFaults(p, a.Channel.Settings)
	}
	return a, fault(faults)
}

// sameAccount returns a channel that runs with the same secrets; a proof would take its messages.
func sameAccount(c *config.Config, plugin string, secrets map[string]config.Secret) string {
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		ch := c.Channels[name]
		if ch.Enabled && ch.Plugin == plugin && len(secrets) > 0 && maps.Equal(ch.Secrets, secrets) {
			return name
		}
	}
	return ""
}

// ChangeChannel implements gateway.Channels.
func (c Channels) ChangeChannel(ctx context.Context, name string, change gateway.ChannelChange, by string) error {
	if _, ok := c.Current().Channels[name]; !ok {
		return noChannel(name)
	}
	var changes []gateway.ConfigurationChange
	set := func(value any, key string) {
		changes = append(changes, gateway.ConfigurationChange{Key: []string{"channels", name, key}, Value: value, Unset: value == nil})
	}
	if change.Enabled != nil {
		set(*change.Enabled, "enabled")
	}
	for _, key := range slices.Sorted(maps.Keys(change.Settings)) {
		if key == "plugin" {
			return fault([]gateway.Fault{{Location: "settings.plugin", Message: "a channel keeps its plugin: remove it and add another"}})
		}
		set(change.Settings[key], key)
	}
	return c.edit(ctx, "change", name, by, func(f *edit.File, _ *config.Config) error {
		if err := settings.Change(&f.Text, changes); err != nil {
			return err
		}
		next, err := f.Load(c.Editor.Getenv, c.Editor.Checks...)
		if err != nil {
			return refusal(setup.ChannelAnswers{Name: name}, err)
		}
		p, err := setup.FindPlugin(next, next.Channels[name].Plugin)
		if err != nil {
			return nil // it is reported as the state of the channel
		}
		if wrong := instances.CheckSettings(next, p.Name, p.Settings); len(wrong) > 0 {
			return refusal(setup.ChannelAnswers{Name: name}, wrong)
		}
		return nil
	})
}

// RemoveChannel implements gateway.Channels.
func (c Channels) RemoveChannel(ctx context.Context, name, by string) error {
	return c.edit(ctx, "remove", name, by, func(f *edit.File, now *config.Config) error {
		if _, ok := now.Channels[name]; !ok {
			return noChannel(name)
		}
		files, err := setup.RemoveChannel(f, now, name)
		f.IfMade(func() error { return setup.RemoveSecrets(c.unused(files)) })
		return err
	})
}

// unused are the files that no key of the configuration in force names.
func (c Channels) unused(files []string) []string {
	current := c.Current()
	return slices.DeleteFunc(files, func(path string) bool {
		for _, ch := range current.Channels {
			for _, ref := range ch.References() {
				if filepath.Clean(ref) == path {
					return true
				}
			}
		}
		return false
	})
}

func noChannel(name string) error { return store.NotFound(fmt.Sprintf("no channel %q", name)) }

// form is an asker whose person has filled in a form already.
type form struct{}

var _ setup.Asker = form{}

// Choose implements setup.Asker.
func (form) Choose(context.Context, string, []setup.Option) (string, error) {
	return "", setup.ErrNobody
}

// Text implements setup.Asker.
func (form) Text(context.Context, string, string, string, func(string) error) (string, error) {
	return "", setup.ErrNobody
}

// Secret implements setup.Asker.
func (form) Secret(context.Context, string, string) (config.Secret, error) {
	return "", setup.ErrNobody
}

// Confirm implements setup.Asker.
func (form) Confirm(context.Context, string, bool) (bool, error) { return false, setup.ErrNobody }

// Say implements setup.Asker.
func (form) Say(string) {}

// Asks implements setup.Asker.
func (form) Asks() bool { return false }
