package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Category: groupStart,
		Usage: "set flynn up: a model, a channel, and you as its owner",
		Description: "Looks for API keys in the environment, for model servers and for a container engine, asks what it cannot know, has the model\n" +
			"and the channel prove that they work, and writes flynn.toml and its secrets. Run again it shows what there is and changes one\n" +
			"thing. Ctrl-C at any question leaves everything as it was.\n\n" +
			"Without a terminal nothing is asked: flags and --file answer. TERM=dumb, ACCESSIBLE or --plain ask in plain lines.\n" +
			"A file of answers is TOML: [model] provider, model, base_url, api_key_env, api_key_file; [channel] plugin, name, owner,\n" +
			"settings, secret_files, secret_envs; listen, yes.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "write flynn.toml into `DIR` (default: where --config or FLYNN_CONFIG says, else here)"},
			&cli.StringFlag{Name: "file", Usage: "read answers from the TOML file `FILE`"},
			&cli.StringFlag{Name: "channel", Usage: "add a channel with the plugin `NAME`"},
			&cli.BoolFlag{Name: "no-channel", Usage: "add no channel"},
			&cli.StringFlag{Name: "owner", Usage: "make the sender `ID` the owner, instead of the first one who writes"},
			&cli.StringFlag{Name: "listen", Usage: "the web page's `ADDRESS` (default: 127.0.0.1:7351, or a free port)"},
			&cli.StringSliceFlag{Name: "plugin-dir", Usage: "use the plugin in a folder without installing it: `NAME=DIR`"},
			&cli.BoolFlag{Name: "start", Usage: "start flynn at the end, and keep it running until Ctrl-C"},
			plainFlag(), yesFlag(), noCheckFlag(),
		}, append(modelFlags(), channelFlags()...)...),
		Action: runInit,
	}
}

func plainFlag() cli.Flag {
	return &cli.BoolFlag{Name: "plain", Usage: "ask in plain lines, even of a pipe"}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "write changes without asking"}
}

func noCheckFlag() cli.Flag {
	return &cli.BoolFlag{Name: "no-check", Usage: "do not ask the model or the platform whether it works"}
}

func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model-provider", Usage: "take the model of `NAME`: " + strings.Join(setup.MakerNames(), ", ")},
		&cli.StringFlag{Name: "model", Usage: "the `NAME` of the model, as the provider calls it"},
		&cli.StringFlag{Name: "base-url", Usage: "the `ADDRESS` of the model server"},
		&cli.StringFlag{Name: "api-key-env", Usage: "read the API key from the environment variable `NAME`, now and at each start"},
		&cli.StringFlag{Name: "api-key-file", Usage: "copy the API key from `FILE`"},
	}
}

func channelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "call the channel `NAME` (default: that of the plugin)"},
		&cli.StringSliceFlag{Name: "set", Usage: "a setting of the channel's plugin: `KEY=VALUE`"},
		&cli.StringFlag{Name: "token-file", Usage: "copy the channel's token from `FILE`"},
		&cli.StringSliceFlag{Name: "secret-file", Usage: "copy a secret of the channel from a file: `NAME=FILE`"},
		&cli.StringSliceFlag{Name: "secret-env", Usage: "read a secret of the channel from a variable, now and at each start: `NAME=VARIABLE`"},
	}
}

// modelAnswers adds the flags to the answers of a file.
func modelAnswers(cmd *cli.Command, a *setup.ModelAnswers) {
	for flag, into := range map[string]*string{
		"model-provider": &a.Provider, "model": &a.Model, "base-url": &a.BaseURL, "api-key-env": &a.APIKeyEnv, "api-key-file": &a.APIKeyFile,
	} {
		*into = cmp.Or(cmd.String(flag), *into)
	}
}

func channelAnswers(cmd *cli.Command, a *setup.ChannelAnswers) error {
	a.Name, a.Owner = cmp.Or(cmd.String("name"), a.Name), cmp.Or(cmd.String("owner"), a.Owner)
	if a.Files == nil {
		a.Files = map[string]string{}
	}
	if file := cmd.String("token-file"); file != "" {
		a.Files["token"] = file
	}
	if err := assign(cmd, "secret-file", a.Files); err != nil {
		return err
	}
	envs := map[string]string{}
	if err := assign(cmd, "secret-env", envs); err != nil {
		return err
	}
	if len(envs) > 0 {
		a.Envs = envs
	}
	settings := map[string]string{}
	if err := assign(cmd, "set", settings); err != nil {
		return err
	}
	if a.Texts == nil {
		a.Texts = settings
	}
	return nil
}

// assign reads a flag of the form NAME=VALUE that may be repeated.
func assign(cmd *cli.Command, flag string, into map[string]string) error {
	for _, text := range cmd.StringSlice(flag) {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return usagef("--%s %q: must have the form NAME=VALUE", flag, text)
		}
		into[name] = value
	}
	return nil
}

func initAnswers(cmd *cli.Command) (a setup.Answers, err error) {
	if file := cmd.String("file"); file != "" {
		if a, err = setup.ReadAnswers(file); err != nil {
			return a, err
		}
	}
	modelAnswers(cmd, &a.Model)
	if cmd.Bool("no-channel") && cmd.String("channel") != "" {
		return a, usagef("--channel and --no-channel contradict each other")
	}
	a.Channel.Plugin = cmp.Or(cmd.String("channel"), a.Channel.Plugin)
	a.Channel.None = a.Channel.None || cmd.Bool("no-channel")
	a.Listen = cmp.Or(cmd.String("listen"), a.Listen)
	a.Yes, a.NoCheck = a.Yes || cmd.Bool("yes"), a.NoCheck || cmd.Bool("no-check")
	if a.Plugins == nil {
		a.Plugins = map[string]string{}
	}
	if err := assign(cmd, "plugin-dir", a.Plugins); err != nil {
		return a, err
	}
	for name, dir := range a.Plugins {
		if a.Plugins[name], err = filepath.Abs(dir); err != nil {
			return a, err
		}
	}
	return a, channelAnswers(cmd, &a.Channel)
}

func runInit(ctx context.Context, cmd *cli.Command) error {
	a, err := initAnswers(cmd)
	if err != nil {
		return err
	}
	path := configPath(ctx, cmd)
	if dir := cmd.String("dir"); dir != "" {
		path = filepath.Join(dir, "flynn.toml")
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	asker := askerFor(ctx, cmd, cmd.Bool("plain"))
	s := newSetup(ctx, cmd, path, asker)
	s.Places = setup.UsualPlaces(getenvOf(ctx))
	r, err := s.Run(ctx, a)
	if err != nil {
		return interruptedBy(ctx, err)
	}
	return finishInit(ctx, cmd, asker, r)
}

// interruptedBy is the error of a command whose questions were ended by Ctrl-C.
func interruptedBy(ctx context.Context, err error) error {
	if errors.Is(err, setup.ErrAborted) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exited{setup.ErrAborted, exitSignal + int(syscall.SIGINT)}
	}
	return err
}

func newSetup(ctx context.Context, cmd *cli.Command, path string, asker setup.Asker) *setup.Setup {
	return setup.New(setup.Config{
		Path: path, Getenv: getenvOf(ctx), Checks: host.Checks(), Launcher: pluginLauncher(), Asker: asker,
		Hosts: hosts{getenv: getenvOf(ctx)},
	})
}

// finishInit starts flynn, or says how.
func finishInit(ctx context.Context, cmd *cli.Command, asker setup.Asker, r setup.Result) error {
	o := newOutput(ctx, cmd)
	_, running, err := runningOn(ctx, r.Path, getenvOf(ctx))
	if err != nil {
		return err
	}
	if o.asJSON && !cmd.Bool("start") {
		return o.json(r)
	}
	command := config.CommandLine(r.Path, "serve")
	if running {
		o.done("Flynn runs on it%s.", map[bool]string{true: ", with what has changed"}[r.Changed])
		return nil
	}
	start := cmd.Bool("start")
	if !start && r.Changed {
		start, err = asker.Confirm(ctx, "Start flynn now, here in the terminal?", true)
		if err != nil && !errors.Is(err, setup.ErrNobody) && !errors.Is(err, setup.ErrAborted) {
			return err
		}
	}
	if !start && r.Changed && asker.Asks() {
		if served, err := offerService(ctx, cmd, asker, r.Path); served || err != nil {
			return err
		}
	}
	if !start {
		o.done("Start it with: %s", command)
		return nil
	}
	return serveAt(ctx, cmd, r.Path)
}
