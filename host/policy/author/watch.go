package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/policy/cover"
	"github.com/fsnotify/fsnotify"
)

// Round is one save of a policy's sources, and what came of it.
type Round struct {
	Report Report        `json:"report"` // of the cases, on the new module
	Build  time.Duration `json:"build_ns"`
	Test   time.Duration `json:"test_ns"`
	// InPlace says that the new module lies where a host finds it. It does not when it cannot be built, or a case fails.
	InPlace bool   `json:"in_place"`
	Error   string `json:"error,omitempty"`
}

// quietFor is how long a folder has to be quiet before it is built: editors write a file in several steps.
const quietFor = 30 * time.Millisecond

// Watch builds the policy in dir, asks the new module all its cases, and puts it in place of the old one only if all pass; now,
// and each time that something in the folder is saved, until the context ends. A host that has the module's path in its
// configuration swaps it in by itself.
func Watch(ctx context.Context, dir string, tell func(Round)) (err error) {
	m, err := LoadManifest(dir)
	if err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := watchFolders(w, dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			return fmt.Errorf("watch %s: %w", dir, err)
		case event := <-w.Events:
			if isSource(m, dir, event.Name) {
				// A folder that has just been made, such as by a move, has to be watched too; one that is gone cannot be.
				_ = watchFolders(w, dir)
				quiet.Reset(quietFor)
			}
		case <-quiet.C:
			tell(oneRound(ctx, dir))
		}
	}
}

// watchFolders adds every folder of sources. One that is watched already stays so.
func watchFolders(w *fsnotify.Watcher, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case path != dir && isFurniture(d.Name()):
			return fs.SkipDir
		}
		return w.Add(path)
	})
}

// isFurniture tells folders that tools fill, not authors.
func isFurniture(name string) bool {
	switch name {
	case "vendor", "node_modules", "target", "build":
		return true
	}
	return strings.HasPrefix(name, ".")
}

// isSource tells what is worth a build: not what a build, or an editor for itself, writes.
func isSource(m Manifest, dir, path string) bool {
	name := filepath.Base(path)
	return !isFurniture(name) && path != m.modulePath(dir) && filepath.Ext(strings.TrimSuffix(name, cover.MapSuffix)) != ".wasm" && !strings.HasSuffix(name, "~")
}

// oneRound is what one save leads to.
func oneRound(ctx context.Context, dir string) (r Round) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	if err := r.run(ctx, dir); err != nil {
		r.Error = err.Error()
		return r
	}
	r.InPlace = true
	return r
}

var errCases = errors.New("cases fail: the module of before stays in place")

func (r *Round) run(ctx context.Context, dir string) error {
	m, err := LoadManifest(dir) // it may be what was saved
	if err != nil {
		return err
	}
	l, ok := languageNamed(m.Language)
	if !ok {
		return fmt.Errorf("policy %s comes ready-made: there is nothing to build on a save", m.Name)
	}
	return replace(m.modulePath(dir), func(out string) error {
		begin := time.Now()
		if err := l.compile(ctx, m, dir, out); err != nil {
			return err
		}
		r.Build = time.Since(begin)
		return r.try(ctx, m, dir, out)
	})
}

// try asks a module that is not in place yet.
func (r *Round) try(ctx context.Context, m Manifest, dir, out string) (err error) {
	begin := time.Now()
	wasm, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	s, err := subjectAt(m, dir, out, wasm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.Report, err = s.test(ctx, nil, nil)
	r.Test = time.Since(begin)
	r.Report.Module = m.modulePath(dir)
	if err == nil && r.Report.Failed > 0 {
		return errCases
	}
	return err
}
