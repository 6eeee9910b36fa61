package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// MaxSecret bounds a secret, in bytes.
const MaxSecret = 64 << 10

// CleanSecret removes the white space around a pasted secret. Control characters inside it are an error: half of a text was pasted, or two.
func CleanSecret(text string) (config.Secret, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", errors.New("it is empty")
	case len(text) > MaxSecret:
		return "", fmt.Errorf("it is larger than %s", config.Size(MaxSecret))
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("it has a line break or another control character inside: paste one line")
	}
	return config.Secret(text), nil
}

// ReadSecret reads a secret from a file.
func ReadSecret(path string) (config.Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxSecret {
		return "", fmt.Errorf("%s is no file with one secret", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret, err := CleanSecret(string(text))
	if err != nil {
		return "", fmt.Errorf("the secret in %s: %w", path, err)
	}
	return secret, nil
}

// ValidSecretName reports whether a name can be that of a secret file.
func ValidSecretName(name string) error {
	plain := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r))
	}
	if name == "" || len(name) > 100 || strings.HasPrefix(name, ".") || strings.ContainsFunc(name, plain) {
		return fmt.Errorf("%q cannot name a secret: use letters, digits, - and _, such as telegram_token", name)
	}
	return nil
}

// WriteSecret writes a secret to its own file in a folder, for its owner alone, and returns the path of the file.
func WriteSecret(j *Journal, dir, name string, secret config.Secret) (string, error) {
	if err := ValidSecretName(name); err != nil {
		return "", err
	}
	if err := j.MakeDir(dir); err != nil {
		return "", fmt.Errorf("make the folder of secrets: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := j.Keep(path); err != nil {
		return "", fmt.Errorf("write a secret: %w", err)
	}
	if err := durable.WriteFile(path, []byte(secret.Reveal()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write a secret: %w", err)
	}
	return path, nil
}

// StoreSecret writes a secret into the folder of a configuration, and has the running flynn take it up; if that refuses, the secret before
// stays.
func StoreSecret(
	ctx context.Context, e *edit.Editor, c *config.Config, by edit.Author, name string, secret config.Secret,
) (path string, generation uint64, err error) {
	by.What = "store secret " + name
	generation, err = e.Reloading(ctx, by, func(reload edit.Reload) (uint64, error) {
		var j Journal
		if path, err = WriteSecret(&j, SecretsDir(c), name, secret); err != nil {
			return 0, errors.Join(err, j.Undo())
		}
		if reload == nil {
			return 0, nil
		}
		generation, err := reload(context.WithoutCancel(ctx))
		if err != nil {
			return 0, errors.Join(fmt.Errorf("%s is as before, because the running flynn refuses the secret: %w", path, err), j.Undo())
		}
		return generation, nil
	})
	return path, generation, err
}
