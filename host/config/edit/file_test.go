package edit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

const whole = `# mine
[agent_configs.main]
system_prompt = "hi"

[routing]
default_agent = "main"
`

func home(t *testing.T) func(string) string {
	dir := t.TempDir()
	return func(key string) string { return map[string]string{"HOME": dir}[key] }
}

func fileWith(t *testing.T, text string, mode fs.FileMode) string {
	path := filepath.Join(t.TempDir(), "flynn.toml")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t *testing.T, path string) *File {
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSave(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o644} {
		path := fileWith(t, whole, mode)
		f := opened(t, path)
		for _, step := range []string{"coding", "full"} { // twice: Save goes on with what it wrote
			if err := f.Set(step, "agent_configs", "main", "tool_profile"); err != nil {
				t.Fatal(err)
			}
			if err := f.Save(home(t)); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		text, _ := os.ReadFile(path)
		if want := strings.Replace(whole, "\"hi\"\n", "\"hi\"\ntool_profile = \"full\"\n", 1); err != nil || info.Mode() != mode || string(text) != want {
			t.Errorf("mode %v, %v, text\n%s", info.Mode(), err, text)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left %v", left)
		}
	}
}

func TestUndo(t *testing.T) {
	path := fileWith(t, whole, 0o640)
	f := opened(t, path)
	if err := f.Undo(); err == nil {
		t.Error("brought back before anything was written")
	}
	save := func() {
		t.Helper()
		if err := errors.Join(f.Set("coding", "agent_configs", "main", "tool_profile"), f.Save(home(t))); err != nil {
			t.Fatal(err)
		}
	}
	save()
	if err := f.Undo(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 || string(text) != whole || f.Diff() != "" {
		t.Errorf("%v, %v, difference %q, text\n%s", info, err, f.Diff(), text)
	}
	save() // it goes on
	const theirs = "# theirs\n"
	if err := os.WriteFile(path, []byte(theirs), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := f.Undo(); !errors.Is(err, ErrChanged) {
		t.Errorf("a change by another: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != theirs {
		t.Errorf("their text has become\n%s", text)
	}
}

func TestANewFileIsForItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flynn.toml")
	f, err := OpenOrNew(path)
	if err != nil || !f.IsNew() {
		t.Fatal(err)
	}
	if err := f.Replace([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(home(t)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestNothingIsWrittenThatDoesNotLoad(t *testing.T) {
	path := fileWith(t, whole, 0o600)
	f := opened(t, path)
	if err := f.Set("nobody", "routing", "default_agent"); err != nil {
		t.Fatal(err)
	}
	var wrong config.Errors
	if err := f.Save(home(t)); !errors.As(err, &wrong) || wrong[0].Line != 6 {
		t.Errorf("got %v", err)
	}
	f = opened(t, path)
	refuse := func(*config.Config) config.Errors { return config.Errors{{Problem: "no"}} }
	if err := f.Save(home(t), refuse); err == nil {
		t.Error("a check does not count")
	}
	if text, _ := os.ReadFile(path); string(text) != whole {
		t.Errorf("written:\n%s", text)
	}
}

func TestAChangeByAnother(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"another text": func(p string) error { return os.WriteFile(p, []byte(whole+"# more\n"), 0o600) },
		"another file": func(p string) error {
			return errors.Join(os.WriteFile(p+".x", []byte(whole), 0o600), os.Rename(p+".x", p))
		},
		"gone":          os.Remove,
		"a link":        func(p string) error { return errors.Join(os.Rename(p, p+".x"), os.Symlink(p+".x", p)) },
		"made readonly": func(p string) error { return os.Chmod(p, 0o400) },
		"a folder":      func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := fileWith(t, whole, 0o600)
			f := opened(t, path)
			if err := f.Set("full", "agent_configs", "main", "tool_profile"); err != nil {
				t.Fatal(err)
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			if err := f.Save(home(t)); err == nil {
				t.Error("saved")
			}
			if text, _ := os.ReadFile(path); strings.Contains(string(text), "full") {
				t.Errorf("written:\n%s", text)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "flynn.toml")
	f, err := OpenOrNew(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Replace([]byte(whole)), os.WriteFile(path, []byte("# theirs\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(home(t)); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that has appeared: %v", err)
	}
}

func TestFilesThatAreNotEdited(t *testing.T) {
	dir := t.TempDir()
	path := fileWith(t, whole, 0o600)
	link := filepath.Join(dir, "link.toml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"a link":         {link, "symbolic link to \"" + path},
		"a folder":       {dir, "not a regular file"},
		"a device":       {"/dev/null", "not a regular file"},
		"read-only":      {fileWith(t, whole, 0o400), "read-only (mode 0400)"},
		"no TOML":        {fileWith(t, "a = ", 0o600), "flynn config check"},
		"missing":        {filepath.Join(dir, "none"), "no such file"},
		"a large one":    {fileWith(t, strings.Repeat("#\n", maxFile), 0o600), "larger than 1m"},
		"of another":     {"/etc/hostname", "belongs to user 0"},
		"not even UTF-8": {fileWith(t, "# \xff\n", 0o600), "flynn config check"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "of another" && os.Geteuid() == 0 {
				t.Skip("root owns it")
			}
			if _, err := Open(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
