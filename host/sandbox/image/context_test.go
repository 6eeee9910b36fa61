package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree makes a build context with a Dockerfile in it.
func tree(t *testing.T, files map[string]string) Recipe {
	t.Helper()
	dir := t.TempDir()
	files["Dockerfile"] = "FROM scratch\nCOPY . /\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Recipe{Dockerfile: filepath.Join(dir, "Dockerfile")}
}

func read(t *testing.T, r Recipe) *buildSource {
	t.Helper()
	s, err := readSource(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// names are the paths in the tar that the engine gets.
func names(t *testing.T, s *buildSource) (all []string) {
	t.Helper()
	var out bytes.Buffer
	if _, err := s.pack(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h.Name)
	}
}

func TestIgnored(t *testing.T) {
	for _, c := range []struct {
		name, ignore string
		want         []string
	}{
		{"nothing", "", []string{".dockerignore", "Dockerfile", "a/", "a/b/", "a/b/c.go", "a/b/d.txt", "node_modules/", "node_modules/x.go", "z.go"}},
		{"folder", "node_modules", []string{".dockerignore", "Dockerfile", "a/", "a/b/", "a/b/c.go", "a/b/d.txt", "z.go"}},
		{"pattern", "**/*.go\n# comment", []string{".dockerignore", "Dockerfile", "a/", "a/b/", "a/b/d.txt", "node_modules/"}},
		{"exception below an ignored folder", "a\nnode_modules\n!a/b/c.go", []string{".dockerignore", "Dockerfile", "a/", "a/b/", "a/b/c.go", "z.go"}},
		{"all but one", "*\n!z.go", []string{".dockerignore", ".flynn.dockerfile", "z.go"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := read(t, tree(t, map[string]string{
				".dockerignore": c.ignore, "a/b/c.go": "c", "a/b/d.txt": "d", "node_modules/x.go": "x", "z.go": "z",
			}))
			if got := names(t, s); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A Dockerfile's own .dockerignore counts instead of the context's: what it keeps out must not get into an image.
func TestDockerfilesOwnIgnoreFile(t *testing.T) {
	r := tree(t, map[string]string{".dockerignore": "f", "Dockerfile.dockerignore": "secret\n", "f": "x", "secret/key": "k"})
	if got, want := names(t, read(t, r)), []string{".dockerignore", "Dockerfile", "Dockerfile.dockerignore", "f"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDockerfileElsewhere(t *testing.T) {
	r := tree(t, map[string]string{"context/file": "x", "context/.flynn.dockerfile": "taken"})
	r.Context = filepath.Join(filepath.Dir(r.Dockerfile), "context")
	s := read(t, r)
	if got, want := names(t, s), []string{".dockerignore", ".flynn.dockerfile", ".flynn.dockerfile-", "file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.dockerfile != ".flynn.dockerfile-" {
		t.Errorf("it is named %q", s.dockerfile)
	}
}

func TestContextDigest(t *testing.T) {
	r := tree(t, map[string]string{"f": "content", "dir/g": "more", ".dockerignore": "ignored"})
	dir := filepath.Dir(r.Dockerfile)
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("f", at("link")))
	last := read(t, r).digest
	for _, c := range []struct {
		name    string
		change  func() error
		differs bool
	}{
		{"nothing", func() error { return nil }, false},
		{"time", func() error { return os.Chtimes(at("f"), time.Now(), time.Now().Add(-time.Hour)) }, false},
		{"ignored file", func() error { return os.WriteFile(at("ignored"), []byte("x"), 0o600) }, false},
		{"content of the same length", func() error { return os.WriteFile(at("f"), []byte("CONTENT"), 0o600) }, true},
		{"mode", func() error { return os.Chmod(at("f"), 0o755) }, true},
		{"name", func() error { return os.Rename(at("f"), at("F")) }, true},
		{"link", func() error { return errors.Join(os.Remove(at("link")), os.Symlink("F", at("link"))) }, true},
		{"empty folder", func() error { return os.Mkdir(at("empty"), 0o755) }, true},
		{"folder becomes a file", func() error {
			return errors.Join(os.Remove(at("empty")), os.WriteFile(at("empty"), nil, 0o755))
		}, true},
		{"file in a folder", func() error { return os.WriteFile(at("dir/g"), []byte("less"), 0o600) }, true},
	} {
		must(c.change())
		now := read(t, r).digest
		if differs := !bytes.Equal(now, last); differs != c.differs {
			t.Errorf("%s: differs is %v", c.name, differs)
		}
		last = now
	}
}

func TestContextRefused(t *testing.T) {
	t.Run("FIFO", func(t *testing.T) {
		r := tree(t, map[string]string{})
		if err := syscall.Mkfifo(filepath.Join(filepath.Dir(r.Dockerfile), "fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSource(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "fifo is not a file") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		r := tree(t, map[string]string{"sparse": ""})
		if err := os.Truncate(filepath.Join(filepath.Dir(r.Dockerfile), "sparse"), maxContext); err != nil {
			t.Fatal(err)
		}
		if _, err := readSource(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "more than 1024 MiB") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such folder", func(t *testing.T) {
		r := tree(t, map[string]string{})
		r.Context = "/nonexistent"
		if _, err := readSource(t.Context(), r, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such dockerfile", func(t *testing.T) {
		if _, err := readSource(t.Context(), Recipe{Dockerfile: "/nonexistent"}, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a link does not lead out", func(t *testing.T) {
		r := tree(t, map[string]string{})
		if err := os.Symlink("/etc", filepath.Join(filepath.Dir(r.Dockerfile), "out")); err != nil {
			t.Fatal(err)
		}
		if got, want := names(t, read(t, r)), []string{"Dockerfile", "out"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A file that is not what it was when it was listed ends the build, rather than giving the image a wrong name.
func TestContextChangesMeanwhile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"grown":  func(path string) error { return os.WriteFile(path, []byte("longer than before"), 0o600) },
		"shrunk": func(path string) error { return os.Truncate(path, 1) },
		"a FIFO": func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"a link": func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) },
		"gone":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			r := tree(t, map[string]string{"f": "content"})
			s := read(t, r)
			if err := change(filepath.Join(filepath.Dir(r.Dockerfile), "f")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.pack(t.Context(), io.Discard); err == nil {
				t.Error("no error")
			}
		})
	}
}

// A context holds nothing of the store of any Flynn, whether the configuration knows of it or not.
func TestNoStoreIsSent(t *testing.T) {
	r := tree(t, map[string]string{"keep/x": "x", "h1/store/flynn.db": "d", "h1/store/gateway.token": "t", "h1/flynn.toml": "c", "h2/instance": "i", "h2/workspaces/s/f": "f", "instance": "mine"})
	s, err := readSource(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, s), []string{"Dockerfile", "h1/", "h1/flynn.toml", "instance", "keep/", "keep/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	inside := tree(t, map[string]string{"flynn.db": "d"})
	below := filepath.Join(filepath.Dir(inside.Dockerfile), "workspaces", "s")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(inside.Dockerfile), below} {
		r := inside
		r.Context = dir
		if _, err := readSource(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "the store of a Flynn") {
			t.Errorf("a context in %s: %v", dir, err)
		}
	}
}

func TestHidden(t *testing.T) {
	r := tree(t, map[string]string{"keep/x": "x", "store/db": "d", "store/a/b": "b", "key": "k", "keystone": "k"})
	dir := filepath.Dir(r.Dockerfile)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	want := []string{"Dockerfile", "keep/", "keep/x", "keystone"}
	for _, hidden := range [][]string{
		{filepath.Join(dir, "store"), filepath.Join(dir, "key"), "/nonexistent", filepath.Join(dir, "missing")},
		{filepath.Join(link, "store"), filepath.Join(link, "key")},
	} {
		s, err := readSource(t.Context(), r, hidden)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(t, s); !slices.Equal(got, want) {
			t.Errorf("without %q: got %q, want %q", hidden, got, want)
		}
	}
	for _, hidden := range []string{dir, filepath.Dir(dir)} {
		if _, err := readSource(t.Context(), r, []string{hidden}); err == nil || !strings.Contains(err.Error(), "must not get into images") {
			t.Errorf("a context in %s: %v", hidden, err)
		}
	}
}
