package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// mirror serves the files of the release, some of them replaced, as the place from which install.sh downloads.
func mirror(t *testing.T, dir string, replaced map[string]string) string {
	t.Helper()
	files := http.FileServer(http.Dir(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := replaced[strings.TrimPrefix(r.URL.Path, "/")]; ok {
			_, _ = w.Write([]byte(text))
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestInstallScript(t *testing.T) {
	dir := made(t)
	archive := filepath.Base(archive(t))
	sums := read(t, filepath.Join(dir, "checksums.txt"))
	install := func(t *testing.T, home string, replaced map[string]string) (string, error) {
		t.Helper()
		env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "FLYNN_DOWNLOAD=" + mirror(t, dir, replaced)}
		return command(t, home, env, "", "sh", filepath.Join(dir, "install.sh"))
	}

	t.Run("good", func(t *testing.T) {
		home := t.TempDir()
		for range 2 { // again, as an upgrade
			out, err := install(t, home, nil)
			if err != nil || !strings.Contains(out, "flynn "+testVersion) || !strings.Contains(out, "Add "+home+"/.local/bin to PATH.") {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		for _, name := range []string{"bin/flynn", "lib/flynn/manifest.json", "bin/flynn.previous", "lib/flynn.previous/manifest.json",
			"share/bash-completion/completions/flynn"} {
			if _, err := os.Stat(filepath.Join(home, ".local", name)); err != nil {
				t.Error(err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(home, ".local", "*", "*.new")); len(left) > 0 {
			t.Errorf("it left %q", left)
		}
	})

	for name, c := range map[string]struct {
		replaced map[string]string
		want     string
	}{
		"another archive":  {map[string]string{archive: "not the archive"}, "nothing was installed"},
		"another sum":      {map[string]string{"checksums.txt": strings.Repeat("0", 64) + "  " + archive + "\n"}, "nothing was installed"},
		"no sum":           {map[string]string{"checksums.txt": ""}, "does not name " + archive + " once"},
		"a sum of another": {map[string]string{"checksums.txt": strings.ReplaceAll(sums, archive, "x"+archive)}, "does not name " + archive + " once"},
		"two sums":         {map[string]string{"checksums.txt": sums + sums}, "does not name " + archive + " once"},
		"a short sum":      {map[string]string{"checksums.txt": "abc  " + archive + "\n"}, "does not name " + archive + " once"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			out, err := install(t, home, c.replaced)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v\n%s", err, out)
			}
			if left, _ := os.ReadDir(home); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// The formula has the sums of the archives.
func TestFormula(t *testing.T) {
	dir := made(t)
	sum, err := sumOf(archive(t))
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(dir, "flynn.rb"))
	if !strings.Contains(text, `sha256 "`+sum+`"`) || !strings.Contains(text, `version "1.2.3"`) {
		t.Errorf("flynn.rb:\n%s", text)
	}
}

// The bill names the programs, and the modules in them once.
func TestBill(t *testing.T) {
	var b bom
	if err := json.Unmarshal([]byte(read(t, file(t, made(t), ".cdx.json"))), &b); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, c := range b.Components {
		seen[fmt.Sprint(c["name"])]++
	}
	title := "flynn-1.2.3-linux-" + runtime.GOARCH
	for _, name := range []string{title + "/bin/flynn", title + "/lib/flynn/plugins/telegram/bin/telegram", "github.com/tetratelabs/wazero", "modernc.org/sqlite"} {
		if seen[name] != 1 {
			t.Errorf("%s stands %d times in the bill", name, seen[name])
		}
	}
	if b.Format != "CycloneDX" || b.Metadata.Component["version"] != testVersion || len(b.Dependencies) < len(b.Components)/2 {
		t.Errorf("format %q, of %v, with %d dependencies of %d components", b.Format, b.Metadata.Component, len(b.Dependencies), len(b.Components))
	}
}

// A folder with other files is not emptied.
func TestOutIsNotEmptied(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "thesis.txt"), "years of work")
	r := &release{out: dir}
	if err := r.empty(); err == nil || !strings.Contains(err.Error(), "choose another folder") || read(t, filepath.Join(dir, "thesis.txt")) == "" {
		t.Errorf("empty: %v", err)
	}
	write(t, filepath.Join(dir, "release.json"), "{}")
	if err := r.empty(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// Wrong arguments are refused before anything is made.
func TestArguments(t *testing.T) {
	for want, args := range map[string][]string{
		`version "1.2": write one such as v1.2.3`:                 {"-version", "1.2"},
		`target "linux": write OS/ARCH, such as linux/amd64`:      {"-targets", "linux"},
		`target "../x/amd64": write OS/ARCH, such as linux/amd64`: {"-targets", "../x/amd64"},
		`unexpected argument "v1.2.3"`:                            {"v1.2.3"},
		`flag provided but not defined: -key`:                     {"-key", "k"},
	} {
		if err := run(t.Context(), append([]string{"-out", t.TempDir()}, args...), io.Discard); err == nil || err.Error() != want {
			t.Errorf("%q: %v; want %s", args, err, want)
		}
	}
}
