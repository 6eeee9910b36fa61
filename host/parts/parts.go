// Package parts gives the policies and plugins that people install on one host to the others that share its store.
//
// Start with Keeper. The store has what the hosts agree on, and the files as blobs by their digests. A host that differs either has a change of its
// own, which becomes what all agree on, or installs what the others have: with the checks of a person's installation, by package upkeep and package
// pack. The parts that come with Flynn are left out, so that hosts may be upgraded one after the other.
package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/plugin/upkeep"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
)

// Config configures a Keeper.
type Config struct {
	Store interface {
		store.Parts
		store.Blobs
		Shared() bool
	}
	Member interface {
		Tell(r cluster.Runs)
	}
	Listens  func() string // the address of the gateway
	Current  func() *config.Config
	Policies interface{ Status() []policy.Status }
	Log      *slog.Logger
}

// Keeper keeps the policies and plugins of this host and those that the hosts agree on the same. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	wake chan struct{} // capacity 1

	mu     sync.Mutex // held by a look
	failed map[key]failure
	heals  time.Time // when the blobs are looked for next

	telling sync.Mutex // held while the member is told

	shown sync.Mutex
	lacks []string // guarded by shown
}

// New returns a Keeper.
func New(c Config) *Keeper {
	return &Keeper{cfg: c, wake: make(chan struct{}, 1), failed: map[key]failure{}}
}

const (
	lookEvery = 2 * time.Second
	healEvery = 30 * time.Second
	// retryAfter is how long a part that this host could not install is left alone, unless its blobs were missing.
	retryAfter = time.Minute
)

// key names a part.
type key struct{ kind, name string }

func (k key) String() string { return k.kind + " " + k.name }

// body describes an installed version in a store.Part. Files are the digests of its files.
type body struct {
	Version   string            `json:"version"`
	Source    string            `json:"source"`
	Platforms []string          `json:"platforms,omitempty"`
	Programs  []string          `json:"programs,omitempty"`
	Files     map[string]string `json:"files"`
}

// sum is the same for the same contents; it is empty for nil.
func (b *body) sum() string {
	if b == nil {
		return ""
	}
	return digest.Of(append([]byte(b.Version+"\n"), folder.Sums(b.Files)...))
}

// failure is why this host does not have a part in a revision.
type failure struct {
	revision int64
	at       time.Time
	err      error
}

// kind is what is the same for policies and plugins.
type kind interface {
	// installed returns what people have installed.
	installed() (map[string]*body, error)
	// each calls visit with every file of an installed part, after verifying it.
	each(name string, visit func(file string, program bool, content io.Reader) error) error
	// take installs a part of another host.
	take(ctx context.Context, name, source string, b *body, open func(file string) (io.Reader, error)) error
	remove(name string) error
}

func (k *Keeper) kinds() map[string]kind {
	c := k.cfg.Current()
	return map[string]kind{"plugin": plugins{c, k.cfg.Log}, "policy": policies{c}}
}

// Refresh has the parts looked at, because a host has changed one.
func (k *Keeper) Refresh(context.Context) error {
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return nil
}

// Lacks says what this host does not have of what the hosts agree on, and why.
func (k *Keeper) Lacks() []string {
	k.shown.Lock()
	defer k.shown.Unlock()
	return slices.Clone(k.lacks)
}

// Run keeps the parts the same until ctx ends, and tells other hosts what this one runs with.
func (k *Keeper) Run(ctx context.Context) error {
	if !k.cfg.Store.Shared() {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	said := ""
	for {
		again, err := k.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if text := fmt.Sprint(err); err != nil && text != said {
			k.cfg.Log.Error("cannot compare policies and plugins with those of other hosts; trying again", "error", err)
			said = text
		} else if err == nil {
			said = ""
		}
		if again && err == nil {
			continue
		}
		select {
		case <-tick.C:
		case <-k.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// memory is what the host remembers of the parts, in its folder.
type memory struct {
	Parts map[string]known `json:"parts"`
	// Config and Digests are those that it told when it had all parts of Revision last, or when its configuration changed.
	Config   string `json:"config"`
	Digests  string `json:"digests"`
	Revision int64  `json:"revision"`
}

// known is a part as the host has seen it last: its revision in the store, and what was installed here.
type known struct {
	Revision int64  `json:"revision"`
	Sum      string `json:"sum"`
}

const (
	memoryFile = "parts.json"
	none       = -1 // a Revision before the first
)

func (k *Keeper) memory() (m memory, err error) {
	text, err := os.ReadFile(filepath.Join(k.cfg.Current().Store.Dir, memoryFile))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if m.Parts == nil {
		m.Parts = map[string]known{}
	}
	return m, err
}

func (k *Keeper) remember(m, before memory) error {
	if m.Config == before.Config && m.Digests == before.Digests && m.Revision == before.Revision && maps.Equal(m.Parts, before.Parts) {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(k.cfg.Current().Store.Dir, memoryFile), text, 0o600)
}

// look compares this host with what the hosts agree on, and changes the one or the other. again is true if there is more to do at once.
func (k *Keeper) look(ctx context.Context) (again bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.survey(ctx)
	if err != nil {
		return false, err
	}
	before := s.memory
	s.memory.Parts = maps.Clone(s.memory.Parts)
	if shared := k.cfg.Current().SharedDigest(); s.memory.Config != shared {
		s.memory.Config, s.memory.Digests, s.memory.Revision = shared, k.digests(k.cfg.Current()), none
	}
	var lacks []string
	var wrong []error
	for _, id := range s.keys() {
		published, why, err := k.settle(ctx, s, id)
		again = again || published
		if why != "" {
			lacks = append(lacks, why)
		}
		wrong = append(wrong, err)
	}
	k.shown.Lock()
	k.lacks = lacks
	k.shown.Unlock()
	if s.heal {
		k.heals = time.Now().Add(healEvery)
	}
	err = errors.Join(wrong...)
	if !again {
		err = errors.Join(err, k.tell(ctx, s, err == nil && len(lacks) == 0))
	}
	return again, errors.Join(err, k.remember(s.memory, before))
}

// survey is what a look begins with.
type survey struct {
	memory   memory
	kinds    map[string]kind
	local    map[key]*body
	agreed   map[key]store.Part
	revision int64
	heal     bool // the blobs are looked for, too
}

func (k *Keeper) survey(ctx context.Context) (*survey, error) {
	s := &survey{kinds: k.kinds(), local: map[key]*body{}, agreed: map[key]store.Part{}, heal: !time.Now().Before(k.heals)}
	all, revision, err := k.cfg.Store.Parts(ctx)
	if err != nil {
		return nil, err
	}
	s.revision = revision
	for _, p := range all {
		if s.kinds[p.Kind] != nil { // a later Flynn may have more kinds
			s.agreed[key{p.Kind, p.Name}] = p
		}
	}
	for name, of := range s.kinds {
		installed, err := of.installed()
		if err != nil {
			return nil, err
		}
		for part, b := range installed {
			s.local[key{name, part}] = b
		}
	}
	s.memory, err = k.memory()
	return s, err
}

// keys returns the parts that are here or agreed on, in order.
func (s *survey) keys() []key {
	all := maps.Clone(s.agreed)
	for id := range s.local {
		all[id] = store.Part{}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b key) int { return slices.Compare([]string{a.kind, a.name}, []string{b.kind, b.name}) })
}

// settle makes one part the same here and in the store. It returns whether the store has changed, and what this host lacks.
func (k *Keeper) settle(ctx context.Context, s *survey, id key) (published bool, lacks string, err error) {
	part, here, seen := s.agreed[id], s.local[id], s.memory.Parts[id.String()]
	wanted, err := decode(part)
	if err != nil {
		return false, "", err
	}
	switch {
	case part.Revision > 0 && here.sum() == wanted.sum():
		s.memory.Parts[id.String()] = known{part.Revision, here.sum()}
		delete(k.failed, id)
		return false, "", k.heal(ctx, s, id, here)
	case part.Revision == 0, part.Revision < seen.Revision, // the store is new, or has gone back
		part.Revision == seen.Revision && here.sum() != seen.Sum:
		return k.publish(ctx, s, id, here, part.Revision)
	}
	s.memory.Parts[id.String()] = known{part.Revision, here.sum()}
	f, failed := k.failed[id]
	if !failed || f.revision != part.Revision || time.Since(f.at) >= retryAfter || passing(f.err) {
		f = failure{part.Revision, time.Now(), k.take(ctx, s, id, wanted, part.Host)}
		if ctx.Err() != nil {
			return false, "", nil
		}
		k.note(id, f, part.Host)
	}
	if f.err == nil {
		return true, "", nil // it is looked at again
	}
	if wanted == nil {
		return false, fmt.Sprintf("%s was removed at host %s, and is still here: %v", id, part.Host, f.err), nil
	}
	return false, fmt.Sprintf("%s %s of host %s: %v", id, wanted.Version, part.Host, f.err), nil
}

// passing reports whether what failed may succeed with the next look.
func passing(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrBlobDamaged) || errors.Is(err, upkeep.ErrTried)
}

// note remembers a failure, and logs each once.
func (k *Keeper) note(id key, f failure, from string) {
	if f.err == nil {
		delete(k.failed, id)
		return
	}
	if was := k.failed[id]; was.err == nil || was.revision != f.revision || was.err.Error() != f.err.Error() {
		level := slog.LevelWarn
		if errors.Is(f.err, upkeep.ErrTried) {
			level = slog.LevelInfo
		}
		k.cfg.Log.Log(context.Background(), level, "this host does not have yet what another one has installed or removed", "part", id.String(), "host", from, "error", f.err)
	}
	k.failed[id] = f
}

func decode(p store.Part) (*body, error) {
	if len(p.Body) == 0 {
		return nil, nil
	}
	b := &body{}
	if err := json.Unmarshal(p.Body, b); err != nil {
		return nil, fmt.Errorf("read %s %s of host %s: %w", p.Kind, p.Name, p.Host, err)
	}
	return b, nil
}

// take installs or removes a part as another host has done.
func (k *Keeper) take(ctx context.Context, s *survey, id key, wanted *body, from string) error {
	if wanted == nil {
		if err := s.kinds[id.kind].remove(id.name); err != nil {
			return err
		}
		k.cfg.Log.Info("removed what another host has removed", "part", id.String(), "host", from)
		return nil
	}
	err := s.kinds[id.kind].take(ctx, id.name, "host "+from+": "+wanted.Source, wanted, func(file string) (io.Reader, error) {
		r, err := k.cfg.Store.Blob(ctx, wanted.Files[file])
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("it is not in the database any more, until a host that has it writes it again: %w", err)
		}
		return r, err
	})
	if err == nil {
		k.cfg.Log.Info("installed what another host has installed", "part", id.String(), "version", wanted.Version, "host", from)
	}
	return err
}

// publish makes what is installed here what the hosts agree on. The files are there before the part names them.
func (k *Keeper) publish(ctx context.Context, s *survey, id key, here *body, revision int64) (published bool, lacks string, err error) {
	part := store.Part{Kind: id.kind, Name: id.name, Revision: revision}
	if here != nil {
		if err = k.upload(ctx, s, id, here); errors.Is(err, store.ErrBlobSize) {
			return false, fmt.Sprintf("%s %s is here alone: %v", id, here.Version, err), nil
		}
		if err == nil {
			part.Body, err = json.Marshal(here)
		}
		if err != nil {
			return false, "", err
		}
	}
	changed, err := k.cfg.Store.SetPart(ctx, part)
	if errors.Is(err, store.ErrConflict) {
		return true, "", nil
	}
	if err != nil {
		return false, "", err
	}
	s.memory.Parts[id.String()] = known{changed, here.sum()}
	k.cfg.Log.Info("all hosts are to have what was installed or removed here", "part", id.String())
	return true, "", nil
}

// upload writes the files that the store does not have, and notes which are programs.
func (k *Keeper) upload(ctx context.Context, s *survey, id key, here *body) error {
	missing, err := k.cfg.Store.MissingBlobs(ctx, slices.Sorted(maps.Values(here.Files)))
	if err != nil {
		return err
	}
	here.Programs = nil
	return s.kinds[id.kind].each(id.name, func(file string, program bool, content io.Reader) error {
		if program {
			here.Programs = append(here.Programs, file)
		}
		if !slices.Contains(missing, here.Files[file]) {
			return nil
		}
		return k.cfg.Store.PutBlob(ctx, here.Files[file], content)
	})
}

// heal writes what the store has lost of the files of a part that this host has.
func (k *Keeper) heal(ctx context.Context, s *survey, id key, here *body) error {
	if !s.heal || here == nil {
		return nil
	}
	missing, err := k.cfg.Store.MissingBlobs(ctx, slices.Sorted(maps.Values(here.Files)))
	if err != nil || len(missing) == 0 {
		return err
	}
	return k.upload(ctx, s, id, here)
}

// Accept makes the policies and plugins of this host those of all.
func (k *Keeper) Accept(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.survey(ctx)
	if err != nil {
		return err
	}
	before := s.memory
	s.memory.Parts = maps.Clone(s.memory.Parts)
	var wrong []error
	for _, id := range s.keys() {
		wanted, err := decode(s.agreed[id])
		if err == nil && s.local[id].sum() != wanted.sum() {
			_, _, err = k.publish(ctx, s, id, s.local[id], s.agreed[id].Revision)
		}
		wrong = append(wrong, err)
	}
	return errors.Join(append(wrong, k.remember(s.memory, before))...)
}
