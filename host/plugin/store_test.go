package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/install/folder"
)

// source makes a plugin folder with a small script in place of a program.
func source(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, ManifestName, `manifest = 1
name = "small"
version = "`+version+`"
kinds = ["channel"]
protocols = [1]
exec = { any = "bin/small" }
permissions = { network = ["example.com:443"] }
`, 0o644)
	put(t, dir, "bin/small", "#!/bin/sh\n", 0o755)
	put(t, dir, ".git/config", "secret", 0o644)
	put(t, dir, "lib/deep/data.txt", "data", 0o664)
	return dir
}

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

func open(t *testing.T) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Remove(s.versions.Dir) })
	return s
}

func TestInstallVerifyListRemove(t *testing.T) {
	s := open(t)
	installed, err := s.Install(source(t, "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for name := range installed.Files {
		files = append(files, name)
	}
	if len(files) != 3 || installed.Files[".git/config"] != "" {
		t.Errorf("installed %q", files)
	}
	at := s.versions.Path(installed.dir())
	for name, want := range map[string]os.FileMode{"bin/small": 0o500, "lib/deep/data.txt": 0o400, "lib": 0o500, ".": 0o500} {
		if info, err := os.Stat(filepath.Join(at, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", name, info.Mode().Perm(), err, want)
		}
	}
	if again, err := s.Install(source(t, "1.0.0")); err != nil || !again.Known {
		t.Errorf("installing the same again: known %t, %v", again.Known, err)
	}
	if _, err := s.Install(source(t, "1.1.0")); err != nil {
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Version != "1.1.0" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if got, err := s.Verify("small"); err != nil || !cmp.Equal(got, list[0]) {
		t.Errorf("verify: %+v, %v", got, err)
	}
	if err := s.Remove("small"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); err == nil {
		t.Error("the files are still there")
	}
	for name, err := range map[string]error{"remove": s.Remove("small"), "verify": second(s.Verify("small"))} {
		if err == nil || !strings.Contains(err.Error(), `plugin "small" is not installed`) {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.versions.Dir, ".staged-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func second[T any](_ T, err error) error { return err }

func TestInstallRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"no manifest":     {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, ManifestName)) }, ManifestName},
		"no program":      {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "bin/small")) }, "names a file that is missing"},
		"link in folder":  {func(t *testing.T, dir string) { _ = os.Symlink("/etc/passwd", filepath.Join(dir, "lib/link")) }, "not a regular file"},
		"broken manifest": {func(t *testing.T, dir string) { put(t, dir, ManifestName, "name = ", 0o644) }, "plugin.toml: toml"},
		"link as program": {func(t *testing.T, dir string) {
			_ = os.Remove(filepath.Join(dir, "bin/small"))
			_ = os.Symlink("/bin/sh", filepath.Join(dir, "bin/small"))
		}, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := open(t), source(t, "1.0.0")
			c.spoil(t, dir)
			if _, err := s.Install(dir); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if list, _ := s.List(); len(list) > 0 {
				t.Errorf("it is in the lock: %+v", list)
			}
		})
	}
}

func TestAVersionNeverChanges(t *testing.T) {
	s := open(t)
	if _, err := s.Install(source(t, "1.0.0")); err != nil {
		t.Fatal(err)
	}
	other := source(t, "1.0.0")
	put(t, other, "bin/small", "#!/bin/sh\necho other\n", 0o755)
	if _, err := s.Install(other); err == nil || !strings.Contains(err.Error(), "version 1.0.0 is installed with other content") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Verify("small"); err != nil {
		t.Errorf("the first one was harmed: %v", err)
	}
}
