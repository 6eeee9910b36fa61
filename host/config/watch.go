package config

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the file must stay the same before it is loaded: editors write in several steps, and half a
// file can be a valid one.
const settle = 100 * time.Millisecond

// pollEvery is for changes without an event: on network file systems, after the folder itself was replaced, or when the
// system has no more watches.
const pollEvery = 10 * time.Second

// Run reloads when the file changes, and at every signal from hup, until the context ends. Failures are logged; the old
// generation stays. hup may be nil.
func (h *Holder) Run(ctx context.Context, hup <-chan os.Signal) error {
	h.mu.Lock()
	h.confirm(h.Current(), h.inForce())
	h.mu.Unlock()
	changes, lost, closeWatcher := h.notices()
	defer closeWatcher()
	h.watch(ctx, changes, lost, hup)
	return nil
}

// notices watches the file's folder instead of the file, which editors and deployments replace. A folder that cannot be
// watched is polled.
func (h *Holder) notices() (changes <-chan fsnotify.Event, lost <-chan error, closeWatcher func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		h.log.Warn("cannot watch the configuration; polling it", "path", h.path, "every", pollEvery, "error", err)
		return nil, nil, func() {}
	}
	if err := watcher.Add(filepath.Dir(h.path)); err != nil {
		h.log.Warn("cannot watch the configuration; polling it", "path", h.path, "every", pollEvery, "error", err)
	}
	return watcher.Events, watcher.Errors, func() { _ = watcher.Close() }
}

func (h *Holder) watch(ctx context.Context, changes <-chan fsnotify.Event, lost <-chan error, hup <-chan os.Signal) {
	pending := ""            // digest of a new file that has yet to prove stable
	look := time.NewTimer(0) // at once: the file may have changed since it was loaded
	defer look.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	waiting := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			h.reload(ctx)
			continue
		case <-look.C:
			waiting = false
			found := h.unseen()
			if found != "" && found == pending {
				h.reload(ctx)
				found = ""
			}
			if pending = found; pending == "" {
				continue
			}
		case <-poll.C:
		case <-changes:
			// Any event: the path may be a link whose target changes under another name. The digest tells.
		case err := <-lost:
			h.log.Warn("lost events of the configuration's file", "path", h.path, "error", err)
		}
		// Further events do not delay it: a busy folder must not keep the file from being read.
		if !waiting {
			look.Reset(settle)
			waiting = true
		}
	}
}

func (h *Holder) reload(ctx context.Context) {
	if err := h.Reload(ctx); err != nil {
		h.log.Error("configuration refused", "error", err)
	}
}

// inForce is the text of the file if it is in force, or nil.
func (h *Holder) inForce() []byte {
	src, err := readFile(h.path)
	if err != nil || digest(src) != h.Current().Digest {
		return nil
	}
	return src
}

// unseen is the digest of the file if it differs from the one tried last, or "". A file that cannot be read is being
// replaced or is gone; neither needs a reload. Nor does one that is in force again, because an edit of it was undone.
func (h *Holder) unseen() string {
	src, err := readFile(h.path)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := digest(src)
	switch {
	case err != nil || now == h.seen:
		return ""
	case now == h.Current().Digest:
		if h.refused != nil {
			h.log.Info("the configuration file is again what is in force", "generation", h.Current().Generation)
		}
		h.seen, h.refused = now, nil
		return ""
	}
	return now
}
