package pairing

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/internal/clock"
	"github.com/flynnhost/flynn/host/message"
)

// Bounds of guessing.
const (
	maxWrong   = 5         // wrong codes within lockTime before a lock
	lockTime   = time.Hour //
	maxGuesser = 1000      // bounds the counted guessers, because anybody can guess
)

// locked reports whether a guesser is locked out. d.mu is held.
func (d *Service) locked(guesser string) bool { return barred(d.guesses[guesser], d.cfg.Now()) }

func barred(g pairings.Guesses, now time.Time) bool {
	return clock.Within(g.Locked.Add(-lockTime), g.Locked, now)
}

// recount reads the wrong codes, some of which other hosts may have counted. d.mu is held.
func (d *Service) recount(ctx context.Context) error {
	guesses, err := d.cfg.Store.ListGuesses(ctx)
	if err != nil {
		return fmt.Errorf("read wrong codes: %w", err)
	}
	for _, g := range guesses {
		if known, ok := d.guesses[g.Guesser]; !ok || g.Since.After(known.Since) || g.Wrong > known.Wrong {
			d.guesses[g.Guesser] = g
		}
	}
	return nil
}

// wrong counts a wrong code. d.mu is held.
func (d *Service) wrong(ctx context.Context, guesser string) error {
	now := d.cfg.Now()
	g, ok := d.guesses[guesser]
	if !ok || now.Sub(g.Since) >= lockTime {
		if err := d.pruneGuesses(ctx, now); err != nil {
			return err
		}
		g = pairings.Guesses{Guesser: guesser, Since: now.UTC()}
	}
	g.Wrong++
	d.cfg.Events.Publish(Happened{WrongCode, message.SenderKey(guesser)})
	d.cfg.Log.Warn("wrong pairing code", "guesser", guesser, "wrong", g.Wrong)
	if g.Wrong >= maxWrong {
		g.Locked = now.Add(lockTime).UTC()
		d.cfg.Events.Publish(Happened{LockedOut, message.SenderKey(guesser)})
		d.cfg.Log.Warn("sender locked out after wrong pairing codes", "guesser", guesser, "until", g.Locked)
	}
	d.guesses[guesser] = g // effective even if the commit fails
	return d.cfg.Store.PutGuesses(context.WithoutCancel(ctx), g)
}

// right deletes the count of a guesser who has given a right code. d.mu is held.
func (d *Service) right(ctx context.Context, guesser string) error {
	if _, ok := d.guesses[guesser]; !ok {
		return nil
	}
	delete(d.guesses, guesser)
	return d.cfg.Store.DropGuesses(context.WithoutCancel(ctx), guesser)
}

// pruneGuesses deletes expired counts and, if too many are left, the oldest ones. d.mu is held.
func (d *Service) pruneGuesses(ctx context.Context, now time.Time) error {
	oldest := ""
	for guesser, g := range d.guesses {
		if now.Sub(g.Since) >= lockTime && !barred(g, now) {
			if err := d.dropGuesses(ctx, guesser); err != nil {
				return err
			}
		} else if oldest == "" || g.Since.Before(d.guesses[oldest].Since) {
			oldest = guesser
		}
	}
	if len(d.guesses) < maxGuesser {
		return nil
	}
	return d.dropGuesses(ctx, oldest)
}

func (d *Service) dropGuesses(ctx context.Context, guesser string) error {
	delete(d.guesses, guesser)
	return d.cfg.Store.DropGuesses(context.WithoutCancel(ctx), guesser)
}

// Guess counts a code from a sender who may not decide, without checking it. It reports whether he is locked out.
func (d *Service) Guess(ctx context.Context, guesser string) (lockedOut bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.recount(ctx); err != nil {
		return false, err
	}
	if d.locked(guesser) {
		return true, nil
	}
	err = d.wrong(ctx, guesser)
	return d.locked(guesser), err
}
