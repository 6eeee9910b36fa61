package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/store/transfer"
)

func storeCommand() *cli.Command {
	return &cli.Command{
		Name: "store", Category: groupOperate, Usage: "move the store between a file and Postgres",
		Commands: []*cli.Command{{
			Name: "copy", Usage: "copy a store into an empty one", Action: copyStore,
			Description: "Copies the store of a folder into a Postgres database, or back, and compares both row by row. No host may use either. An interrupted copy leaves " +
				"nothing, and can be started again.\n\nEach of the two is a folder, such as ~/.local/share/flynn, or the name of an environment variable with the " +
				"address of a database, as in [store] url_env.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "from", Usage: "copy the `STORE`", Required: true},
				&cli.StringFlag{Name: "to", Usage: "into the empty `STORE`", Required: true},
			},
		}},
	}
}

func copyStore(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	all := []transfer.Table{}
	err := admin.CopyStore(ctx, cmd.String("from"), cmd.String("to"), getenvOf(ctx), func(t transfer.Table) { all = append(all, t) })
	if err != nil {
		return err
	}
	return printListOr(o, all, "", []string{"TABLE", "ROWS", "DIGEST"}, func(t transfer.Table) []string {
		return []string{t.Name, number(t.Rows), t.Digest[:16]}
	})
}
