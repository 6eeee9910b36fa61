package config

import (
	"context"
	"errors"
	"fmt"
)

// Group are the hosts that share a store, and that agree on what concerns all of them before one of them puts it in force.
type Group interface {
	// Agree proposes a configuration to the others, and returns when they have agreed on it.
	Agree(ctx context.Context, p Proposal) (Agreed, error)
	// Others returns the other hosts that are alive.
	Others(ctx context.Context) ([]string, error)
}

// Proposal is a change of the configuration in force.
type Proposal struct {
	Old, New *Config
	// Before and After are the texts of flynn.toml; Before is nil if it is not known.
	Before, After []byte
}

// Agreed is what hosts have agreed on.
type Agreed struct {
	Revision int64    // see Config.Revision
	Hosts    []string // that put it in force
}

// Signed reports whether this host accepts from the store only what somebody has signed whose key it has.
func (c *Config) Signed() bool { return c.PluginTrust.RequireSignature || c.Trust.RequireSignature }

// Join has each change of what concerns all hosts agreed on by a group, of whose revisions this host has the given one. It is called before Run.
func (h *Holder) Join(g Group, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group = g
	h.Current().Revision = revision
}

// Put puts a text in force that is written once it may be: when it is prepared, and when the other hosts agree. After an error of write it is
// not in force here.
func (h *Holder) Put(ctx context.Context, text []byte, write func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, owed := h.Current(), false
	err := h.put(ctx, text, func(ctx context.Context, p Proposal) (Agreed, error) {
		agreed, err := h.propose(ctx, p)
		owed = err == nil && agreed.Revision != old.Revision
		return agreed, err
	}, write)
	if err != nil && owed {
		err = fmt.Errorf("the other hosts have it, and this one gets no work until it has it too, for which it tries again by itself: %w", err)
	}
	if err != nil {
		return h.stays(old, err)
	}
	return nil
}

// Take is Put for what the other hosts have proposed or agreed on; agree is called when it is prepared.
func (h *Holder) Take(ctx context.Context, text []byte, agree func(context.Context, Proposal) (Agreed, error), write func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.put(ctx, text, agree, write)
}

// Again is Take with the text that is in force.
func (h *Holder) Again(ctx context.Context, agree func(context.Context, Proposal) (Agreed, error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := h.text()
	if text == nil {
		return errors.New("the text of the configuration in force is not known: correct flynn.toml first")
	}
	return h.put(ctx, text, agree, nil)
}

// propose has the other hosts agree on a configuration, if it concerns them.
func (h *Holder) propose(ctx context.Context, p Proposal) (Agreed, error) {
	same := Agreed{Revision: p.Old.Revision}
	if h.group == nil || p.Old.SharedDigest() == p.New.SharedDigest() {
		return same, nil
	}
	return h.group.Agree(ctx, p)
}

// Restartable returns an error for a text that has to be agreed on by other hosts, which cannot come in force by a restart of this one alone.
func (h *Holder) Restartable(ctx context.Context, text []byte) error {
	h.mu.Lock()
	g, path := h.group, h.path
	h.mu.Unlock()
	if g == nil {
		return nil
	}
	next, err := parse(path, text, h.getenv, h.checks...)
	if err != nil || next.SharedDigest() == h.Current().SharedDigest() {
		return err
	}
	others, err := g.Others(ctx)
	if err != nil {
		return fmt.Errorf("look for other hosts: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("a restart of this host alone cannot change what concerns host %s as well: save it without a restart, and then restart all; "+
		"keys that only a restart changes have to be changed in the file of each host, with flynn cluster accept on one at the end", others[0])
}

// text is the text of the configuration in force, or nil.
func (h *Holder) text() []byte {
	cfg := h.Current()
	for _, path := range []string{h.path, cfg.Path} {
		if src, err := readFile(path); err == nil && digest(src) == cfg.Digest {
			return src
		}
	}
	former, err := HistoryOf(cfg).List()
	if err != nil {
		return nil
	}
	for _, f := range former {
		if f.Is(cfg.Digest) {
			if src, err := HistoryOf(cfg).Read(f.ID); err == nil && digest(src) == cfg.Digest {
				return src
			}
		}
	}
	return nil
}
