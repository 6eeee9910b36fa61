package firstparty

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// release makes the folder lib/flynn of a release with one plugin and one policy.
func release(t *testing.T) (lib string) {
	t.Helper()
	lib = filepath.Join(t.TempDir(), "lib", "flynn")
	put(t, lib, "plugins/small/plugin.toml", "name = \"small\"\nversion = \"1.2.0\"\n")
	put(t, lib, "plugins/small/bin/small", "program")
	put(t, lib, "policies/strict/policy.toml", "name = \"strict\"\nversion = \"2.0.0\"\n")
	if err := WriteManifest(lib); err != nil {
		t.Fatal(err)
	}
	return lib
}

var quiet = slog.New(slog.DiscardHandler)

func TestReleaseIsLockedByItsDigests(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, lib string)
		says  string
	}{
		"as it was made": {func(*testing.T, string) {}, ""},
		"hidden file":    {func(t *testing.T, lib string) { put(t, lib, "plugins/small/.DS_Store", "x") }, ""},
		"changed file":   {func(t *testing.T, lib string) { put(t, lib, "plugins/small/bin/small", "other") }, "is not the one that came with this flynn"},
		"further file":   {func(t *testing.T, lib string) { put(t, lib, "plugins/small/more", "x") }, "is not the one that came with this flynn"},
		"missing file":   {func(_ *testing.T, lib string) { _ = os.Remove(lib + "/plugins/small/bin/small") }, "is not the one that came with this flynn"},
		"missing folder": {func(_ *testing.T, lib string) { _ = os.RemoveAll(lib + "/plugins/small") }, "no such file"},
		"link": {func(_ *testing.T, lib string) {
			_ = os.Remove(lib + "/plugins/small/bin/small")
			_ = os.Symlink("/bin/sh", lib+"/plugins/small/bin/small")
		}, "not a regular file"},
		"no list":      {func(t *testing.T, lib string) { put(t, lib, ManifestName, "") }, "manifest.json: EOF: install Flynn again"},
		"unknown key":  {func(t *testing.T, lib string) { put(t, lib, ManifestName, `{"Plugin":{}}`) }, "unknown field"},
		"bad name":     {func(t *testing.T, lib string) { put(t, lib, ManifestName, `{"plugins":{"../x":{"sha256":""}}}`) }, `"../x" is not a plugin with a digest`},
		"empty list":   {func(t *testing.T, lib string) { put(t, lib, ManifestName, `{}`) }, `names no plugin "small"`},
		"endless list": {func(t *testing.T, lib string) { put(t, lib, ManifestName, strings.Repeat(" ", maxManifest+1)) }, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			lib := release(t)
			c.spoil(t, lib)
			s := FromRelease(lib)
			got, err := s.Get(t.Context(), quiet, Plugins, "small", nil)
			if c.says == "" && (err != nil || got.Dir != filepath.Join(lib, "plugins", "small")) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, %v, want %q", got, err, c.says)
			}
		})
	}
}

func TestReleaseSaysWhatItHas(t *testing.T) {
	s := FromRelease(release(t))
	if a, b := s.Names(Plugins), s.Names(Policies); !slices.Equal(a, []string{"small"}) || !slices.Equal(b, []string{"strict"}) {
		t.Errorf("names %q and %q", a, b)
	}
	stamp, err := s.Stamp(Plugins, "small")
	if sum, _ := Digest(s.Dir(Plugins, "small")); err != nil || stamp != sum {
		t.Errorf("stamp %s, %v", stamp, err)
	}
	if s.Has(Policies, "small") || (Shelf{}).Has(Plugins, "small") {
		t.Error("something is there that is not")
	}
}

func TestManifestIsOfWhatHasItsName(t *testing.T) {
	lib := release(t)
	put(t, lib, "plugins/other/plugin.toml", "name = \"another\"\nversion = \"1.0.0\"\n")
	if err := WriteManifest(lib); err == nil || !strings.Contains(err.Error(), "the folder must have the name") {
		t.Errorf("got %v", err)
	}
}

func TestReleaseIsFoundBesideTheProgram(t *testing.T) {
	lib := release(t)
	prefix := filepath.Dir(filepath.Dir(lib))
	for exe, want := range map[string]string{
		prefix + "/bin/flynn": lib, prefix + "/flynn": lib, prefix + "/deep/bin/flynn": "", "/flynn": "",
	} {
		if got := releaseOf(exe); got != want {
			t.Errorf("%s: got %q, want %q", exe, got, want)
		}
	}
}

func TestSourcesAreThoseOfTheProgram(t *testing.T) {
	module, other := t.TempDir(), t.TempDir()
	put(t, module, "go.mod", "module github.com/flynnhost/flynn\n\ngo 1.25\n")
	put(t, module, "plugins/small/plugin.toml", "")
	put(t, module, "nested/go.mod", "module other\n")
	put(t, other, "go.mod", "module other\n")
	for _, c := range []struct{ exe, work, want string }{
		{module + "/bin/flynn", other, module},
		{module + "/nested/flynn", other, ""},
		{"/tmp/go-build123/b001/exe/flynn", module + "/plugins/small", module},
		{"/tmp/go-build123/b001/exe/flynn", other, ""},
		{"/usr/bin/flynn", module, ""}, // an installed program does not build what lies in the working folder
	} {
		t.Chdir(c.work)
		if got := moduleOf(c.exe); got != c.want {
			t.Errorf("%s in %s: got %q, want %q", c.exe, c.work, got, c.want)
		}
	}
}

// builder copies a file in place of a compiler.
type builder struct {
	builds int
	fails  error
}

func (b *builder) Assemble(_ context.Context, source, into string) error {
	b.builds++
	text, err := os.ReadFile(filepath.Join(source, "main.go"))
	return errors.Join(err, b.fails, os.WriteFile(filepath.Join(into, "program"), text, 0o755))
}

func module(t *testing.T) Shelf {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "sdk/sdk.go", "cmd/flynn-rego/main.go", "plugins/small/plugin.toml", "plugins/small/main.go"} {
		put(t, dir, name, name)
	}
	return FromSource(dir, filepath.Join(t.TempDir(), "cache"))
}

func TestSourcesAreBuiltOnceForEachChange(t *testing.T) {
	s, b := module(t), &builder{}
	get := func(builds int) Got {
		t.Helper()
		got, err := s.Get(t.Context(), quiet, Plugins, "small", b)
		if err != nil || b.builds != builds {
			t.Fatalf("%d builds, want %d: %v", b.builds, builds, err)
		}
		return got
	}
	first := get(1)
	if again := get(1); again != first {
		t.Errorf("got %v, before %v", again, first)
	}
	put(t, s.module, "plugins/small/main_test.go", "a test")
	put(t, s.module, "plugins/small/bin/small", "built in place")
	get(1)
	put(t, s.module, "sdk/sdk.go", "changed")
	get(2)
	for i := range 5 {
		put(t, s.module, "plugins/small/main.go", strings.Repeat("x", i))
		get(3 + i)
	}
	if left, _ := os.ReadDir(filepath.Join(s.cache, "plugins", "small")); len(left) != keptBuilds {
		t.Errorf("the cache has %v", left)
	}
}

func TestBuildThatFailsLeavesNothing(t *testing.T) {
	s, b := module(t), &builder{fails: errors.New("no compiler")}
	for range 2 {
		if _, err := s.Get(t.Context(), quiet, Plugins, "small", b); err == nil || !strings.Contains(err.Error(), "build plugin small from "+s.module) {
			t.Errorf("got %v", err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(s.cache, "plugins", "small")); b.builds != 2 || len(left) > 0 {
		t.Errorf("%d builds, left %v", b.builds, left)
	}
	if _, err := s.Get(t.Context(), quiet, Plugins, "../small", b); err == nil {
		t.Error("another name was built")
	}
}

func TestChangedBuildIsRefused(t *testing.T) {
	s := module(t)
	got, err := s.Get(t.Context(), quiet, Plugins, "small", &builder{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, got.Dir, "program", "changed")
	if _, err := s.Get(t.Context(), quiet, Plugins, "small", &builder{}); err == nil || !strings.Contains(err.Error(), "delete that folder, and it is built again") {
		t.Errorf("got %v", err)
	}
}

// A source that does not count would leave an older build in the cache in use.
func TestSourcesAreAllThatPluginsAreBuiltFrom(t *testing.T) {
	need.Source(t)
	for _, k := range []Kind{Plugins, Policies} {
		for _, name := range FromSource("../../..", "").Names(k) {
			dir := filepath.Join("..", "..", "..", string(k), name)
			if found, _ := filepath.Glob(dir + "/*.go"); len(found) == 0 {
				continue
			}
			list := exec.Command("go", "list", "-deps", ".")
			list.Dir, list.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
			if k == Policies {
				list.Env = append(list.Env, "GOOS=wasip1", "GOARCH=wasm")
			}
			out, err := list.Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, dep := range strings.Fields(string(out)) {
				at, ours := strings.CutPrefix(dep, "github.com/flynnhost/flynn/")
				if ours && !strings.HasPrefix(at, "sdk/") && at != "sdk" && at != string(k)+"/"+name && !strings.HasPrefix(at, string(k)+"/"+name+"/") {
					t.Errorf("%s %s is built from %s, which does not count", k.one(), name, at)
				}
			}
		}
	}
	for _, name := range shared() {
		if _, err := os.Stat(filepath.Join("..", "..", "..", name)); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not there", name)
		}
	}
}
