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

	"github.com/flynnhost/flynn/host/model/prove"

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
	defer func() { err = s.end(err) }()
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

// end keeps what a run has written if it was successful, and undoes it otherwise.
func (s *Setup) end(err error) error {
	switch {
	case err == nil:
		s.journal.Done()
	case !s.journal.Empty():
		if undone := s.journal.Undo(); undone != nil {
			return errors.Join(err, fmt.Errorf("not everything could be undone: %w", undone))
		}
		s.Asker.Say("What this run had written is undone.")
	}
	return err
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
	if err := s.begin(f, a, found, m); err != nil {
		return r, err
	}
	ch, err := s.addChannel(ctx, f, a, s.secretsDir())
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

// begin sets the text of a first configuration with its model.
func (s *Setup) begin(f *edit.File, a Answers, found Found, m Model) error {
	listen := a.Listen
	if listen == "" {
		listen = freePort()
	}
	text, err := starter(found, a, listen)
	if err != nil {
		return err
	}
	if m.Provider == Demo {
		text = append(text, withDemo...)
	}
	if err := f.Replace(text); err != nil {
		return err
	}
	return s.putModel(f, "default", m, s.secretsDir())
}

func (s *Setup) secretsDir() string { return filepath.Join(s.dataDir(), secretsName) }

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
		words = []string{"no key, no model server"}
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
		path, err := WriteSecret(&s.journal, secrets, m.secretName(), m.Key)
		if err != nil {
			return err
		}
		keyFile = s.named(path)
	}
	added := !f.Has("models", tier)
	if err := SetModel(f, tier, m.table(keyFile)); err != nil || !added {
		return err
	}
	return withNote(f, "[models."+tier+"]", "The model. Prove it again with: flynn model test "+tier)
}

// named is a path as flynn.toml names it.
func (s *Setup) named(path string) string { return NamedFrom(s.Path, path) }

// NamedFrom is a path as the configuration file at from names it: from its folder, if it lies below.
func NamedFrom(from, path string) string {
	if dir, err := filepath.Abs(filepath.Dir(from)); err == nil {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return path
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
		if err = s.tryChannel(ctx, f, ch, a, secrets); err == nil {
			return ch, s.putSecrets(ch, secrets)
		}
		if ctx.Err() != nil || !s.Asker.Asks() {
			return nil, fmt.Errorf("channel %s: %w", ch.Name, errors.Join(ctx.Err(), err))
		}
		s.Asker.Say("That did not work: " + prove.OneLine(err.Error()) + ".")
		next, err := s.Asker.Choose(ctx, "What now?", []Option{
			{"again", "give its token and settings again"}, {"other", "choose another channel"}, {"none", "go on without a channel"},
		})
		if err = errors.Join(err, f.Replace(before)); err != nil || next == "none" {
			return nil, err
		}
		if given = (ChannelAnswers{}); next == "again" {
			given = ChannelAnswers{Plugin: ch.Plugin.Name, Name: ch.Name, Settings: a.Channel.Settings, Texts: a.Channel.Texts}
		}
	}
}

// tryChannel puts a channel into the text, and proves it. Its secrets are not written yet.
func (s *Setup) tryChannel(ctx context.Context, f *edit.File, ch *Channel, a Answers, secrets string) error {
	files := map[string]string{}
	for name := range ch.Secrets {
		files[name] = s.named(filepath.Join(secrets, ch.SecretName(name)))
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

func (s *Setup) putSecrets(ch *Channel, dir string) error {
	for _, name := range slices.Sorted(maps.Keys(ch.Secrets)) {
		if _, err := WriteSecret(&s.journal, dir, ch.SecretName(name), ch.Secrets[name]); err != nil {
			return err
		}
	}
	return nil
}

// save writes the file, after it has shown what changes in one that was there.
func (s *Setup) save(ctx context.Context, f *edit.File, a Answers) error {
	if _, err := f.Load(s.Getenv, s.Checks...); err != nil {
		return err
	}
	if f.Diff() == "" {
		s.Asker.Say(s.Path + " says so already.")
		return nil
	}
	if err := s.agreed(ctx, f, a); err != nil {
		return err
	}
	if err := s.write(ctx, f); err != nil {
		return err
	}
	s.Asker.Say("Wrote " + s.Path + ".")
	return nil
}

// write writes the file, and has a flynn that runs on it take it up.
func (s *Setup) write(ctx context.Context, f *edit.File) error {
	c := edit.EditorConfig{Path: s.Path, Getenv: s.Getenv, Checks: s.Checks}
	if !f.IsNew() {
		host, running, err := s.Hosts.Running(ctx, s.Path)
		if err != nil {
			return err
		}
		if running {
			c.Reload = host.Reload
		}
	}
	if err := s.journal.Keep(s.Path); err != nil {
		return err
	}
	if err := s.journal.MakeDir(s.dir()); err != nil {
		return err
	}
	_, err := edit.NewEditor(c).Apply(ctx, edit.Author{}, f)
	if errors.Is(err, edit.ErrRefused) {
		err = fmt.Errorf("the running flynn refuses it: %w", err)
	}
	return err
}

// agreed shows what changes in a file that was there, and asks for a yes.
func (s *Setup) agreed(ctx context.Context, f *edit.File, a Answers) error {
	if f.IsNew() {
		return nil
	}
	s.Asker.Say(f.Diff())
	if a.Yes {
		return nil
	}
	yes, err := s.Asker.Confirm(ctx, "Write this to "+s.Path+"?", true)
	if err == nil && !yes {
		err = ErrAborted
	}
	return without(err, "--yes")
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
		return owner, s.saveOwner(ctx, f, c, message.SenderKey(owner))
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
	if err := s.saveOwner(ctx, f, c, sender); err != nil {
		return "", err
	}
	s.Asker.Say(string(sender) + " is the owner.")
	return string(sender), nil
}

func (s *Setup) saveOwner(ctx context.Context, f *edit.File, c *config.Config, sender message.SenderKey) error {
	if err := AddOwner(f, c, sender); err != nil {
		return err
	}
	return s.write(ctx, f)
}
