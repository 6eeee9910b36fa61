package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

func privateFlag() cli.Flag {
	return &cli.BoolFlag{Name: "allow-private", Usage: "accept a URL that leads to this machine or its network"}
}

// obtain returns how a plugin is fetched and checked: the keys to trust, and the settings that it must accept.
func obtain(ctx context.Context, cmd *cli.Command) plugin.Obtain {
	o := plugin.Obtain{Client: fetch.Client{Private: cmd.Bool("allow-private")}}
	o.Trust.Table = "[plugin_trust]"
	if c := configOf(ctx, cmd); c != nil {
		o.Trust = instances.Trust(c)
		o.Accept = func(m plugin.Manifest, s *plugin.Settings) error {
			return againstSettings(instances.CheckSettings(c, m.Name, s), m.Name, m.Version)
		}
	}
	return o
}

// againstSettings returns the error for a version of a plugin that does not accept the settings of its configured instances.
func againstSettings(wrong config.Errors, name, version string) error {
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("plugin %s %s does not accept its settings in flynn.toml; correct them, then run the same command again:\n%v", name, version, wrong)
}

// fitsSettings checks the configuration against the settings of an installed version.
func fitsSettings(ctx context.Context, cmd *cli.Command, store *plugin.Store, name, version string) error {
	c := configOf(ctx, cmd)
	if c == nil {
		return nil
	}
	s, err := store.Settings(name, version)
	if err != nil {
		return err
	}
	return againstSettings(instances.CheckSettings(c, name, s), name, version)
}

func installPlugin(ctx context.Context, cmd *cli.Command) error {
	store, from, err := storeAndName(ctx, cmd)
	if err != nil {
		return err
	}
	p, err := store.InstallFrom(ctx, from, obtain(ctx, cmd))
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		return out.json(p.Locked)
	}
	what := "installed"
	if p.Known {
		what = "already installed:"
	}
	out.line("%s %s %s, %d files, %s", what, p.Name, p.Version, len(p.Files), signedBy(p.Signer))
	showPermissions(out, p.Manifest)
	return nil
}

func signedBy(signer string) string {
	if signer == "" {
		return "not signed"
	}
	return "signed by " + signer
}

// moved is the result of an upgrade or a rollback.
type moved struct {
	Name    string `json:"name"`
	From    string `json:"from"`
	Version string `json:"version"`
	Running bool   `json:"running"` // a running flynn has tried it
}

func upgradePlugin(ctx context.Context, cmd *cli.Command) error {
	from := cmd.Args().Get(1)
	store, name, err := storeAndName(ctx, cmd)
	if err != nil {
		return err
	}
	before, err := store.Record(name)
	if err != nil {
		return err
	}
	o := obtain(ctx, cmd)
	o.Beside, o.Name = true, name
	p, err := store.InstallFrom(ctx, from, o)
	if err != nil {
		return err
	}
	return movePlugin(ctx, cmd, store, before, p.Version)
}

func rollbackPlugin(ctx context.Context, cmd *cli.Command) error {
	store, name, err := storeAndName(ctx, cmd)
	if err != nil {
		return err
	}
	before, err := store.Record(name)
	if err != nil {
		return err
	}
	version, err := before.RollbackTarget()
	if err != nil {
		return err
	}
	if err := fitsSettings(ctx, cmd, store, name, version); err != nil {
		return err
	}
	return movePlugin(ctx, cmd, store, before, version)
}

// movePlugin makes a version the active one: at once if no flynn runs, else after a trial by the running one.
func movePlugin(ctx context.Context, cmd *cli.Command, store *plugin.Store, before plugin.Record, version string) error {
	done := moved{Name: before.Name, From: before.Active, Version: version, Running: isRunning(ctx, cmd)}
	var err error
	switch {
	case version == before.Active:
		return fmt.Errorf("plugin %s runs in version %s already", before.Name, version)
	case done.Running && !before.Disabled:
		if err = store.Propose(before.Name, version); err == nil {
			err = awaitTrial(ctx, store, before.Name, version)
		}
	default:
		err = store.Activate(before.Name, version)
	}
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).result(done, "%s %s, before: %s", done.Name, done.Version, done.From)
}

const (
	trialTime = 3 * time.Minute
	trialPoll = 100 * time.Millisecond
)

// awaitTrial waits until a running flynn has accepted or rejected a version.
func awaitTrial(ctx context.Context, store *plugin.Store, name, version string) error {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	for {
		r, err := store.Record(name)
		switch {
		case err != nil:
			return err
		case r.Next == version:
		case r.Active == version:
			return nil
		case len(r.Rejected) > 0 && r.Rejected[0].Version == version:
			return fmt.Errorf("plugin %s stays at %s, which keeps running: %s: correct that, then run the same command again", name, r.Active, r.Rejected[0].Why)
		default:
			return fmt.Errorf("plugin %s stays at %s: the upgrade was called off", name, r.Active)
		}
		select {
		case <-time.After(trialPoll):
		case <-ctx.Done():
			return fmt.Errorf("plugin %s: the running flynn has not tried version %s: see its log", name, version)
		}
	}
}

func enablePlugin(ctx context.Context, cmd *cli.Command) error { return switchPlugin(ctx, cmd, false) }

func disablePlugin(ctx context.Context, cmd *cli.Command) error { return switchPlugin(ctx, cmd, true) }

func switchPlugin(ctx context.Context, cmd *cli.Command, disabled bool) error {
	store, name, err := storeAndName(ctx, cmd)
	if err != nil {
		return err
	}
	if !disabled {
		r, err := store.Record(name)
		if err != nil {
			return err
		}
		if err := fitsSettings(ctx, cmd, store, name, r.Active); err != nil {
			return err
		}
	}
	if err := store.Provide(ctx, buildLog(cmd), name); err != nil { // one that comes with flynn and was not used yet
		return err
	}
	if err := store.SetDisabled(name, disabled); err != nil {
		return err
	}
	answer := map[string]any{"name": name, "disabled": disabled}
	return newOutput(ctx, cmd).success(answer, "%s is %s", name, map[bool]string{true: "disabled", false: "enabled"}[disabled])
}

// pluginAuthorCommands returns the commands for authors of plugins.
func pluginAuthorCommands() []*cli.Command {
	return []*cli.Command{
		pluginNewCommand(), pluginConformCommand(),
		{Name: "build", Usage: "compile a Go plugin to the path in plugin.toml", ArgsUsage: "DIR", Action: buildPlugin},
		{Name: "keygen", Usage: "generate a key to sign plugins with, and print its public half", ArgsUsage: "FILE", Action: generateKey},
		{
			Name: "sign", Usage: "write a plugin's checksums and sign them", ArgsUsage: "DIR", Action: signPlugin,
			Description: "Writes plugin.sums, which sha256sum -c reads, and plugin.sig.",
			Flags:       []cli.Flag{&cli.StringFlag{Name: "key", Usage: "sign with the private key in `FILE`", Required: true}},
		},
		{
			Name: "pack", Usage: "pack a plugin with the programs of all its platforms into an archive", ArgsUsage: "DIR", Action: packPlugin,
			Flags: []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write `FILE` (default: NAME-VERSION.tar.gz)"}},
		},
	}
}

func buildPlugin(ctx context.Context, cmd *cli.Command) error {
	out := newOutput(ctx, cmd)
	program, err := plugin.Build(ctx, cmd.Args().First(), out.err)
	if err != nil {
		return err
	}
	return out.result(map[string]string{"program": program}, "%s", program)
}

// generateKey generates a key that signs plugins and policies alike.
func generateKey(ctx context.Context, cmd *cli.Command) error {
	file := cmd.Args().First()
	key, err := signing.Generate(file)
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).result(map[string]string{"file": file, "key": string(key)}, "%s", key)
}

func signPlugin(ctx context.Context, cmd *cli.Command) error {
	dir := cmd.Args().First()
	private, err := signing.ReadPrivate(cmd.String("key"))
	if err != nil {
		return err
	}
	m, err := plugin.Sign(dir, private)
	if err != nil {
		return err
	}
	signer := string(signing.Of(private))
	return newOutput(ctx, cmd).success(map[string]string{"name": m.Name, "version": m.Version, "signer": signer},
		"%s %s is signed by %s. Pack it with: flynn plugin dev pack %s", m.Name, m.Version, signer, dir)
}

func packPlugin(ctx context.Context, cmd *cli.Command) error {
	var packed bytes.Buffer
	m, err := plugin.Pack(cmd.Args().First(), &packed)
	if err != nil {
		return err
	}
	file := cmp.Or(cmd.String("output"), fmt.Sprintf("%s-%s.tar.gz", m.Name, m.Version))
	sum := digest.Of(packed.Bytes())
	if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
		return err
	}
	answer := map[string]string{"name": m.Name, "version": m.Version, "file": file, "sha256": sum}
	return newOutput(ctx, cmd).result(answer, "%s#sha256=%s", file, sum)
}

// isRunning reports whether the configuration's flynn runs.
func isRunning(ctx context.Context, cmd *cli.Command) bool {
	c := configOf(ctx, cmd)
	if c == nil {
		return false
	}
	var list any
	return !errors.Is(client.Ask(ctx, c, "/api/v1/plugins", nil, &list), client.ErrNotRunning)
}
