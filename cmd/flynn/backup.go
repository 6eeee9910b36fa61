package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"
	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/backup"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

func backupCommand() *cli.Command {
	return &cli.Command{
		Name: "backup", Category: groupOperate, Usage: "make, list and check encrypted backups",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "make a backup now", Action: withConfig(createBackup),
				Description: "Copies flynn.toml, the files beside it that it names, the database as it is at one moment, secrets, media, workspaces, plugins\n" +
					"and policies into one encrypted file. A running flynn goes on. Without flags it goes where [backup] says, for its keys.\n" +
					"The programs age and tar open it too.",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "to", Usage: "make it in the folder `DIR`"},
					&cli.StringSliceFlag{Name: "recipient", Usage: "encrypt it to the public `KEY` of age, which flynn backup key prints"},
					passphraseFlag(),
				},
			},
			{Name: "list", Usage: "list the backups in a folder, latest first", ArgsUsage: "[DIR]", Action: listBackups},
			{
				Name: "verify", Usage: "read all of a backup and check it", ArgsUsage: "FILE", Action: verifyBackup,
				Description: "Decrypts it, compares each file with the list in it, and has the database checked. Nothing is restored.",
				Flags:       []cli.Flag{keyFlag(), passphraseFlag()},
			},
			{
				Name: "key", Usage: "make a key for backups", ArgsUsage: "FILE", Action: backupKey,
				Description: "Writes the secret key to FILE, which must not exist, and prints the public one, which goes to recipients in [backup]. Keep FILE\n" +
					"elsewhere than on this machine: without it no backup can be opened.",
			},
		},
	}
}

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Category: groupOperate, Usage: "put a backup back", ArgsUsage: "FILE", Action: restoreBackup,
		Description: "Restores flynn.toml to where --config says, and the store to where flynn.toml has it. Neither may exist. All of the backup is\n" +
			"checked before anything is there. Stop the host from which it was made first.",
		Flags: []cli.Flag{
			keyFlag(), passphraseFlag(),
			&cli.StringFlag{Name: "store", Usage: "restore the store to the folder `DIR`, and have flynn.toml name it"},
		},
	}
}

func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "open it with the secret key in `FILE`"}
}

func passphraseFlag() cli.Flag {
	return &cli.StringFlag{Name: "passphrase-file", Usage: "take the passphrase from `FILE`; - reads standard input"}
}

// passphrase returns the passphrase that the flag names, or "".
func passphrase(ctx context.Context, cmd *cli.Command) (config.Secret, error) {
	file := cmd.String("passphrase-file")
	switch file {
	case "":
		return "", nil
	case "-":
		return readSecret(ctx, cmd, "passphrase")
	}
	secret, err := setup.ReadSecret(file)
	if err != nil {
		return "", fmt.Errorf("read the passphrase in %s: %w", file, err)
	}
	return secret, nil
}

func createBackup(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	to := cmp.Or(cmd.String("to"), c.Backup.To)
	if to == "" {
		return usageError{errors.New("name a folder: --to DIR, or to in [backup]")}
	}
	pass, err := passphrase(ctx, cmd)
	if err != nil {
		return err
	}
	recipients := cmd.StringSlice("recipient")
	if pass == "" && len(recipients) == 0 {
		pass, recipients = c.Backup.Passphrase, c.Backup.Recipients
	}
	keys, err := backup.Recipients(recipients, pass)
	if err != nil {
		return usageError{err}
	}
	o := newOutput(ctx, cmd)
	m, err := backup.Make(ctx, c, getenvOf(ctx), to, keys, time.Now())
	if err != nil {
		return err
	}
	for _, left := range m.Left {
		o.done("left out: %s: %s", left.Path, left.Why)
	}
	return o.result(m, "%s", m.Path)
}

func listBackups(ctx context.Context, cmd *cli.Command) error {
	dir := cmd.Args().First()
	if dir == "" {
		c, err := loadConfig(ctx, cmd)
		if err != nil {
			return err
		}
		if dir = c.Backup.To; dir == "" {
			return usageError{errors.New("name a folder, or set to in [backup]")}
		}
	}
	all, err := backup.List(dir)
	if err != nil {
		return err
	}
	return printListOr(newOutput(ctx, cmd), all, "There are no backups in "+dir+".", []string{"MADE", "BYTES", "FILE"}, func(k backup.Kept) []string {
		return []string{k.Time.Format(time.RFC3339), number(k.Bytes), k.Path}
	})
}

// identities returns what opens the backup that a command is about.
func identities(ctx context.Context, cmd *cli.Command) (file string, keys []age.Identity, err error) {
	pass, err := passphrase(ctx, cmd)
	if err == nil && pass == "" && cmd.String("key") == "" && isTerminal(cmd.Root().Reader) {
		pass, err = readSecret(ctx, cmd, "passphrase")
	}
	if err != nil {
		return "", nil, err
	}
	keys, err = backup.Identities(cmd.String("key"), pass)
	return cmd.Args().First(), keys, err
}

func verifyBackup(ctx context.Context, cmd *cli.Command) error {
	file, keys, err := identities(ctx, cmd)
	if err != nil {
		return err
	}
	r, err := backup.Verify(ctx, file, keys)
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).result(r, "%s is whole: %d files, made %s on %s by flynn %s.", file, r.Files, r.Made.Format(time.RFC3339), r.Host, r.Flynn)
}

func restoreBackup(ctx context.Context, cmd *cli.Command) error {
	file, keys, err := identities(ctx, cmd)
	if err != nil {
		return err
	}
	r, err := backup.Restore(ctx, file, keys, backup.Target{Config: configPath(ctx, cmd), Store: cmd.String("store")})
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	for _, left := range r.Left {
		o.done("not in the backup: %s: %s", left.Path, left.Why)
	}
	return o.success(r, "Restored %d files of %s to %s and %s. Stop the old host, then look: flynn --config %s doctor",
		r.Files, r.Made.Format(time.RFC3339), r.Config, r.Store, config.ShellWord(r.Config))
}

func backupKey(ctx context.Context, cmd *cli.Command) error {
	file := cmd.Args().First()
	public, err := backup.NewKey(file)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	o := newOutput(ctx, cmd)
	o.done("The secret key is in %s. Keep it elsewhere than on this machine: without it no backup can be opened.", file)
	return o.result(struct {
		Public string `json:"public_key"`
		Path   string `json:"path"`
	}{public, file}, "%s", public)
}
