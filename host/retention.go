package host

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
)

// pruneEvery is how often what is past its time is looked for. The first look is at the start: a host that never runs for so long keeps
// nothing longer than one that does.
const pruneEvery = time.Hour

// keepHouse deletes what is past its time, by the configuration in force, until ctx ends.
func (h *Host) keepHouse(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	look := func(now time.Time) {
		h.deleteOld(ctx, now)
		h.prune(ctx, now)
		h.dropMedia(ctx)
		h.shrink(ctx)
	}
	look(time.Now())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.swept:
			h.dropMedia(ctx)
			h.shrink(ctx)
		case now := <-tick.C:
			look(now)
		}
	}
}

// shrink gives back what deletions have left of the store's file.
func (h *Host) shrink(ctx context.Context) {
	freed, err := h.store.Shrink(ctx)
	if freed > 0 {
		h.log.Info("the store's file shrank", "bytes", freed)
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("cannot shrink the store's file", "error", err)
	}
}

// prune deletes what is past its time now. Trouble is said, and the next look tries again.
func (h *Host) prune(ctx context.Context, now time.Time) {
	gone, err := h.store.Prune(ctx, retention(h.current.Load().config.Retention, now))
	if len(gone) > 0 {
		h.log.Info("pruned expired rows", "rows", gone)
	}
	if err == nil {
		err = h.pairings.Prune(ctx)
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("cannot prune expired rows", "error", err)
	}
}

// retention keeps so many whole days besides the one that has begun, so that the budgets of a day never lose a part of it.
func retention(c config.Retention, now time.Time) store.Retention {
	upTo := func(days int) time.Time {
		if days == 0 {
			return time.Time{}
		}
		return keptSince(days, now)
	}
	return store.Retention{
		Said:    upTo(c.SessionsDays),
		Results: upTo(c.ResultsDays), Decisions: upTo(c.DecisionsDays), Audit: upTo(c.AuditDays), Usage: upTo(c.UsageDays),
	}
}

func keptSince(days int, now time.Time) time.Time {
	return now.Add(-time.Duration(days+1) * 24 * time.Hour)
}
