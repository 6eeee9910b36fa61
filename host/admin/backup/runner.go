package backup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// Check finds keys of backups that are none.
func Check(c *config.Config) (errs config.Errors) {
	if len(c.Backup.Recipients) == 0 {
		return nil
	}
	if _, err := Recipients(c.Backup.Recipients, ""); err != nil {
		errs = append(errs, config.Error{Key: "backup.recipients", Problem: err.Error()})
	}
	return errs
}

const (
	// lookEvery is how often a Runner looks whether a backup is due.
	lookEvery = 20 * time.Second
	// retryAfter is the time after a backup that failed.
	retryAfter = 10 * time.Minute
)

// Runner makes backups by the schedule of the configuration in force.
type Runner struct {
	config func() *config.Config
	getenv func(string) string
	log    *slog.Logger
	latest atomic.Int64 // seconds since 1970
}

// NewRunner returns a Runner.
func NewRunner(config func() *config.Config, getenv func(string) string, log *slog.Logger) *Runner {
	return &Runner{config: config, getenv: getenv, log: log}
}

// Latest returns when the latest backup was made, in seconds since 1970; 0 if none is known.
func (r *Runner) Latest() int64 { return r.latest.Load() }

// Run makes backups when they are due, until ctx ends. One that was missed is made at once.
func (r *Runner) Run(ctx context.Context) error {
	r.sweep()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var again time.Time // not before
	for {
		if now := time.Now(); now.After(again) {
			if err := r.look(ctx, now); err != nil && ctx.Err() == nil {
				r.log.Error("cannot make a backup; trying again", "in", retryAfter, "error", err)
				again = now.Add(retryAfter)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look makes a backup if one is due, and deletes those that are not kept.
func (r *Runner) look(ctx context.Context, now time.Time) error {
	c := r.config()
	b := c.Backup
	if b.To == "" {
		return nil
	}
	all, err := List(b.To)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		r.latest.Store(all[0].Time.Unix())
		if due := b.Next(all[0].Time); due.IsZero() || now.Before(due) {
			return nil
		}
	}
	keys, err := Recipients(b.Recipients, b.Passphrase)
	if err != nil {
		return err
	}
	m, err := Make(ctx, c, r.getenv, b.To, keys, now)
	if err != nil {
		return err
	}
	r.latest.Store(m.Time.Unix())
	r.log.Info("made a backup", "path", m.Path, "bytes", m.Bytes, "files", m.Files, "left_out", len(m.Left), "took", time.Since(now).Round(time.Millisecond))
	return r.prune(c)
}

func (r *Runner) prune(c *config.Config) error {
	b := c.Backup
	all, err := List(b.To)
	if err != nil {
		return err
	}
	var errs []error
	for _, k := range (Rule{b.KeepDays, b.KeepWeeks, b.KeepMonths}).Surplus(all, b.Zone()) {
		if err := os.Remove(k.Path); err != nil {
			errs = append(errs, err)
			continue
		}
		r.log.Info("deleted a backup that is not kept", "path", k.Path)
	}
	return errors.Join(errs...)
}

// sweep removes what a crash has left of backups.
func (r *Runner) sweep() {
	if err := Sweep(r.config().Store.Dir); err != nil {
		r.log.Warn("cannot remove what an earlier backup has left", "error", err)
	}
}
