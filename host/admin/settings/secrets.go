package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// maxSecrets bounds the secrets in an answer.
const maxSecrets = 1000

// Secrets implements gateway.Secrets.
func (s Settings) Secrets(context.Context) ([]gateway.StoredSecret, error) {
	c := s.Holder.Current()
	entries, err := os.ReadDir(setup.SecretsDir(c))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the secrets: %w", err)
	}
	used := map[string][]string{}
	if text, err := config.Read(s.Holder.Path()); err == nil {
		for _, k := range config.Keys(s.Holder.Path(), text) {
			if name := s.secretName(c, k.Value); name != "" && k.Reference {
				used[name] = append(used[name], config.KeyString(k.Path...))
			}
		}
	}
	out := []gateway.StoredSecret{}
	for _, e := range entries[:min(len(entries), maxSecrets)] {
		if e.Type().IsRegular() && setup.ValidSecretName(e.Name()) == nil {
			out = append(out, s.stored(c, e.Name(), used[e.Name()]))
		}
	}
	return out, nil
}

// SetSecret implements gateway.Secrets.
func (s Settings) SetSecret(ctx context.Context, name, value, by string) (gateway.StoredSecret, error) {
	if err := setup.ValidSecretName(name); err != nil {
		return gateway.StoredSecret{}, gateway.BadRequest(err.Error())
	}
	secret, err := setup.CleanSecret(value)
	if err != nil {
		return gateway.StoredSecret{}, gateway.BadRequest("the secret: " + err.Error())
	}
	c := s.Holder.Current()
	_, generation, err := setup.StoreSecret(ctx, s.Editor, c, edit.Author{By: by}, name, secret)
	if err != nil {
		return gateway.StoredSecret{}, store.Conflict(err.Error())
	}
	out := s.stored(c, name, nil)
	out.Generation = generation
	return out, nil
}

func (s Settings) stored(c *config.Config, name string, used []string) gateway.StoredSecret {
	return gateway.StoredSecret{Name: name, File: setup.NamedFrom(s.Holder.Path(), filepath.Join(setup.SecretsDir(c), name)), Used: append([]string{}, used...)}
}

// nameIn is the name of a file of the folder of secrets, or "" for another file.
func nameIn(c *config.Config, path string) string {
	if filepath.Dir(path) != setup.SecretsDir(c) || setup.ValidSecretName(filepath.Base(path)) != nil {
		return ""
	}
	return filepath.Base(path)
}
