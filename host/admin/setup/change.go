package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
)

// change shows what is set up, and changes one thing.
func (s *Setup) change(ctx context.Context, f *edit.File, a Answers) (Result, error) {
	c, err := f.Load(s.Getenv, s.Checks...)
	if err != nil {
		return Result{}, err
	}
	s.Asker.Say(s.Path + " is there already:\n" + Summary(c))
	what, err := s.whatToChange(ctx, a)
	if err != nil {
		return Result{}, err
	}
	answers := c.Models["default"]
	r := Result{Path: s.Path, Model: cmp.Or(answers.Model, answers.Provider)}
	switch what {
	case "model":
		return s.changeModel(ctx, f, a, r)
	case "channel":
		return s.oneMoreChannel(ctx, f, c, a, r)
	case "owner":
		return s.changeOwner(ctx, f, c, a, r)
	}
	return r, nil
}

func (s *Setup) changeModel(ctx context.Context, f *edit.File, a Answers, r Result) (Result, error) {
	name, err := s.AddModel(ctx, f, "default", a)
	if err != nil {
		return r, err
	}
	r.Model, r.Changed = name, f.Diff() != ""
	return r, s.save(ctx, f, a)
}

func (s *Setup) oneMoreChannel(ctx context.Context, f *edit.File, c *config.Config, a Answers, r Result) (Result, error) {
	ch, err := s.addChannel(ctx, f, a, SecretsDir(c))
	if err != nil || ch == nil {
		return r, err
	}
	if err := s.save(ctx, f, a); err != nil {
		return r, err
	}
	r.Channel, r.Changed = ch.Name, true
	r.Owner, err = s.owner(ctx, f, ch.Name, ch.Proof.Senders, a)
	return r, err
}

func (s *Setup) whatToChange(ctx context.Context, a Answers) (string, error) {
	model, channel := a.Model != (ModelAnswers{}), a.Channel.Plugin != ""
	switch {
	case model && channel:
		return "", errors.New("one thing at a time: change the model and the channel of an existing configuration in two runs")
	case model:
		return "model", nil
	case channel:
		return "channel", nil
	case a.Channel.Owner != "":
		return "owner", nil
	}
	what, err := s.Asker.Choose(ctx, "What shall change?", []Option{
		{"", "nothing"}, {"model", "the model"}, {"channel", "one more channel"}, {"owner", "one more owner"},
	})
	if errors.Is(err, ErrNobody) {
		return "", nil
	}
	return what, err
}

func (s *Setup) changeOwner(ctx context.Context, f *edit.File, c *config.Config, a Answers, r Result) (Result, error) {
	channel, _, named := strings.Cut(a.Channel.Owner, ":")
	if !named || c.Channels[channel].Plugin == "" {
		var options []Option
		for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
			options = append(options, Option{name, name})
		}
		if len(options) == 0 {
			return r, errors.New("there is no channel yet: run flynn channel add")
		}
		var err error
		if channel, err = s.Asker.Choose(ctx, "On which channel?", options); err != nil {
			return r, without(err, "--owner CHANNEL:ID")
		}
	}
	if a.Channel.Owner == "" && c.AccessOn(channel).Mode != config.AccessPair {
		if err := f.Set(config.AccessPair, "channels", channel, "access"); err != nil {
			return r, err
		}
		if err := s.save(ctx, f, a); err != nil {
			return r, err
		}
	}
	owner, err := s.owner(ctx, f, channel, new(access.Proofs).Under(c)(channel), a)
	r.Owner, r.Channel, r.Changed = owner, channel, owner != ""
	return r, err
}

// Summary describes a configuration in a few lines.
func Summary(c *config.Config) string {
	var b strings.Builder
	line := func(what string, names []string) {
		if len(names) == 0 {
			names = []string{"none"}
		}
		fmt.Fprintf(&b, "  %-9s %s\n", what, strings.Join(names, ", "))
	}
	line("agents", slices.Sorted(maps.Keys(c.Agents)))
	var models []string
	for _, tier := range slices.Sorted(maps.Keys(c.Models)) {
		models = append(models, tier+" = "+c.Models[tier].Title())
	}
	line("models", models)
	line("channels", slices.Sorted(maps.Keys(c.Channels)))
	line("owners", c.Access.Owners)
	return strings.TrimSuffix(b.String(), "\n")
}
