package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Pruned tells what was removed and what is left.
type Pruned struct {
	Removed int
	Freed   int64 // bytes on disk
	Left    int
	Used    int64 // bytes on disk
}

// Prune removes what nobody needs and is older than MaxAge, and the oldest of the rest while all together is too large.
func (s *Store) Prune(ctx context.Context) (Pruned, error) {
	p, err := s.prune(ctx, 0)
	if err != nil {
		return p, fmt.Errorf("prune media: %w", err)
	}
	return p, nil
}

// pruneEvery is how often Run looks.
const pruneEvery = time.Hour

// Run prunes now and then until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		switch p, err := s.Prune(ctx); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Warn("media are not pruned", "error", err)
		case p.Removed > 0:
			s.log.Info("media are pruned", "removed", p.Removed, "freed", p.Freed, "left", p.Left, "used", p.Used)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// prune removes what is old, and more until there is room for so many bytes.
func (s *Store) prune(ctx context.Context, need int64) (Pruned, error) {
	keep, err := s.config.Keep(ctx) // before the lock: what is noted as needed after this is younger than Grace
	if err != nil {
		return Pruned{}, fmt.Errorf("ask what is needed: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out Pruned
	now := s.config.Now()
	for _, c := range s.candidates(keep, now) {
		if now.Sub(c.touched) < s.config.MaxAge && s.used+need <= s.config.MaxTotal {
			break
		}
		if err := s.remove(c.digest, c.entry); err != nil {
			return out, err
		}
		out.Removed++
		out.Freed += c.room
	}
	out.Left, out.Used = len(s.entries), s.used
	return out, nil
}

// Drop removes one object that belonged to something which is gone, and tells whether it is not there any more. What is needed still, or
// was asked for within Grace, stays.
func (s *Store) Drop(ctx context.Context, digest string) (gone bool, err error) {
	keep, err := s.config.Keep(ctx) // before the lock, as in prune
	if err != nil {
		return false, fmt.Errorf("drop media: ask what is needed: %w", err)
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

// candidate is an object that may go.
type candidate struct {
	digest string
	*entry
}

// candidates are what nobody needs, oldest first. mu is held.
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

// remove removes an object and then its head. mu is held.
func (s *Store) remove(digest string, e *entry) error {
	for _, name := range []string{s.path(digest), s.path(digest) + headSuffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	delete(s.entries, digest)
	s.used -= e.room
	return nil
}

// fullFor is how long a store that could not make room refuses without another look.
const fullFor = 10 * time.Second

// claim takes room, and makes it when there is none.
func (s *Store) claim(ctx context.Context, n int64) error {
	if s.reserve(n) {
		return nil
	}
	s.mu.Lock()
	hopeless := s.config.Now().Sub(s.full) < fullFor
	s.mu.Unlock()
	if hopeless {
		return ErrFull
	}
	// A tenth more than is needed, or else the next one would have to look again.
	if _, err := s.prune(ctx, n+s.config.MaxTotal/10); err != nil {
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	if s.reserve(n) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = s.config.Now()
	return ErrFull
}

func (s *Store) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.config.MaxTotal {
		return false
	}
	s.used += n
	return true
}
