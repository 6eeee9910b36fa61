package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/internal/durable"
)

const lastGoodName = "last-good.toml"

// OpenLastGood is NewHolder for a start that must not fail on a bad file: it falls back to the last configuration that
// was in force, and logs that. The file at path is watched nevertheless. Without a good copy, the error is that of the
// file.
func OpenLastGood(path string, getenv func(string) string, log *slog.Logger, checks ...Check) (*Holder, error) {
	holder, bad := NewHolder(path, getenv, log, checks...)
	if bad == nil {
		return holder, nil
	}
	last := filepath.Join(storeDirOf(path, getenv), lastGoodName)
	cfg, err := Load(last, getenv, checks...)
	if err != nil {
		log.Error("no last good configuration", "path", last, "error", err)
		return nil, bad
	}
	log.Warn("configuration refused; the last good one is in force", "path", path, "last_good", last, "error", bad)
	return newHolder(path, cfg, getenv, log, checks).inPlaceOf(bad), nil
}

// Open makes a Holder of the file at path, as NewHolder does.
type Open = func(path string, getenv func(string) string, log *slog.Logger, checks ...Check) (*Holder, error)

// FallBack returns an Open with a configuration that was in force in place of the file's, with which the program does not start because of
// bad. The file is watched nevertheless.
func FallBack(before *Config, bad error) Open {
	return func(path string, getenv func(string) string, log *slog.Logger, checks ...Check) (*Holder, error) {
		cfg := *before
		return newHolder(path, &cfg, getenv, log, checks).inPlaceOf(bad), nil
	}
}

// inPlaceOf has a holder go on with what it has instead of the file as it is, which is refused because of bad.
func (h *Holder) inPlaceOf(bad error) *Holder {
	h.refused = bad
	if src, err := readFile(h.path); err == nil {
		h.seen = digest(src)
	}
	return h
}

// storeDirOf finds the store of a file that may be wrong in all other keys.
func storeDirOf(path string, getenv func(string) string) string {
	fallback := defaultStoreDir(getenv)
	src, err := readFile(path)
	if err != nil {
		return fallback
	}
	store, _ := readDocument(path, string(src)).keys["store"].(map[string]any)
	dir, _ := store["dir"].(string)
	if dir == "" {
		return fallback
	}
	if dir, err = expander(path, getenv)(dir); err != nil {
		return fallback
	}
	return dir
}

// keepLastGood writes the configuration, which holds no secrets, to the store in one step.
func keepLastGood(cfg *Config) error {
	if filepath.Base(cfg.Path) == lastGoodName && filepath.Dir(cfg.Path) == cfg.Store.Dir {
		return nil // it is that copy
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The last good copy of %q, kept for flynn serve --last-good. Changes here are lost.\n\n", cfg.Path)
	if err := cfg.Show(&b); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Store.Dir, 0o700); err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	path := filepath.Join(cfg.Store.Dir, lastGoodName)
	if kept, err := os.ReadFile(path); err == nil && bytes.Equal(kept, b.Bytes()) {
		return nil // the usual case: do not wait for the disk
	}
	return durable.WriteFile(path, b.Bytes(), 0o600)
}
