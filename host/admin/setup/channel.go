package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/internal/schema"
)

// Channel is a chosen channel.
type Channel struct {
	Name     string
	Plugin   Plugin
	Settings map[string]any
	Secrets  map[string]config.Secret // to be written to files
	Envs     map[string]string        // variables that the configuration names
	Proof    ChannelProof
}

// AskChannel finds out which channel to add to a configuration; nil for none. Nothing is proved yet.
func (s *Setup) AskChannel(ctx context.Context, c *config.Config, a ChannelAnswers) (*Channel, error) {
	name, err := s.askPlugin(ctx, c, a)
	if err != nil || name == "" {
		return nil, err
	}
	p, err := FindPlugin(c, name)
	if err != nil {
		return nil, err
	}
	ch := &Channel{Name: a.Name, Plugin: p, Settings: maps.Clone(a.Settings), Secrets: map[string]config.Secret{}, Envs: maps.Clone(a.Envs)}
	if ch.Name == "" {
		ch.Name = name
	}
	if err := ValidChannelName(ch.Name); err != nil {
		return nil, err
	}
	if ch.Settings == nil {
		ch.Settings = map[string]any{}
	}
	if err := ch.parse(a.Texts); err != nil {
		return nil, err
	}
	for name := range a.Files {
		if !slices.Contains(p.Config.Secrets, name) {
			return nil, fmt.Errorf("plugin %s has no secret %q: it has %s", p.Name, name, strings.Join(p.Config.Secrets, ", "))
		}
	}
	if a.Secrets != nil { // somebody filled in a form
		maps.Copy(ch.Secrets, a.Secrets)
		return ch, nil
	}
	if err := s.askSecrets(ctx, ch, a.Files); err != nil {
		return nil, err
	}
	return ch, s.askSettings(ctx, ch)
}

// hostKeys are the keys of a channel that are the host's and not the plugin's.
func hostKeys() []schema.Field {
	words, flag := []string{"string"}, []string{"boolean"}
	return []schema.Field{
		{Key: "access", Types: words}, {Key: "access_groups", Types: words}, {Key: "queue", Types: words},
		{Key: "enabled", Types: flag}, {Key: "critical", Types: flag}, {Key: "stream", Types: flag}, {Key: "trust_senders", Types: flag},
	}
}

// parse reads settings as they were typed. The names are checked together with the whole configuration.
func (ch *Channel) parse(texts map[string]string) error {
	fields := append(hostKeys(), ch.Plugin.Settings.Fields()...)
	for key, text := range texts {
		f := schema.Field{Key: key}
		if i := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Key == key }); i >= 0 {
			f = fields[i]
		}
		value, err := ParseSetting(f, text)
		if err != nil {
			return fmt.Errorf("--set %s: %w", key, err)
		}
		ch.Settings[key] = value
	}
	return nil
}

// ValidChannelName reports what is wrong with the name of a channel.
func ValidChannelName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`).MatchString(name) {
		return fmt.Errorf("%q cannot name a channel: use 1 to 40 letters, digits, - or _", name)
	}
	return nil
}

func (s *Setup) askPlugin(ctx context.Context, c *config.Config, a ChannelAnswers) (string, error) {
	if a.Plugin != "" || a.None {
		return a.Plugin, nil
	}
	names := ChannelPlugins(c)
	if len(names) == 0 {
		return "", nil
	}
	options := []Option{}
	for _, name := range names {
		title := name
		if p, err := FindPlugin(c, name); err == nil && p.Description != "" {
			title = p.Description
		}
		options = append(options, Option{name, title})
	}
	name, err := s.Asker.Choose(ctx, "Over which channel shall people talk to it?", append(options, Option{"", "none: the web page and the terminal are enough"}))
	if errors.Is(err, ErrNobody) {
		return "", nil
	}
	return name, err
}

// askSecrets gets the secrets that the plugin may have.
func (s *Setup) askSecrets(ctx context.Context, ch *Channel, files map[string]string) error {
	for _, name := range ch.Plugin.Config.Secrets {
		if _, ok := ch.Envs[name]; ok {
			continue
		}
		if path, ok := files[name]; ok {
			secret, err := ReadSecret(path)
			if err != nil {
				return err
			}
			ch.Secrets[name] = secret
			continue
		}
		help := "it is stored in a file that only you can read"
		if len(ch.Plugin.Config.Secrets) > 1 {
			help = "leave it empty if there is none"
		} else if said := SecretHelp(ch.Plugin.Name, name); said != "" {
			help = said
		}
		secret, err := s.Asker.Secret(ctx, strings.ReplaceAll(name, "_", " ")+" of "+ch.Name, help)
		switch {
		case errors.Is(err, ErrNobody) && len(ch.Plugin.Config.Secrets) > 1:
		case err != nil:
			return without(err, "--secret-file "+name+"=FILE")
		case secret != "":
			ch.Secrets[name] = secret
		}
	}
	return nil
}

// SecretHelp says where a secret comes from; "" if that is not known here.
func SecretHelp(plugin, secret string) string {
	if plugin == "telegram" && secret == "token" {
		return "write /newbot to @BotFather in Telegram, and paste the token that he answers with"
	}
	return ""
}

// askSettings asks for the settings that the plugin's schema requires.
func (s *Setup) askSettings(ctx context.Context, ch *Channel) error {
	for _, f := range ch.Plugin.Settings.Fields() {
		if _, ok := ch.Settings[f.Key]; ok || !f.Required {
			continue
		}
		text, err := s.Asker.Text(ctx, f.Key+" of "+ch.Name, prove.OneLine(f.Description), "", func(text string) error {
			_, err := ParseSetting(f, text)
			return err
		})
		if err != nil {
			return without(err, "--set "+f.Key+"=VALUE")
		}
		if ch.Settings[f.Key], err = ParseSetting(f, text); err != nil {
			return err
		}
	}
	return nil
}

// ParseSetting reads a setting as people type it, by the types that the schema allows.
func ParseSetting(f schema.Field, text string) (any, error) {
	can := func(t string) bool { return slices.Contains(f.Types, t) }
	if b, err := strconv.ParseBool(text); err == nil && can("boolean") {
		return b, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && (can("integer") || can("number")) {
		return n, nil
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && can("number") {
		return x, nil
	}
	switch {
	case can("array"):
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), nil
	case can("string"), len(f.Types) == 0:
		if text == "" && f.Required {
			return nil, fmt.Errorf("%s is needed", f.Key)
		}
		return text, nil
	}
	return nil, fmt.Errorf("%s must be of type %s", f.Key, strings.Join(f.Types, " or "))
}

// Put writes the channel into a file, with files as the paths of its secrets.
func (ch *Channel) Put(f *edit.File, files map[string]string) error {
	if f.Has("channels", ch.Name) {
		return fmt.Errorf("there is a channel %q already: choose another name, or run flynn channel remove %s", ch.Name, ch.Name)
	}
	return f.Set(ch.table(files), "channels", ch.Name)
}

func (ch *Channel) table(files map[string]string) edit.Table {
	t := edit.Table{"plugin": ch.Plugin.Name}
	maps.Copy(t, ch.Settings)
	for name, path := range files {
		t[name+"_file"] = path
	}
	for name, variable := range ch.Envs {
		t[name+"_env"] = variable
	}
	return t
}

// SecretName names the file of a secret.
func (ch *Channel) SecretName(name string) string { return ch.Name + "_" + name }

// prove proves the channel under a configuration that has it. The secrets need not be in their files yet.
func (s *Setup) prove(ctx context.Context, c *config.Config, ch *Channel) error {
	s.Asker.Say("Asking " + ch.Plugin.Name + " whether it knows the account…")
	in := c.Channels[ch.Name]
	in.Secrets = maps.Clone(ch.Secrets)
	for name, variable := range ch.Envs {
		in.Secrets[name] = config.Secret(s.Getenv(variable))
	}
	channels := maps.Clone(c.Channels)
	channels[ch.Name] = in
	with := *c
	with.Channels = channels
	proof, err := ProveChannel(ctx, &with, ch.Name, s.Launcher)
	if err != nil {
		return err
	}
	ch.Proof = proof
	if proof.Login {
		s.Asker.Say("It waits until a person links it to a device. Once flynn runs, scan the code of: flynn plugin login " + ch.Name)
		return nil
	}
	s.Asker.Say(strings.TrimSpace(fmt.Sprintf("It does, after %v: %s", proof.Took.Round(time.Millisecond), proof.Detail)))
	return nil
}
