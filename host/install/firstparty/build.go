package firstparty

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/install/folder"
)

const (
	buildTimeout = 10 * time.Minute
	keptBuilds   = 3 // builds of one plugin or policy that stay in the cache
)

// A build in the cache is a folder, named by the digest of its sources, with the following.
const (
	filesName = "files"  // the folder of the plugin or policy
	sumName   = "sha256" // its digest
)

// built returns the build of one's present sources.
func (s Shelf) built(ctx context.Context, log *slog.Logger, k Kind, name string, b Builder) (Got, error) {
	source := s.Dir(k, name)
	if !s.Has(k, name) {
		return Got{}, fmt.Errorf("no %s %q comes with this flynn", k.one(), name)
	}
	stamp, err := s.sourceDigest(k, name)
	if err != nil {
		return Got{}, fmt.Errorf("read the source of %s %s: %w", k.one(), name, err)
	}
	cache, err := s.cacheOf(k, name)
	if err != nil {
		return Got{}, fmt.Errorf("build %s %s: %w", k.one(), name, err)
	}
	entry := filepath.Join(cache, stamp[:32])
	if _, err := os.Stat(entry); err == nil {
		return cached(entry)
	}
	begin := time.Now()
	log.Info("building a "+k.one()+" that comes with flynn, once", "name", name, "source", source)
	if err := build(ctx, b, source, entry); err != nil {
		return Got{}, fmt.Errorf("build %s %s from %s: %w", k.one(), name, source, err)
	}
	log.Info("built a "+k.one(), "name", name, "took", time.Since(begin).Round(time.Millisecond))
	prune(cache, entry)
	return cached(entry)
}

func (s Shelf) cacheOf(k Kind, name string) (string, error) {
	cache := s.cache
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "flynn", "firstparty")
	}
	return filepath.Join(cache, string(k), name), nil
}

// cached returns a build of the cache after verifying it.
func cached(entry string) (Got, error) {
	sum, err := os.ReadFile(filepath.Join(entry, sumName))
	if err != nil {
		return Got{}, err
	}
	g := Got{Dir: filepath.Join(entry, filesName), Digest: string(sum)}
	if err := verify(g.Dir, g.Digest); err != nil {
		return Got{}, fmt.Errorf("verify the build in %s: %w: delete that folder, and it is built again", entry, err)
	}
	return g, nil
}

// build makes a build beside its place, and moves it there as a whole.
func build(ctx context.Context, b Builder, source, entry string) (err error) {
	if err := os.MkdirAll(filepath.Dir(entry), 0o700); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(filepath.Dir(entry), ".build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Remove(draft)) }()
	files := filepath.Join(draft, filesName)
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, buildTimeout, fmt.Errorf("not finished within %v", buildTimeout))
	defer cancel()
	if err := b.Assemble(ctx, source, files); err != nil {
		return err
	}
	sum, err := Digest(files)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(draft, sumName), []byte(sum), 0o600); err != nil {
		return err
	}
	err = os.Rename(draft, entry)
	if _, there := os.Stat(filepath.Join(entry, sumName)); there == nil {
		return nil // another process was faster
	}
	return err
}

// prune deletes all but the latest builds, and what a build that was killed has left.
func prune(cache, entry string) {
	type aged struct {
		path string
		at   time.Time
	}
	var all []aged
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		info, err := e.Info()
		if path := filepath.Join(cache, e.Name()); err == nil && path != entry {
			all = append(all, aged{path, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Compare(b.at.UnixNano(), a.at.UnixNano()) })
	for i, a := range all {
		draft := strings.HasPrefix(filepath.Base(a.path), ".")
		if draft && time.Since(a.at) > buildTimeout || !draft && i >= keptBuilds-1 {
			_ = folder.Remove(a.path)
		}
	}
}

// shared are the files and folders of the module that go into every build, besides the folder of the plugin or policy.
func shared() []string { return []string{"go.mod", "go.sum", "sdk", "cmd/flynn-rego"} }

// sourceDigest covers what one is built from, and the toolchain.
func (s Shelf) sourceDigest(k Kind, name string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, top := range append(shared(), string(k)+"/"+name) {
		err := filepath.WalkDir(filepath.Join(s.module, filepath.FromSlash(top)), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
				return fs.SkipDir
			case d.IsDir() || !source(d):
				return nil
			}
			content, err := os.ReadFile(path)
			short, _ := filepath.Rel(s.module, path)
			fmt.Fprintf(sum, "%q %d\n", filepath.ToSlash(short), len(content))
			sum.Write(content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// source reports whether a file may go into a build: tests and modules that were built in place do not.
func source(d fs.DirEntry) bool {
	name := d.Name()
	return d.Type().IsRegular() && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".wasm") &&
		!strings.HasSuffix(name, ".wasm.map")
}
