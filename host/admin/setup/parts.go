package setup

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/message"
)

// Undo brings back the files that AddModel and AddChannel wrote, unless Done was called.
func (s *Setup) Undo() error { return s.journal.Undo() }

// Done keeps what was written.
func (s *Setup) Done() { s.journal.Done() }

// AddModel finds out which model a tier shall have, proves it, writes its key, and puts it into the file, which is not saved. It returns a
// title of the model.
func (s *Setup) AddModel(ctx context.Context, f *edit.File, tier string, a Answers) (string, error) {
	c, err := f.Load(s.Getenv)
	if err != nil {
		return "", err
	}
	m, err := s.PickModel(ctx, a, Look(ctx, s.Getenv, s.Places))
	if err != nil {
		return "", err
	}
	if m.Provider == Demo {
		return Demo, SetModel(f, tier, edit.Table{"provider": Demo})
	}
	return m.Name, s.putModel(f, tier, m, SecretsDir(c))
}

// AddChannel finds out what a channel needs, proves it, writes its secrets, and puts it into the file, which is not saved.
func (s *Setup) AddChannel(ctx context.Context, f *edit.File, a Answers) (*Channel, error) {
	c, err := f.Load(s.Getenv)
	if err != nil {
		return nil, err
	}
	if f.Has("channels", a.Channel.Name) {
		return nil, errors.New("there is a channel " + a.Channel.Name + " already: choose another name, or remove it first with flynn channel remove")
	}
	ch, err := s.addChannel(ctx, f, a, SecretsDir(c))
	if err == nil && ch == nil {
		err = ErrAborted
	}
	return ch, err
}

// TryChannel finds out what a channel needs, puts it into the file, which is not saved, and proves it. Its secrets are not written.
func (s *Setup) TryChannel(ctx context.Context, f *edit.File, a Answers) (*Channel, error) {
	c, err := f.Load(s.Getenv)
	if err != nil {
		return nil, err
	}
	ch, err := s.AskChannel(ctx, c, a.Channel)
	if err != nil {
		return nil, err
	}
	return ch, s.tryChannel(ctx, f, ch, a, SecretsDir(c))
}

// WriteSecrets writes the secrets of a channel that TryChannel has proved.
func (s *Setup) WriteSecrets(c *config.Config, ch *Channel) error {
	return s.putSecrets(ch, SecretsDir(c))
}

// Proof is what the platform of a channel proves about senders.
func Proof(c *config.Config, channel string) message.SenderProof {
	return new(access.Proofs).Under(c)(channel)
}

// RemoveChannel removes a channel and the rules about its senders from a file, which is not saved, and returns the files of its secrets.
func RemoveChannel(f *edit.File, c *config.Config, name string) (secrets []string, err error) {
	for key, path := range c.Channels[name].References() {
		if strings.HasSuffix(key, "_file") && filepath.Dir(path) == SecretsDir(c) {
			secrets = append(secrets, path)
		}
	}
	slices.Sort(secrets)
	remove := [][]string{{"channels", name}}
	if f.Has("routing", "channels", name) {
		remove = append(remove, []string{"routing", "channels", name})
	}
	for _, sender := range slices.Sorted(maps.Keys(c.Routing.Senders)) {
		if strings.HasPrefix(sender, name+":") {
			remove = append(remove, []string{"routing", "senders", sender})
		}
	}
	for _, key := range remove {
		if err := f.Remove(key...); err != nil {
			return nil, err
		}
	}
	for key, list := range map[string][]string{"owners": c.Access.Owners, "members": c.Access.Members, "blocked": c.Access.Blocked} {
		rest := slices.DeleteFunc(slices.Clone(list), func(sender string) bool { return strings.HasPrefix(sender, name+":") })
		if len(rest) == len(list) {
			continue
		}
		if err := f.Set(rest, "access", key); err != nil {
			return nil, err
		}
	}
	return secrets, nil
}

// RemoveSecrets deletes the files of secrets.
func RemoveSecrets(files []string) error {
	var errs []error
	for _, path := range files {
		errs = append(errs, ignoreMissing(os.Remove(path)))
	}
	return errors.Join(errs...)
}
