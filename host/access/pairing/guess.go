package pairing

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/internal/clock"
	"github.com/flynnhost/flynn/host/message"
)

// Bounds of guessing.
const (
	maxWrong   = 5         // wrong codes within lockTime, and nothing more is taken
	lockTime   = time.Hour //
	maxGuesser = 1000      // who is kept count of; anybody can guess, and must not fill the disk
)

// locked reports whether nothing is taken from a guesser now; d.mu is held.
func (d *Desk) locked(guesser string) bool { return barred(d.guesses[guesser], d.cfg.Now()) }

func barred(g pairings.Guesses, now time.Time) bool {
	return clock.Within(g.Locked.Add(-lockTime), g.Locked, now)
}

// wrong counts a wrong code; d.mu is held.
func (d *Desk) wrong(ctx context.Context, guesser string) error {
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
	d.guesses[guesser] = g // counts even if the disk is full
	return d.cfg.Store.PutGuesses(context.WithoutCancel(ctx), g)
}

// right forgets the wrong codes of somebody who has given a right one; d.mu is held.
func (d *Desk) right(ctx context.Context, guesser string) error {
	if _, ok := d.guesses[guesser]; !ok {
		return nil
	}
	delete(d.guesses, guesser)
	return d.cfg.Store.DropGuesses(context.WithoutCancel(ctx), guesser)
}

// pruneGuesses forgets those whose wait is over and, when too many are left, those who have waited longest; d.mu is held.
func (d *Desk) pruneGuesses(ctx context.Context, now time.Time) error {
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

func (d *Desk) dropGuesses(ctx context.Context, guesser string) error {
	delete(d.guesses, guesser)
	return d.cfg.Store.DropGuesses(context.WithoutCancel(ctx), guesser)
}

// Guess counts a code that somebody who may not decide has tried; whether it was right is not looked at. It reports whether he
// is locked out.
func (d *Desk) Guess(ctx context.Context, guesser string) (lockedOut bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked(guesser) {
		return true, nil
	}
	err = d.wrong(ctx, guesser)
	return d.locked(guesser), err
}
