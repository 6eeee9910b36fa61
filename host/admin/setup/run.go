package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/message"
)

// Result is what a run has set up.
type Result struct {
	Path    string `json:"path"`
	Model   string `json:"model"` // "demo" for the demo model
	Channel string `json:"channel,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Changed bool   `json:"changed"`
}

// Run sets Flynn up, or changes one thing of what is set up already. If it fails or ctx ends, everything is as it was before.
func (s *Setup) Run(ctx context.Context, a Answers) (r Result, err error) {
	defer func() {
		if err == nil {
			s.journal.Done()
			return
		}
		if s.journal.Empty() {
			return
		}
		if undone := s.journal.Undo(); undone != nil {
			err = errors.Join(err, fmt.Errorf("not everything could be undone: %w", undone))
			return
		}
		s.Asker.Say("What this run had written is undone.")
	}()
	if s.Path, err = filepath.Abs(s.Path); err != nil {
		return r, err
	}
	f, err := edit.OpenOrNew(s.Path)
	if err != nil {
		return r, err
	}
	if f.IsNew() {
		return s.fresh(ctx, f, a)
	}
	return s.change(ctx, f, a)
}

// fresh writes a first configuration.
func (s *Setup) fresh(ctx context.Context, f *edit.File, a Answers) (r Result, err error) {
	if err := s.writable(); err != nil {
		return r, err
	}
	found := Look(ctx, s.Getenv, s.Places)
	s.sayFound(found)
	m, err := s.PickModel(ctx, a, found)
	if err != nil {
		return r, err
	}
	listen := a.Listen
	if listen == "" {
		listen = freePort()
	}
	text, err := starter(found, a, listen)
	if err != nil {
		return r, err
	}
	if m.Provider == Demo {
		text = append(text, withDemo...)
	}
	if err := f.Replace(text); err != nil {
		return r, err
	}
	secrets := filepath.Join(s.dataDir(), secretsName)
	if err := s.putModel(f, "default", m, secrets); err != nil {
		return r, err
	}
	if err := withNote(f, "[models.default]", "The model. Prove it again with: flynn model test default"); err != nil {
		return r, err
	}
	ch, err := s.addChannel(ctx, f, a, secrets)
	if err != nil {
		return r, err
	}
	if ch != nil {
		if err := withNote(f, "[channels."+ch.Name+"]", "Strangers who write get a code, and flynn access approve lets them in."); err != nil {
			return r, err
		}
	}
	if err := s.save(ctx, f, a); err != nil {
		return r, err
	}
	r = Result{Path: s.Path, Model: s.said(m), Changed: true}
	if ch != nil {
		r.Channel = ch.Name
		r.Owner, err = s.owner(ctx, f, ch.Name, ch.Proof.Senders, a)
	}
	return r, err
}

// writable finds out at once whether the folder can be written, before somebody types keys.
func (s *Setup) writable() error {
	if err := s.journal.MakeDir(s.dir()); err != nil {
		return fmt.Errorf("make the folder of the configuration: %w", err)
	}
	f, err := os.CreateTemp(s.dir(), ".flynn-init-*")
	if err != nil {
		return fmt.Errorf("write into %s: %w: choose another folder with --dir", s.dir(), errors.Unwrap(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (s *Setup) sayFound(found Found) {
	words := found.Words()
	if len(words) == 0 {
		words = []string{"no key, no model server, no container engine"}
	}
	s.Asker.Say("Found: " + strings.Join(words, "\n       "))
}

func (s *Setup) said(m Model) string {
	if m.Provider == Demo {
		s.Asker.Say("The demo model answers for now: it repeats what it hears. Choose a real one with: flynn model add default")
		return Demo
	}
	return m.Name
}

// putModel writes a model's key to its file, and the model into a tier.
func (s *Setup) putModel(f *edit.File, tier string, m Model, secrets string) error {
	if m.Provider == Demo {
		return nil
	}
	keyFile := ""
	if m.Key != "" {
		path, err := s.putSecret(secrets, m.secretName(), m.Key)
		if err != nil {
			return err
		}
		keyFile = path
	}
	return SetModel(f, tier, m.table(keyFile))
}

// putSecret writes a secret, and returns its path as flynn.toml names it.
func (s *Setup) putSecret(dir, name string, secret config.Secret) (string, error) {
	path, err := WriteSecret(&s.journal, dir, name, secret)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(s.dir(), path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel), nil
	}
	return path, nil
}

// addChannel asks for a channel, proves it, and writes its secrets and its table.
func (s *Setup) addChannel(ctx context.Context, f *edit.File, a Answers, secrets string) (*Channel, error) {
	before := f.Bytes()
	for given := a.Channel; ; {
		c, err := f.Load(s.Getenv)
		if err != nil {
			return nil, err
		}
		ch, err := s.AskChannel(ctx, c, given)
		if err != nil || ch == nil {
			return nil, err
		}
		err = s.tryChannel(ctx, f, ch, a, secrets)
		if err == nil || ctx.Err() != nil {
			return ch, errors.Join(err, ctx.Err())
		}
		next, asked := s.Asker.Choose(ctx, "That did not work: "+oneLine(err.Error())+".", []Option{
			{"again", "give the token again"}, {"other", "choose another channel"}, {"none", "go on without a channel"},
		})
		if errors.Is(asked, ErrNobody) {
			return nil, fmt.Errorf("channel %s: %w", ch.Name, err)
		}
		if asked != nil {
			return nil, asked
		}
		if err := f.Replace(before); err != nil {
			return nil, err
		}
		switch next {
		case "none":
			return nil, nil
		case "again":
			given = ChannelAnswers{Plugin: ch.Plugin.Name, Name: ch.Name, Settings: a.Channel.Settings}
		default:
			given = ChannelAnswers{}
		}
	}
}

// tryChannel puts a channel into the text, and proves it.
func (s *Setup) tryChannel(ctx context.Context, f *edit.File, ch *Channel, a Answers, secrets string) error {
	files := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(ch.Secrets)) {
		path, err := s.putSecret(secrets, ch.SecretName(name), ch.Secrets[name])
		if err != nil {
			return err
		}
		files[name] = path
	}
	if _, ok := ch.Settings["access"]; !ok {
		ch.Settings["access"] = config.AccessPair
	}
	if err := ch.Put(f, files); err != nil {
		return err
	}
	c, err := f.Load(s.Getenv, s.Checks...)
	if err != nil || a.NoCheck {
		return err
	}
	if err := s.journal.MakeDir(c.Store.Dir); err != nil {
		return err
	}
	return s.prove(ctx, c, ch)
}

// save writes the file, after it has shown what changes in one that was there.
func (s *Setup) save(ctx context.Context, f *edit.File, a Answers) error {
	if _, err := f.Load(s.Getenv, s.Checks...); err != nil {
		return err
	}
	if !f.IsNew() {
		s.Asker.Say(f.Diff())
		if !a.Yes {
			yes, err := s.Asker.Confirm(ctx, "Write this to "+s.Path+"?", true)
			if err != nil {
				return without(err, "--yes")
			}
			if !yes {
				return ErrAborted
			}
		}
	}
	if err := s.journal.Keep(s.Path); err != nil {
		return err
	}
	if err := s.journal.MakeDir(s.dir()); err != nil {
		return err
	}
	if err := f.Save(s.Getenv, s.Checks...); err != nil {
		return err
	}
	s.Asker.Say("Wrote " + s.Path + ".")
	return nil
}

// owner makes somebody the owner: the one who was named, or the one who writes first.
func (s *Setup) owner(ctx context.Context, f *edit.File, channel string, proof message.SenderProof, a Answers) (string, error) {
	c, err := f.Load(s.Getenv, s.Checks...)
	if err != nil {
		return "", err
	}
	if a.Channel.Owner != "" {
		owner, err := ownerKey(channel, a.Channel.Owner)
		if err != nil {
			return "", err
		}
		return owner, s.saveOwner(f, c, message.SenderKey(owner))
	}
	if proof != message.SendersProved {
		s.Asker.Say("Channel " + channel + " does not prove who a sender is, so nobody becomes an owner by a message.")
		return "", nil
	}
	wait, err := s.Asker.Confirm(ctx, "Make the next person who writes to it the owner? You confirm a code.", true)
	if errors.Is(err, ErrNobody) {
		s.Asker.Say("Nobody is an owner yet. Write to the channel, then run: flynn access approve CODE")
		return "", nil
	}
	if err != nil || !wait {
		return "", err
	}
	if err := s.journal.MakeDir(c.Store.Dir); err != nil {
		return "", err
	}
	host, end, err := s.Hosts.Begin(ctx, s.Path)
	if err != nil {
		return "", err
	}
	defer end()
	s.Asker.Say("Write to it now, in a private chat; anything will do. Ctrl-C ends and undoes everything.")
	sender, err := s.WaitForOwner(ctx, host, channel)
	if err != nil {
		return "", err
	}
	if err := s.saveOwner(f, c, sender); err != nil {
		return "", err
	}
	if _, err := host.Reload(ctx); err != nil {
		return "", err
	}
	s.Asker.Say(string(sender) + " is the owner.")
	return string(sender), nil
}

func (s *Setup) saveOwner(f *edit.File, c *config.Config, sender message.SenderKey) error {
	if err := AddOwner(f, c, sender); err != nil {
		return err
	}
	if err := s.journal.Keep(s.Path); err != nil {
		return err
	}
	return f.Save(s.Getenv, s.Checks...)
}
