package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/upgrade"
	"github.com/flynnhost/flynn/host/config"
)

func upgradeCommand() *cli.Command {
	return &cli.Command{
		Name: "upgrade", Category: groupOperate,
		Usage: "report whether there is a newer release, and what it would mean for this store and its plugins",
		Description: "With --check, asks one address for the index of the latest release. Nothing of this machine is sent, and nothing is changed: a new\n" +
			"release is installed in the way in which this one was, see docs/how-to/upgrade.md.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "check", Usage: "ask, compare and print"},
			&cli.StringFlag{Name: "from", Usage: "ask `URL`, such as that of a mirror (default: $FLYNN_RELEASES, else the releases on GitHub)"},
		},
		Action: checkUpgrade,
	}
}

func checkUpgrade(ctx context.Context, cmd *cli.Command) error {
	if !cmd.Bool("check") {
		return usagef("flynn does not replace itself: flynn upgrade --check asks whether there is a newer release")
	}
	c, err := configIfAny(ctx, cmd)
	if err != nil {
		return err
	}
	r, err := upgrade.Check(ctx, cmp.Or(cmd.String("from"), getenvOf(ctx)("FLYNN_RELEASES"), upgrade.Latest), c)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(r)
	}
	printUpgrade(o, r)
	return nil
}

// configIfAny loads the configuration. Without a file there is none, unless the file was named.
func configIfAny(ctx context.Context, cmd *cli.Command) (*config.Config, error) {
	path := configPath(ctx, cmd)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && cmd.String("config") == "" && getenvOf(ctx)("FLYNN_CONFIG") == "" {
		return nil, nil
	}
	return config.LoadBeside(path, getenvOf(ctx))
}

func printUpgrade(o *output, r upgrade.Report) {
	latest, date := cell(r.Latest.Version), r.Latest.Date.UTC().Format(time.DateOnly)
	if !r.Newer {
		o.line("flynn %s is up to date: the latest release is %s of %s.", r.Running.Version, latest, date)
		return
	}
	o.line("flynn %s of %s is out; this is %s.", latest, date, r.Running.Version)
	o.line("Notes and files: %s", cell(r.Latest.Page))
	if text := storeUpgrade(r); text != "" {
		o.line("%s", text)
	}
	for _, p := range r.Plugins {
		o.line("Plugin %s: %s.", cell(p.Name), inWordsOf(p))
	}
	for _, p := range r.Policies {
		o.line("Policy %s: %s.", cell(p.Name), inWordsOf(p))
	}
}

// storeUpgrade says what the release would do with the store; "" if there is none.
func storeUpgrade(r upgrade.Report) string {
	have, next, name, keep := r.Store.Schema, r.Latest.Schema, "store in "+r.Store.Dir, "copy the folder"
	if r.Store.Database != "" {
		next, name, keep = r.Latest.Postgres, "database that "+r.Store.Database+" names", "dump the database"
	}
	switch {
	case have == 0:
		return ""
	case have == next:
		return fmt.Sprintf("The %s stays as it is (version %d): either flynn opens it.", name, have)
	case have > next:
		return fmt.Sprintf("The %s is too new for it: it has version %d, and that flynn knows versions up to %d.", name, have, next)
	}
	return fmt.Sprintf("The %s goes from version %d to %d at the first start, and this flynn then refuses it. To be able to go back, stop flynn and %s first.",
		name, have, next, keep)
}

func inWordsOf(p upgrade.Part) string {
	switch p.Outcome {
	case upgrade.Replaced:
		return "comes with flynn, and with the release: version " + cell(p.Next)
	case upgrade.Refused:
		return "version " + cell(p.Version) + " speaks another plugin contract than the release, which refuses it: ask its author for a newer version first"
	case upgrade.Gone:
		return "comes with this flynn and not with the release: take it out of the configuration, or install it from its source first"
	}
	return "version " + cell(p.Version) + " was installed here, and stays"
}
