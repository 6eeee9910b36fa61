package policy

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Timing of the watch.
const (
	// settleTime is how long a folder has to be quiet before its files are read.
	settleTime = 15 * time.Millisecond
	// settleMost bounds the wait in a folder that is never quiet.
	settleMost = 150 * time.Millisecond
	// pollEvery finds changes without an event, as on network file systems.
	pollEvery = 30 * time.Second
)

// Run watches the policies' files until the context ends and puts every change in force that passes all steps. If one does not,
// the module in force stays, and Status and the event say why.
func (e *Engine) Run(ctx context.Context) (err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil { // the system's limit is reached, which is no reason to stop
		e.cfg.Log.Warn("cannot watch the policies; polling them", "every", pollEvery, "error", err)
		return e.follow(ctx, nil)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return e.follow(ctx, w)
}

// follow reads the files after an event, and every pollEvery. w may be nil.
func (e *Engine) follow(ctx context.Context, w *fsnotify.Watcher) error {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w != nil {
		events, lost = w.Events, w.Errors
	}
	watched := e.watch(w, nil)
	e.Refresh(ctx)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	settle := newSettling()
	defer settle.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			settle.event()
		case err := <-lost:
			e.cfg.Log.Warn("watching the policies' folders", "error", err)
			settle.event()
		case <-settle.timer.C:
			settle.quiet()
			e.Refresh(ctx)
		case <-e.trips:
			e.revert(ctx)
		case <-e.rewatch:
			watched = e.watch(w, watched)
		case <-poll.C:
			watched = e.watch(w, watched)
			e.Refresh(ctx)
		}
	}
}

// settling waits until events stop coming, for a bounded time.
type settling struct {
	timer *time.Timer
	since time.Time // of the first event; zero when there is none
}

func newSettling() *settling {
	s := &settling{timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

func (s *settling) event() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.timer.Reset(min(settleTime, max(0, settleMost-time.Since(s.since))))
}

func (s *settling) quiet() { s.since = time.Time{} }

func (s *settling) stop() { s.timer.Stop() }

// watch watches the folders of the chain's files. It watches folders, because files are replaced by renaming.
func (e *Engine) watch(w *fsnotify.Watcher, old map[string]bool) map[string]bool {
	if w == nil {
		return nil
	}
	folders := map[string]bool{}
	for _, path := range e.paths() {
		folders[filepath.Dir(path)] = true
	}
	for f := range old {
		if !folders[f] {
			// It fails if the folder is gone, and then it is not watched any more.
			_ = w.Remove(f)
		}
	}
	for f := range folders {
		if old[f] {
			continue
		}
		if err := w.Add(f); err != nil {
			e.cfg.Log.Warn("cannot watch a policy's folder; polling it", "folder", f, "every", pollEvery, "error", err)
			delete(folders, f)
		}
	}
	return folders
}

func (e *Engine) paths() []string {
	e.showing.Lock()
	defer e.showing.Unlock()
	var paths []string
	for _, s := range e.slots {
		paths = append(paths, s.source.watched())
	}
	return paths
}

// Refresh reads every policy's file now and puts changes in force, as Run does.
func (e *Engine) Refresh(ctx context.Context) {
	for _, st := range e.refreshAll(ctx) {
		if st.Error != "" {
			e.cfg.Log.Error("policy file refused; the previous one stays in force", "policy", st.Name, "path", st.Path, "state", st.State, "error", st.Error)
		} else {
			e.cfg.Log.Info("policy is in force", "policy", st.Name, "digest", st.Digest, "took", st.LoadTook)
		}
		e.cfg.Events.Publish(st)
	}
}

// refreshAll stages all changes and publishes them together. It returns the policies whose files were tried.
func (e *Engine) refreshAll(ctx context.Context) []Status {
	e.staging.Lock()
	defer e.staging.Unlock()
	if e.closed {
		return nil
	}
	var tried []*slot
	changed := false
	staged := e.successors()
	for i, again := range e.refreshEach(ctx, staged, ByFile) {
		if s := staged[i]; again {
			tried = append(tried, s)
			// The records of a failing policy have the reason, so a new reason is a change.
			changed = changed || s.module != e.slots[i].module || s.module == nil
		}
	}
	e.replace(staged, changed)
	e.tell(ctx, tried)
	all := make([]Status, len(tried))
	for i, s := range tried {
		all[i] = s.status()
	}
	return all
}
