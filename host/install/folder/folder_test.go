package folder

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/digest"
)

var small = Bounds{Files: 4, Bytes: 1 << 10}

func put(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "a", "text", 0o664)
	put(t, dir, "bin/b", "program", 0o755)
	put(t, dir, ".hidden/c", "secret", 0o644)
	put(t, dir, "bin/.d", "secret", 0o644)
	return dir
}

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	d, err := Open(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// filled copies a folder and returns where to, and the digests.
func filled(t *testing.T, from string) (string, map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { _ = Remove(dir) })
	w, err := Fill(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = w.Copy(open(t, from))
	return dir, w.Files(), err
}

func TestCopyIsReadOnlyAndByDigest(t *testing.T) {
	dir, files, err := filled(t, source(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": digest.Of([]byte("text")), "bin/b": digest.Of([]byte("program"))}
	if !maps.Equal(files, want) {
		t.Errorf("copied %v", files)
	}
	if err := Seal(dir); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"a": 0o400, "bin/b": 0o500, "bin": 0o500, ".": 0o755} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %v", name, info.Mode().Perm(), err, mode)
		}
	}
	d := open(t, dir)
	if f, err := d.Verify(files, "bin/b"); err != nil || f == nil {
		t.Errorf("verify: %v, %v", f, err)
	} else {
		_ = f.Close()
	}
	if got, err := d.Contents(files); err != nil || string(got["a"]) != "text" || len(got) != 2 {
		t.Errorf("contents: %q, %v", got, err)
	}
	if got, err := d.Digests(); err != nil || !maps.Equal(got, want) {
		t.Errorf("digests: %v, %v", got, err)
	}
	if got := string(Sums(files)); got != want["a"]+"  a\n"+want["bin/b"]+"  bin/b\n" {
		t.Errorf("sums are %q", got)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if err := Remove(dir); err != nil {
		t.Errorf("remove what is gone: %v", err)
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"link to a file":   {func(t *testing.T, dir string) { _ = os.Symlink("/etc/passwd", filepath.Join(dir, "l")) }, "l is not a regular file"},
		"link to a folder": {func(t *testing.T, dir string) { _ = os.Symlink("/etc", filepath.Join(dir, "bin/l")) }, "bin/l is not a regular file"},
		"backslash":        {func(t *testing.T, dir string) { put(t, dir, `bin/a\b`, "", 0o644) }, "is not a name"},
		"drive":            {func(t *testing.T, dir string) { put(t, dir, "C:x", "", 0o644) }, "is not a name"},
		"many files": {func(t *testing.T, dir string) {
			for i := range 4 {
				put(t, dir, fmt.Sprint(i), "", 0o644)
			}
		}, "more than 4 files"},
		"many bytes": {func(t *testing.T, dir string) { put(t, dir, "large", strings.Repeat("x", 1<<10), 0o644) }, "more than 1024 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := source(t)
			c.spoil(t, dir)
			if _, _, err := filled(t, dir); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	w, err := Fill(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Write("a", false, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"a": "a is there twice", "a/b": "a", "../b": "not a name", "/b": "not a name", `b\c`: "not a name", "": "not a name", ".": "not a name", "b/../c": "not a name",
		"C:b": "not a name", "b\x00": "not a name", "b\xff": "not a name", "b/": "not a name",
	} {
		if err := w.Write(name, false, strings.NewReader("")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", name, err, says)
		}
	}
	if err := w.Write("large", false, strings.NewReader(strings.Repeat("x", 1<<10+1))); err == nil || !strings.Contains(err.Error(), "more than 1024 bytes") {
		t.Errorf("a large one: %v", err)
	}
	if got := slices.Collect(maps.Keys(w.Files())); len(got) != 1 {
		t.Errorf("written: %v", got)
	}
}

func TestVerifyFindsTampering(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"changed file":      {func(t *testing.T, dir string) { put(t, dir, "a", "texd", 0o600) }, "a is not the file that was installed"},
		"longer file":       {func(t *testing.T, dir string) { put(t, dir, "a", strings.Repeat("x", 2<<10), 0o600) }, "a "},
		"further file":      {func(t *testing.T, dir string) { put(t, dir, "bin/more", "", 0o400) }, "bin/more is not in the lock"},
		"hidden file":       {func(t *testing.T, dir string) { put(t, dir, ".npmrc", "", 0o400) }, ".npmrc is not in the lock"},
		"missing file":      {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "bin/b")) }, "bin/b"},
		"writable by all":   {func(t *testing.T, dir string) { _ = os.Chmod(filepath.Join(dir, "bin/b"), 0o777) }, "can be written by others"},
		"writable by group": {func(t *testing.T, dir string) { _ = os.Chmod(filepath.Join(dir, "a"), 0o460) }, "can be written by others"},
		"link for a file": {func(t *testing.T, dir string) {
			_ = os.Rename(filepath.Join(dir, "bin/b"), filepath.Join(dir, "bin/c"))
			_ = os.Symlink("c", filepath.Join(dir, "bin/b"))
		}, "bin/b is not a regular file"},
		"link for a folder": {func(t *testing.T, dir string) {
			_ = os.Rename(filepath.Join(dir, "bin"), filepath.Join(dir, ".bin"))
			_ = os.Symlink(".bin", filepath.Join(dir, "bin"))
		}, "bin is not a regular file"},
		"folder for a file": {func(t *testing.T, dir string) {
			_ = os.Remove(filepath.Join(dir, "a"))
			_ = os.Mkdir(filepath.Join(dir, "a"), 0o700)
		}, "a is not a regular file"},
		"another's file": {func(t *testing.T, dir string) {
			if err := os.Chown(filepath.Join(dir, "a"), 4242, 4242); err != nil {
				t.Skip("needs root: ", err)
			}
		}, "belongs to user 4242"},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("modes of Unix")
			}
			dir, files, err := filled(t, source(t))
			if err != nil {
				t.Fatal(err)
			}
			_ = os.Chmod(filepath.Join(dir, "a"), 0o600)
			c.spoil(t, dir)
			d := open(t, dir)
			_, verified := d.Verify(files, "a")
			_, read := d.Contents(files)
			for how, err := range map[string]error{"verify": verified, "contents": read} {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: got %v, want %q", how, err, c.says)
				}
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	d := open(t, source(t))
	if text, err := d.Read("a", 4); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := d.Read("a", 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"bin", "none", "../x"} {
		if _, err := d.Read(name, 10); err == nil {
			t.Errorf("read %s", name)
		}
	}
}
