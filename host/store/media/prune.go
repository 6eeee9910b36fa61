package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Pruned counts what was removed and what is left.
type Pruned struct {
	Removed int
	Freed   int64 // bytes on disk
	Left    int
	Used    int64 // bytes on disk
}

// Prune removes media that is not needed and older than MaxAge, and the oldest of the rest while the store is too large.
func (s *Store) Prune(ctx context.Context) (Pruned, error) {
	p, err := s.prune(ctx, func() bool { return s.used > s.config.MaxTotal }, nil)
	if err != nil {
		return p, fmt.Errorf("prune media: %w", err)
	}
	return p, nil
}

// pruneEvery is the time between two prunings.
const pruneEvery = time.Hour

// Run prunes regularly until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		switch p, err := s.Prune(ctx); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Warn("cannot prune media", "error", err)
		case p.Removed > 0:
			s.log.Info("pruned media", "removed", p.Removed, "freed", p.Freed, "left", p.Left, "used", p.Used)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// prune removes old media, and further media while more returns true: of one owner, or else of the owner with most at that moment. more
// is called with mu held.
func (s *Store) prune(ctx context.Context, more func() bool, of *message.SenderKey) (Pruned, error) {
	keep, err := s.config.Keep(ctx) // before the lock: a later need is of media younger than Grace
	if err != nil {
		return Pruned{}, fmt.Errorf("list needed media: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out Pruned
	now := s.config.Now()
	drop := func(c candidate) error {
		out.Removed++
		out.Freed += c.room
		return s.remove(c.digest, c.entry)
	}
	young := map[message.SenderKey][]candidate{} // by owner, oldest first
	for _, c := range s.candidates(keep, now) {
		if now.Sub(c.touched) >= s.config.MaxAge {
			if err := drop(c); err != nil {
				return out, err
			}
			continue
		}
		for _, o := range c.ownedBy() {
			if of == nil || o == *of {
				young[o] = append(young[o], c)
			}
		}
	}
	for more() && len(young) > 0 {
		o := s.largest(young)
		c := young[o][0]
		if young[o] = young[o][1:]; len(young[o]) == 0 {
			delete(young, o)
		}
		if s.entries[c.digest] != c.entry {
			continue // removed as another owner's
		}
		err := error(nil)
		if of != nil && len(c.owners) > 1 {
			err = s.disown(c, o)
		} else {
			err = drop(c)
		}
		if err != nil {
			return out, err
		}
	}
	out.Left, out.Used = len(s.entries), s.used
	return out, nil
}

// Drop removes one object after its last use was deleted, and reports whether it is gone. An object that is still needed, or was
// requested within Grace, stays.
func (s *Store) Drop(ctx context.Context, digest string) (gone bool, err error) {
	keep, err := s.config.Keep(ctx) // before the lock, as in prune
	if err != nil {
		return false, fmt.Errorf("drop media: list needed media: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.candidates(keep, s.config.Now()) {
		if c.digest == digest {
			if err := s.remove(c.digest, c.entry); err != nil {
				return false, fmt.Errorf("drop media: %w", err)
			}
		}
	}
	return s.entries[digest] == nil, nil
}

// candidate is an object that may be removed.
type candidate struct {
	digest string
	*entry
}

// candidates returns the objects that are not needed, oldest first. mu is held.
func (s *Store) candidates(keep map[string]bool, now time.Time) []candidate {
	var all []candidate
	for digest, e := range s.entries {
		if e.room > 0 && e.pins == 0 && !keep[digest] && now.Sub(e.touched) >= Grace {
			all = append(all, candidate{digest, e})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(a.touched.Compare(b.touched), cmp.Compare(a.digest, b.digest))
	})
	return all
}

// disown removes one owner of an object that has others. mu is held.
func (s *Store) disown(c candidate, owner message.SenderKey) error {
	c.owners = slices.DeleteFunc(slices.Clone(c.owners), func(o message.SenderKey) bool { return o == owner })
	s.give(owner, -c.room)
	h := readHead(s.path(c.digest))
	h.Owners = c.owners
	return s.writeHead(c.digest, h)
}

// ownedBy returns the owners, or "" for an object without one.
func (e *entry) ownedBy() []message.SenderKey {
	if len(e.owners) == 0 {
		return []message.SenderKey{""}
	}
	return e.owners
}

// largest returns the owner with the most bytes. mu is held.
func (s *Store) largest(of map[message.SenderKey][]candidate) (owner message.SenderKey) {
	first := true
	for o := range of {
		if first || cmp.Or(cmp.Compare(s.owned[owner], s.owned[o]), cmp.Compare(o, owner)) < 0 {
			owner, first = o, false
		}
	}
	return owner
}

// remove removes an object and then its head. mu is held.
func (s *Store) remove(digest string, e *entry) error {
	for _, name := range []string{s.path(digest), s.path(digest) + headSuffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	delete(s.entries, digest)
	s.used -= e.room
	s.own(e, -e.room)
	return nil
}

// fullFor is how long a full store refuses without looking again.
const fullFor = 10 * time.Second

// claim reserves room for an owner. If necessary it makes room: for the owner's share from his own media, and for the whole from all.
func (s *Store) claim(ctx context.Context, owner message.SenderKey, n int64) error {
	most, why := int64(0), error(nil)
	if owner != "" {
		most, why = s.config.Share(owner)
	}
	over := func() bool { return most > 0 && s.owned[owner]+n > most }
	err := s.reserve(owner, n, over)
	if errors.Is(err, ErrShare) {
		err = s.makeRoom(ctx, owner, n, over, over)
	}
	if errors.Is(err, ErrFull) {
		// A tenth more than needed, so that the next call need not look again.
		err = s.makeRoom(ctx, "", n, over, func() bool { return s.used+n > s.config.MaxTotal-s.config.MaxTotal/10 })
	}
	if errors.Is(err, ErrShare) {
		return fmt.Errorf("%w: %w", ErrShare, why)
	}
	return err
}

// makeRoom removes candidates while more returns true, of one owner or, with "", of everybody, and then reserves room.
func (s *Store) makeRoom(ctx context.Context, owner message.SenderKey, n int64, over, more func() bool) error {
	full := ErrFull
	var of *message.SenderKey
	if owner != "" {
		full, of = ErrShare, &owner
	}
	s.mu.Lock()
	hopeless := s.config.Now().Sub(s.full[owner]) < fullFor
	s.mu.Unlock()
	if hopeless {
		return full
	}
	if _, err := s.prune(ctx, more, of); err != nil {
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	err := s.reserve(owner, n, over)
	if errors.Is(err, full) {
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.DeleteFunc(s.full, func(_ message.SenderKey, at time.Time) bool { return s.config.Now().Sub(at) >= fullFor })
		s.full[owner] = s.config.Now()
	}
	return err
}

func (s *Store) reserve(owner message.SenderKey, n int64, over func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case over():
		return ErrShare
	case s.used+n > s.config.MaxTotal:
		return ErrFull
	}
	s.used += n
	s.give(owner, n)
	return nil
}

// Owned returns the bytes of each owner's media; "" counts media without an owner.
func (s *Store) Owned() map[message.SenderKey]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.owned)
}

// Owns reports whether an owner has stored an object.
func (s *Store) Owns(owner message.SenderKey, digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[digest]
	return e != nil && slices.Contains(e.owners, owner)
}

// Of returns the digests of an owner's media, sorted.
func (s *Store) Of(owner message.SenderKey) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for digest, e := range s.entries {
		if e.room > 0 && slices.Contains(e.owners, owner) {
			out = append(out, digest)
		}
	}
	slices.Sort(out)
	return out
}

// Disown ends an owner's hold of all his media, and removes what nobody else holds and nothing needs. It returns how many he held.
func (s *Store) Disown(ctx context.Context, owner message.SenderKey) (int, error) {
	digests := s.Of(owner)
	keep, err := s.config.Keep(ctx) // before the lock, as in prune
	if err != nil {
		return 0, fmt.Errorf("disown media: list needed media: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, digest := range digests {
		e := s.entries[digest]
		if e == nil || !slices.Contains(e.owners, owner) {
			continue
		}
		if len(e.owners) > 1 || keep[digest] || e.pins > 0 {
			if err = s.disown(candidate{digest, e}, owner); len(e.owners) == 0 {
				s.give("", e.room)
			}
		} else {
			err = s.remove(digest, e)
		}
		if err != nil {
			return 0, fmt.Errorf("disown media: %w", err)
		}
	}
	return len(digests), nil
}

// Held returns the bytes of an owner's media.
func (s *Store) Held(owner message.SenderKey) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[owner]
}

// own adds to the size of an object. mu is held.
func (s *Store) own(e *entry, n int64) {
	for _, o := range e.ownedBy() {
		s.give(o, n)
	}
}

// give adds to the bytes of an owner. mu is held.
func (s *Store) give(owner message.SenderKey, n int64) {
	if s.owned[owner] += n; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}
