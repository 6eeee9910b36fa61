// Package agreement has hosts that share a store agree on changes of the configuration before one of them puts any in force.
//
// Start with Keeper. It proposes what is changed at this host, checks and votes on what others propose, and takes what was agreed on while this host
// was away. The store decides what is agreed on (store.Revisions); the holder of the configuration prepares and applies, as it does with every
// change. The package knows no keys of flynn.toml.
package agreement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Config configures a Keeper.
type Config struct {
	Store interface {
		store.Revisions
		Agree(ctx context.Context, r store.Revision) (int64, error)
		Hosts(ctx context.Context) ([]store.HostState, error)
		Shared() bool
	}
	Holder *config.Holder
	Editor *edit.Editor
	// Within is how long the hosts have for an answer; 15 s when zero.
	Within time.Duration
	Log    *slog.Logger
}

const (
	within = 15 * time.Second
	// lookEvery is the time between two looks without a signal, and pollEvery between two looks at what is being decided.
	lookEvery = 2 * time.Second
	pollEvery = 100 * time.Millisecond
	// settleEvery is after how many of those a host has the store see whether it can be decided.
	settleEvery = 10
	// answerTime bounds a call of the store, and patience is how long after its time a revision without an outcome is waited for.
	answerTime = 10 * time.Second
	patience   = 10 * time.Second
	// retryAfter is how long what this host could not take is left alone.
	retryAfter = 10 * time.Second
	// maxReason bounds why a host is against a revision, in bytes.
	maxReason = 2000
)

// Keeper keeps the configuration of this host in step with the other hosts. It is safe for concurrent use.
type Keeper struct {
	cfg     Config
	wake    chan struct{} // capacity 1
	stopped chan struct{} // closed when the host stops
	stop    func()

	mu     sync.Mutex
	lacks  string // guarded by mu
	failed int64  // the revision that could not be taken, when, and why; used by Run only
	when   time.Time
}

var _ config.Group = (*Keeper)(nil)

// Open returns the Keeper of a host, and has its holder ask it. It is called before the configuration is used.
func Open(ctx context.Context, c Config) (*Keeper, error) {
	if c.Within == 0 {
		c.Within = within
	}
	k := &Keeper{cfg: c, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	k.stop = sync.OnceFunc(func() { close(k.stopped) })
	if !c.Store.Shared() {
		return k, nil
	}
	s, err := c.Store.Standing(ctx)
	if err != nil {
		return nil, err
	}
	c.Holder.Join(k, s.Own)
	return k, nil
}

// Refresh has what other hosts propose looked at.
func (k *Keeper) Refresh(context.Context) error {
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return nil
}

// Lacks says why this host has not taken what the hosts agree on, if it has not.
func (k *Keeper) Lacks() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lacks == "" {
		return nil
	}
	return []string{k.lacks}
}

// Others implements config.Group.
func (k *Keeper) Others(ctx context.Context) (names []string, err error) {
	all, err := k.cfg.Store.Hosts(ctx)
	for _, h := range all {
		if h.Alive && !h.Self {
			names = append(names, h.ID)
		}
	}
	return names, err
}

// Agree implements config.Group.
func (k *Keeper) Agree(ctx context.Context, p config.Proposal) (config.Agreed, error) {
	r, err := revisionOf(p)
	if err != nil {
		return config.Agreed{}, err
	}
	asked, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err = k.cfg.Store.Propose(asked, r, k.cfg.Within)
	switch {
	case errors.Is(err, store.ErrConflict):
		return config.Agreed{}, err
	case err != nil:
		return config.Agreed{}, fmt.Errorf("%w: %w", errUnknown, err)
	case r.Number == 0:
		k.cfg.Log.Warn("this host differs from the others, and its change stays here", "hint", "flynn cluster status shows the hosts")
		return config.Agreed{Revision: p.Old.Revision}, nil
	}
	return k.outcome(ctx, r)
}

// errUnknown is the error of a change of which nobody knows yet whether the hosts have agreed on it.
var errUnknown = errors.New("it is not known whether the hosts agree, because the database does not answer; flynn cluster status shows it when it is back, and each host takes what was agreed on")

// revisionOf returns the revision that a change is.
func revisionOf(p config.Proposal) (r store.Revision, err error) {
	if p.Before == nil {
		return r, errors.New("the text of the configuration in force is not known, so the change cannot be sent to other hosts: restart this one")
	}
	before, err := config.SharedPartOf(p.Before)
	if err != nil {
		return r, err
	}
	after, err := config.SharedPartOf(p.After)
	if err != nil {
		return r, err
	}
	if key := after.NewSecret(before); key != "" {
		return r, fmt.Errorf("%s looks like a secret, and would have to be sent to the other hosts: put it into a file or a variable on each, and name that", key)
	}
	r = store.Revision{Base: p.Old.Revision, Was: p.Old.SharedDigest(), Digest: p.New.SharedDigest()}
	if r.Before, err = before.Bytes(); err == nil {
		r.After, err = after.Bytes()
	}
	return r, err
}

// outcome waits until a revision is settled. The error says why it was refused.
func (k *Keeper) outcome(ctx context.Context, r store.Revision) (config.Agreed, error) {
	number := r.Number
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var err error
	for n, end := 1, time.Now().Add(k.cfg.Within+patience); ; n++ {
		switch {
		case err != nil:
		case r.State == store.RevisionAgreed:
			return config.Agreed{Revision: number, Hosts: r.Hosts}, nil
		case r.State == store.RevisionRefused:
			return config.Agreed{}, &refusedError{r.Reason}
		}
		if time.Now().After(end) {
			return config.Agreed{}, fmt.Errorf("%w: %w", errUnknown, errors.Join(err, context.DeadlineExceeded))
		}
		select {
		case <-poll.C:
		case <-k.stopped:
			return config.Agreed{}, errors.New("flynn stops; if the hosts agree, this one has it after its next start")
		}
		asked, cancel := context.WithTimeout(ctx, answerTime)
		if n%settleEvery == 0 {
			err = k.cfg.Store.SettleRevision(asked, number)
		}
		if n%settleEvery != 0 || err == nil {
			r, err = k.cfg.Store.Revision(asked, number)
		}
		cancel()
	}
}

// refusedError is the error of a change that not all hosts can take.
type refusedError struct{ reason string }

func (e *refusedError) Error() string {
	return "no host has it, because not all can take it: " + e.reason
}

// Accept makes the configuration of this host that of all.
func (k *Keeper) Accept(ctx context.Context) error {
	return k.cfg.Holder.Again(context.WithoutCancel(ctx), func(ctx context.Context, p config.Proposal) (config.Agreed, error) {
		p.New = p.Old
		p.Before = p.After
		r, err := revisionOf(p)
		if err != nil {
			return config.Agreed{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		number, err := k.cfg.Store.Agree(ctx, r)
		return config.Agreed{Revision: number}, err
	})
}

// Run votes on what other hosts propose, and takes what was agreed on, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.stop()
	if !k.cfg.Store.Shared() {
		<-ctx.Done()
		return nil
	}
	defer context.AfterFunc(ctx, k.stop)()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	said := ""
	for {
		text := ""
		if err := k.look(ctx); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != said {
				k.cfg.Log.Error("cannot compare the configuration with that of other hosts; trying again", "error", err)
			}
		}
		said = text
		select {
		case <-tick.C:
		case <-k.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// look takes what was agreed on, and votes on what is proposed.
func (k *Keeper) look(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s, err := k.cfg.Store.Standing(asked)
	if err != nil {
		return err
	}
	if s.Agreed != k.cfg.Holder.Current().Revision {
		if err := k.takeAgreed(ctx, s.Agreed); err != nil {
			return err
		}
	} else {
		k.note(0, nil)
	}
	if s.Open == 0 {
		return nil
	}
	r, err := k.cfg.Store.Revision(asked, s.Open)
	if err != nil {
		return err
	}
	return k.vote(ctx, r)
}

// takeAgreed takes a revision that was agreed on, or notes why this host cannot.
func (k *Keeper) takeAgreed(ctx context.Context, number int64) error {
	if number == k.failed && time.Since(k.when) < retryAfter {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := k.cfg.Store.Revision(asked, number)
	if err != nil {
		return err
	}
	if err = k.take(ctx, r); ctx.Err() != nil {
		return nil
	}
	k.note(number, err)
	return nil
}

// note remembers why this host has not taken a revision, and logs it once.
func (k *Keeper) note(number int64, err error) {
	lacks := ""
	if err != nil {
		lacks = fmt.Sprintf("revision %d of the configuration, which the hosts have agreed on: %s", number, reasonOf(err, k.cfg.Holder.Path()))
	}
	k.mu.Lock()
	known := k.lacks == lacks
	k.lacks = lacks
	k.mu.Unlock()
	if k.failed, k.when = number, time.Now(); err == nil {
		k.failed = 0
		return
	}
	if !known {
		k.cfg.Log.Error("this host cannot take the configuration that the hosts have agreed on, and gets no work; trying again", "revision", number, "error", err)
	}
}

// take takes a revision that was agreed on: its change in the file of this host, or, if the file is of an earlier one, all of its values.
func (k *Keeper) take(ctx context.Context, r store.Revision) error {
	agreed := func(_ context.Context, p config.Proposal) (config.Agreed, error) {
		return config.Agreed{Revision: r.Number, Hosts: r.Hosts}, errors.Join(unsigned(p.Old), sameAs(r, p.New))
	}
	if sameAs(r, k.cfg.Holder.Current()) == nil {
		return k.cfg.Holder.Again(ctx, agreed)
	}
	before, after, err := partsOf(r)
	if err != nil {
		return err
	}
	for _, of := range []*config.SharedPart{&before, nil} {
		err = k.cfg.Editor.Carry(ctx, of, after, func(text []byte, write func() error) error {
			return k.cfg.Holder.Take(ctx, text, agreed, write)
		})
		if err == nil {
			k.cfg.Log.Info("took the configuration that the hosts have agreed on", "revision", r.Number, "from", r.Host)
			return nil
		}
	}
	return err
}

func partsOf(r store.Revision) (before, after config.SharedPart, err error) {
	if before, err = config.SharedPartOf(r.Before); err == nil {
		after, err = config.SharedPartOf(r.After)
	}
	return before, after, err
}

// sameAs returns an error for a configuration that is not the one of a revision.
func sameAs(r store.Revision, c *config.Config) error {
	if c.SharedDigest() == r.Digest {
		return nil
	}
	return fmt.Errorf("with the change it would not have the same configuration as host %s: paths outside of the folder of flynn.toml, values that look like secrets, and the release have to be the same", r.Host)
}

// vote makes the change of a revision, as far as it can be prepared, and votes. If all hosts agree, the change is put in force.
func (k *Keeper) vote(ctx context.Context, r store.Revision) error {
	before, after, err := partsOf(r)
	voted := false
	if err == nil {
		err = k.cfg.Editor.Carry(ctx, &before, after, func(text []byte, write func() error) error {
			return k.cfg.Holder.Take(ctx, text, func(ctx context.Context, p config.Proposal) (config.Agreed, error) {
				if err := willing(r, p); err != nil {
					return config.Agreed{}, err
				}
				voted = true
				if err := k.send(ctx, r, ""); err != nil {
					return config.Agreed{}, err
				}
				return k.outcome(ctx, r)
			}, write)
		})
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		k.cfg.Log.Info("took the configuration that all hosts have agreed on", "revision", r.Number, "from", r.Host)
		return nil
	case voted && errors.As(err, new(*refusedError)):
		k.cfg.Log.Info("a change of the configuration was refused", "from", r.Host, "error", err)
		return nil
	case voted: // what was decided is taken with the next look
		return err
	}
	k.cfg.Log.Warn("this host cannot take a change of the configuration that another one proposes", "from", r.Host, "error", err)
	return k.send(ctx, r, reasonOf(err, k.cfg.Holder.Path()))
}

// unsigned returns an error if this host takes nothing from the store that is not signed, as no revision is.
func unsigned(c *config.Config) error {
	if !c.Signed() {
		return nil
	}
	return errors.New("it requires signatures, and a change of the configuration has none: change the flynn.toml of each host, restart them, and run flynn cluster accept at one")
}

// willing returns an error if this host must not take a change.
func willing(r store.Revision, p config.Proposal) error {
	switch {
	case p.Old.SharedDigest() != r.Was:
		return errors.New("it runs with another configuration already; make that of one host the one of all with flynn cluster accept there")
	case p.Old.Revision != r.Base:
		return errors.New("it has yet to take the change before; try again")
	}
	return errors.Join(unsigned(p.Old), sameAs(r, p.New))
}

func (k *Keeper) send(ctx context.Context, r store.Revision, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return k.cfg.Store.Vote(ctx, r.Number, reason)
}

// reasonOf is an error as people at other hosts see it: on one line, and without what looks like a secret in the file.
func reasonOf(err error, path string) string {
	text, _ := config.Read(path)
	_, hidden := config.Hide(string(text))
	lines := slices.DeleteFunc(strings.Split(redact.Words(hidden...).Replace(err.Error()), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return cut.Head(strings.Join(lines, "; "), maxReason)
}
