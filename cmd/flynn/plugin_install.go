package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/upkeep"
)

func privateFlag() cli.Flag {
	return &cli.BoolFlag{Name: "allow-private", Usage: "accept a URL that leads to this machine or its network"}
}

func installPlugin(ctx context.Context, cmd *cli.Command) error {
	u, from, err := upkeepAndName(ctx, cmd)
	if err != nil {
		return err
	}
	p, err := u.Install(ctx, from)
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

func upgradePlugin(ctx context.Context, cmd *cli.Command) error {
	return movePlugin(ctx, cmd, func(u upkeep.Upkeep, name string) (upkeep.Move, error) {
		return u.Upgrade(ctx, name, cmd.Args().Get(1))
	})
}

func rollbackPlugin(ctx context.Context, cmd *cli.Command) error {
	return movePlugin(ctx, cmd, func(u upkeep.Upkeep, name string) (upkeep.Move, error) { return u.Rollback(ctx, name) })
}

func movePlugin(ctx context.Context, cmd *cli.Command, do func(u upkeep.Upkeep, name string) (upkeep.Move, error)) error {
	u, name, err := upkeepAndName(ctx, cmd)
	if err != nil {
		return err
	}
	u.Running = isRunning(ctx, cmd)
	done, err := do(u, name)
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).result(done, "%s %s, before: %s", done.Name, done.Version, done.From)
}

func enablePlugin(ctx context.Context, cmd *cli.Command) error { return switchPlugin(ctx, cmd, false) }

func disablePlugin(ctx context.Context, cmd *cli.Command) error { return switchPlugin(ctx, cmd, true) }

func switchPlugin(ctx context.Context, cmd *cli.Command, disabled bool) error {
	u, name, err := upkeepAndName(ctx, cmd)
	if err != nil {
		return err
	}
	if err := u.SetDisabled(ctx, name, disabled); err != nil {
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
	return !errors.Is(client.Get(ctx, c, "/api/v1/plugins", &list), client.ErrNotRunning)
}
