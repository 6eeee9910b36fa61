package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func channelCommand() *cli.Command {
	return &cli.Command{
		Name: "channel", Category: groupExtend,
		Usage: "add, list, test and remove the channels that people write over",
		Commands: []*cli.Command{
			{
				Name: "add", ArgsUsage: "NAME", Usage: "add a channel to the configuration",
				Description: "Asks for the secrets and for the settings that the plugin needs, has the platform confirm the account, and adds [channels.NAME].\n" +
					"Secrets go to files of their own. Strangers who write get a code; flynn access approve lets them in, and flynn init makes an\n" +
					"owner. --set access=allowlist leaves strangers without an answer.",
				Flags: append(channelFlags()[1:], &cli.StringFlag{Name: "plugin", Usage: "use the plugin `NAME` (default: the name of the channel)"},
					plainFlag(), noCheckFlag(), dryRunFlag()),
				Action: addChannel,
			},
			{Name: "list", Usage: "list channels with their states", Action: withConfig(listChannels)},
			{
				Name: "test", ArgsUsage: "NAME", Usage: "ask the platform whether it accepts the account of a channel",
				Description: "While flynn runs, this is the state of the running channel. Otherwise the plugin is started for the test.",
				Action:      testChannel,
			},
			{
				Name: "remove", ArgsUsage: "NAME", Usage: "remove a channel from the configuration, with its secrets",
				Description: "The rules about its senders go with it: owners, members and routes. Its messages stay in the store.",
				Flags:       []cli.Flag{dryRunFlag()},
				Action:      removeChannel,
			},
		},
	}
}

func addChannel(ctx context.Context, cmd *cli.Command) error {
	f, err := openConfig(ctx, cmd)
	if err != nil {
		return err
	}
	name := cmd.Args().First()
	a := setup.Answers{NoCheck: cmd.Bool("no-check")}
	if err := channelAnswers(cmd, &a.Channel); err != nil {
		return err
	}
	a.Channel.Name, a.Channel.Plugin = name, cmp.Or(cmd.String("plugin"), name)
	s := newSetup(ctx, cmd, f.Path(), askerFor(ctx, cmd, cmd.Bool("plain")))
	defer func() { _ = s.Undo() }()
	if _, err := s.AddChannel(ctx, f, a); err != nil {
		return interruptedBy(ctx, err)
	}
	f.IfRefused(s.Undo)
	if err := saveConfig(ctx, cmd, f, fmt.Sprintf("Channel %s is added.", name)); err != nil || cmd.Bool("dry-run") {
		return err
	}
	s.Done()
	return nil
}

func listChannels(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	running, _, err := channelStates(ctx, c)
	if err != nil {
		return err
	}
	rows := setup.Channels(c, running)
	return printListOr(newOutput(ctx, cmd), rows, "no channel yet: add one with flynn channel add telegram", []string{"NAME", "PLUGIN", "ACCESS", "SENDERS", "STATE", "DETAIL"}, func(r gateway.Channel) []string {
		return []string{r.Name, r.Plugin, r.Access, r.Senders, r.State, r.Detail}
	})
}

// channelStates returns the channels of the running flynn; running is false if there is none.
func channelStates(ctx context.Context, c *config.Config) (states map[string]gateway.ChannelStatus, running bool, err error) {
	var status gateway.Status
	states = map[string]gateway.ChannelStatus{}
	err = client.Get(ctx, c, "/api/v1/status", &status)
	if isNotRunning(err) {
		return states, false, nil
	}
	for _, s := range status.Channels {
		states[s.Name] = s
	}
	return states, err == nil, err
}

func testChannel(ctx context.Context, cmd *cli.Command) error {
	name := cmd.Args().First()
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	if err := knownName("channel", name, slices.Collect(maps.Keys(c.Channels))); err != nil {
		return err
	}
	states, running, err := channelStates(ctx, c)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if running {
		s, ok := states[name]
		switch {
		case !ok:
			return fmt.Errorf("channel %s does not run: it is disabled, or flynn config check says why", name)
		case !s.OK:
			return fmt.Errorf("channel %s is %s: %s", name, s.State, cell(s.Detail))
		}
		return o.result(s, "Channel %s is %s. %s", name, s.State, cell(s.Detail))
	}
	whole, err := config.Load(configPath(ctx, cmd), getenvOf(ctx), host.Checks()...)
	if err != nil {
		return err
	}
	if whole.Store.Host != "" {
		return fmt.Errorf("channel %s is not tested, because other hosts that share the store may be using its account: start flynn here, and run this again", name)
	}
	proof, err := setup.ProveChannel(ctx, whole, name, pluginLauncher())
	if err != nil {
		return fmt.Errorf("channel %s does not work: %w", name, err)
	}
	if proof.Login {
		return fmt.Errorf("channel %s waits until a person links it to a device: start flynn, then run flynn plugin login %s", name, name)
	}
	return o.result(proof, "Channel %s works (%v). %s", name, proof.Took.Round(time.Millisecond), proof.Detail)
}

func removeChannel(ctx context.Context, cmd *cli.Command) error {
	f, err := openConfig(ctx, cmd)
	if err != nil {
		return err
	}
	name := cmd.Args().First()
	files, err := dropChannel(ctx, f, name)
	if err != nil {
		return err
	}
	f.IfMade(func() error { return setup.RemoveSecrets(files) })
	return saveConfig(ctx, cmd, f, fmt.Sprintf("Channel %s is removed.", name))
}

// dropChannel removes a channel from a file, and returns the files of its secrets.
func dropChannel(ctx context.Context, f *edit.File, name string) (secrets []string, err error) {
	c, err := f.Load(getenvOf(ctx), host.Checks()...)
	if err != nil {
		return nil, err
	}
	if err := knownName("channel", name, slices.Collect(maps.Keys(c.Channels))); err != nil {
		return nil, err
	}
	return setup.RemoveChannel(f, c, name)
}

// knownName returns an error that names the nearest of the known names.
func knownName(what, name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	if near := config.Nearest(name, known); near != "" {
		return fmt.Errorf("no %s %s (did you mean %q?)", what, strconv.Quote(name), near)
	}
	slices.Sort(known)
	if len(known) == 0 {
		return fmt.Errorf("no %s %q: there is none yet; run flynn %s add", what, name, what)
	}
	return fmt.Errorf("no %s %q: there is %s", what, name, strings.Join(known, ", "))
}
