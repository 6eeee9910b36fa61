package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/install/folder"
)

func store(t *testing.T) Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "versions")
	t.Cleanup(func() { _ = folder.Remove(dir) })
	return Store{Dir: dir, Max: folder.Bounds{Files: 10, Bytes: 1 << 10}}
}

func staged(t *testing.T, s Store, names ...string) *Staged {
	t.Helper()
	v, err := s.Stage()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Discard() })
	for _, name := range names {
		if err := v.Write(name, false, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func place(t *testing.T, v *Staged, version string) bool {
	t.Helper()
	known, err := v.Place(version)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Discard(); err != nil {
		t.Fatal(err)
	}
	return known
}

func TestVersionsArePlacedOnceAndHealed(t *testing.T) {
	s := store(t)
	if place(t, staged(t, s, "a", "deep/b"), "one/1.0.0") {
		t.Error("a new version was known")
	}
	if !place(t, staged(t, s, "a", "deep/b"), "one/1.0.0") {
		t.Error("the same version was not known")
	}
	at := s.Path("one/1.0.0")
	for name, mode := range map[string]os.FileMode{".": 0o500, "deep": 0o500, "a": 0o400, "deep/b": 0o400} {
		if info, err := os.Stat(filepath.Join(at, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, err := range []error{os.Chmod(filepath.Join(at, "a"), 0o600), os.WriteFile(filepath.Join(at, "a"), []byte("b"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v := staged(t, s, "a", "deep/b")
	files := v.Files()
	if place(t, v, "one/1.0.0") {
		t.Error("a version that was changed on the disk is known")
	}
	d, err := s.Open("one/1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Verify(files, ""); err != nil {
		t.Error(err)
	}
	if err := s.Remove("one"); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOnlyFolderIsTheVersion(t *testing.T) {
	s := store(t)
	v := staged(t, s, "p-1.0.0/a", "p-1.0.0/deep/b")
	if err := v.Enter(); err != nil {
		t.Fatal(err)
	}
	if files := v.Files(); len(files) != 2 || files["a"] == "" || files["deep/b"] == "" {
		t.Errorf("files are %v", files)
	}
	place(t, v, "p/1.0.0")
	if !place(t, func() *Staged { v := staged(t, s, "p-1.0.0/a", "p-1.0.0/deep/b"); _ = v.Enter(); return v }(), "p/1.0.0") {
		t.Error("the same version was not known")
	}
	if left, _ := os.ReadDir(s.Dir); len(left) != 1 {
		t.Errorf("the store has %v", left)
	}
	two := staged(t, s, "p/a", "q/b")
	if err := two.Enter(); err != nil || two.Files()["p/a"] == "" {
		t.Errorf("of two folders one was entered: %v, %v", two.Files(), err)
	}
}

type counted struct{ N int }

func (c counted) Encode() ([]byte, error) { return Encode("Written by a test.", c) }

func lockIn(dir string) Lock[counted] {
	return Lock[counted]{
		Path: filepath.Join(dir, "test.lock"), Guard: filepath.Join(dir, "more", ".flock"), Mode: 0o640,
		Parse: func(text []byte) (c counted, err error) {
			err = Decode("test.lock", text, &c)
			return c, err
		},
	}
}

func TestLockIsChangedByOneAtATime(t *testing.T) {
	l := lockIn(t.TempDir())
	if c, err := l.Read(); err != nil || c.N != 0 {
		t.Errorf("a lock that is not there: %v, %v", c, err)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := l.Change(func(c counted) (counted, error) { c.N++; return c, nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refused := errors.New("refused")
	if err := l.Change(func(c counted) (counted, error) { return counted{}, refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if c, err := l.Read(); err != nil || c.N != 10 {
		t.Errorf("read %v, %v", c, err)
	}
	if text, err := os.ReadFile(l.Path); err != nil || string(text) != "# Written by a test.\nN = 10\n" {
		t.Errorf("the lock is %q, %v", text, err)
	}
	if info, err := os.Stat(l.Path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info, err)
	}
}

func TestLockIsReadStrictly(t *testing.T) {
	l := lockIn(t.TempDir())
	for text, says := range map[string]string{
		"N = 1\nM = 2\n": "test.lock: unknown key M", "[[": "test.lock: toml", strings.Repeat("#", maxLock+1): "test.lock has more than",
	} {
		if err := os.WriteFile(l.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Read(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: got %v, want %q", text, err, says)
		}
		if err := l.Change(func(c counted) (counted, error) { return c, nil }); err == nil {
			t.Errorf("%.20q was replaced", text)
		}
	}
}

func TestProblemsOfFiles(t *testing.T) {
	sum := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"as it should be":  {map[string]string{"m": sum, "a:b": sum, strings.Repeat("long/", 90) + "x": sum}, "[]"},
		"no manifest":      {map[string]string{"a": sum}, "it has no m"},
		"a file elsewhere": {map[string]string{"m": sum, "../a": sum}, "is not the name of a file inside"},
		"a backslash":      {map[string]string{"m": sum, `a\b`: sum}, "is not the name of a file inside"},
		"half a digest":    {map[string]string{"m": sum[1:]}, `digest of "m" is not a SHA-256`},
		"capitals":         {map[string]string{"m": strings.Repeat("A", 64)}, "is not a SHA-256"},
	} {
		if got := fmt.Sprint(Problems(c.files, "m")); !strings.Contains(got, c.says) {
			t.Errorf("%s: got %s, want %q", name, got, c.says)
		}
	}
}
