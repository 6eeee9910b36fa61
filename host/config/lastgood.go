package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

const lastGoodName = "last-good.toml"

// OpenLastGood is NewHolder for a start that must not fail on a bad file: it falls back to the last configuration that
// was in force, and says so. The file at path stays the one that is watched. When there
// is no good copy either, the error is that of the file.
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
	return newHolder(path, cfg, getenv, log, checks), nil
}

// storeDirOf finds the store of a file that may be bad in every other respect.
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
		return nil // as at most starts; writing it waits for the disk
	}
	return replaceFile(path, b.Bytes())
}

// replaceFile writes a file, readable by its owner, so that a crash leaves either the old or the new one.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
