package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
)

func secretCommand() *cli.Command {
	return &cli.Command{
		Name: "secret", Category: groupExtend,
		Usage: "store secrets in files that only you can read",
		Commands: []*cli.Command{
			{
				Name: "set", ArgsUsage: "NAME", Usage: "store a secret that is typed, or read from standard input",
				Description: "The secret goes to the file NAME in the folder secrets of the store, with mode 0600. Refer to it in flynn.toml by a key that ends\n" +
					"in _file. It is never an argument: those can be seen by every program. A running flynn takes up the new secret.",
				Action: withConfig(setSecret),
			},
		},
	}
}

// stored is the JSON of flynn secret set.
type stored struct {
	Path       string `json:"path"`
	Running    bool   `json:"running"`
	Generation uint64 `json:"generation,omitempty"`
}

func setSecret(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	name := cmd.Args().First()
	if err := setup.ValidSecretName(name); err != nil {
		return usageError{err}
	}
	secret, err := readSecret(ctx, cmd, name)
	if err != nil {
		return err
	}
	o, s := newOutput(ctx, cmd), stored{Path: filepath.Join(setup.SecretsDir(c), name), Running: true}
	value := map[string]string{"value": secret.Reveal()}
	kept, err := askOrRead(ctx, c, http.MethodPut, "/api/v1/secrets/"+name, value, func() (kept gateway.StoredSecret, err error) {
		s.Running = false
		_, _, err = setup.StoreSecret(ctx, editorOf(ctx, c.Path, nil, false), c, edit.Author{}, name, secret)
		return kept, err
	})
	if err != nil {
		return err
	}
	if s.Generation = kept.Generation; !s.Running {
		return o.success(s, "Stored in %s. Refer to it with a key such as token_file.", s.Path)
	}
	return o.success(s, "Stored in %s, and in force as configuration %d.", s.Path, s.Generation)
}

// readSecret asks for a secret on a terminal, and reads it from standard input otherwise.
func readSecret(ctx context.Context, cmd *cli.Command, name string) (config.Secret, error) {
	if isTerminal(cmd.Root().Reader) {
		secret, err := askerFor(ctx, cmd, false).Secret(ctx, name, "it is not shown")
		if err == nil && secret == "" {
			err = errors.New("nothing was typed, so nothing is stored")
		}
		return secret, interruptedBy(ctx, err)
	}
	text, err := io.ReadAll(io.LimitReader(cmd.Root().Reader, setup.MaxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	secret, err := setup.CleanSecret(string(text))
	if err != nil {
		return "", fmt.Errorf("read the secret from standard input: %w", err)
	}
	return secret, nil
}
