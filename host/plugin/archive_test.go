package plugin

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/archive"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/install/signing"
)

// tarOf is an archive of programs, by name.
func tarOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := archive.NewWriter(&out)
	for name, text := range files {
		if err := w.Write(archive.File{Name: name, Program: true, Content: strings.NewReader(text)}, int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range files {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o755)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const twoPlatforms = `manifest = 1
name = "small"
version = "1.0.0"
kinds = ["channel"]
protocols = [1]
exec = { any = "bin/small", plan9-mips = "bin/other" }
`

func release(under string) map[string]string {
	return map[string]string{
		under + ManifestName: twoPlatforms, under + "bin/small": "#!/bin/sh\n", under + "bin/other": "other", under + ".git/config": "secret", under + "bin/.swp": "secret",
	}
}

func saved(t testing.TB, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestInstallFromArchive(t *testing.T) {
	for name, content := range map[string][]byte{
		"tar":             tarOf(t, release("")),
		"tar in a folder": tarOf(t, release("small-1.0.0/")),
		"zip":             zipOf(t, release("")),
		"zip in a folder": zipOf(t, release("small-1.0.0/")),
	} {
		t.Run(name, func(t *testing.T) {
			s, file := open(t), saved(t, content)
			got, err := s.InstallFrom(t.Context(), file, Obtain{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Files) != 3 || got.Files["bin/other"] == "" || fmt.Sprint(got.Platforms) != "[any plan9-mips]" || got.Source != file {
				t.Errorf("installed %+v", got.Locked)
			}
			if _, err := s.Verify("small"); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob(filepath.Join(s.versions.Dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	without := func(name string) map[string]string {
		files := release("")
		delete(files, name)
		return files
	}
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"no archive":  {[]byte("hello"), "neither a .tar.gz nor a .zip"},
		"no manifest": {tarOf(t, without(ManifestName)), ManifestName},
		"no program":  {tarOf(t, without("bin/small")), "names a file that is missing"},
		"two folders": {tarOf(t, map[string]string{"a/" + ManifestName: twoPlatforms, "b/c": ""}), ManifestName},
		"cut short":   {tarOf(t, release(""))[:200], "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			_, err := s.InstallFrom(t.Context(), saved(t, c.content), Obtain{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if left, _ := os.ReadDir(s.versions.Dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if list, err := s.List(); err != nil || len(list) > 0 {
				t.Errorf("locked: %v, %v", list, err)
			}
		})
	}
}

func TestPackAndSign(t *testing.T) {
	dir := source(t, "1.0.0")
	file := filepath.Join(t.TempDir(), "key")
	key, err := signing.Generate(file)
	if err != nil {
		t.Fatal(err)
	}
	private, err := signing.ReadPrivate(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Sign(dir, private); err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if _, err := Pack(dir, &one); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(dir, &two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("packed twice it is not the same (%v)", err)
	}
	packed := saved(t, one.Bytes())
	pinned := signing.Trust{Keys: []signing.Key{key}, Required: true, Table: "[plugin_trust]"}
	s := open(t)
	got, err := s.InstallFrom(t.Context(), packed, Obtain{Options: Options{Trust: pinned}})
	if err != nil || got.Signer != string(key) {
		t.Errorf("signer %q, %v", got.Signer, err)
	}
	other := pinned
	other.Keys = nil
	if _, err := open(t).InstallFrom(t.Context(), packed, Obtain{Options: Options{Trust: other}}); err == nil ||
		!strings.Contains(err.Error(), "which is not in [plugin_trust] keys") {
		t.Errorf("by a key that nobody pinned: %v", err)
	}
	put(t, dir, "bin/small", "#!/bin/sh\necho evil\n", 0o755)
	if _, err := open(t).InstallFrom(t.Context(), dir, Obtain{Options: Options{Trust: pinned}}); err == nil ||
		!strings.Contains(err.Error(), "run flynn plugin dev sign again") {
		t.Errorf("changed after it was signed: %v", err)
	}
	if _, err := Pack(dir, io.Discard); err == nil {
		t.Error("a signature that is wrong was packed")
	}
}

func TestInstallFromURL(t *testing.T) {
	content := tarOf(t, release(""))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	from, sum := server.URL+"/small.tar.gz", "#sha256="+digest.Of(content)
	private := fetch.Client{Private: true}
	key := signing.Trust{Keys: []signing.Key{"ed25519:x"}}
	for name, c := range map[string]struct {
		url  string
		o    Obtain
		says string // "" is installed
	}{
		"with its digest":        {from + sum, Obtain{Client: private}, ""},
		"a private address":      {from + sum, Obtain{}, "--allow-private"},
		"nothing vouches":        {from, Obtain{Client: private}, "add #sha256=DIGEST"},
		"keys, and no signature": {from, Obtain{Client: private, Options: Options{Trust: key}}, "it is not signed"},
		"its digest, and keys":   {from + sum, Obtain{Client: private, Options: Options{Trust: key}}, ""},
		"another digest":         {from + "#sha256=" + strings.Repeat("0", 64), Obtain{Client: private}, "the downloaded file has the digest"},
		"another scheme":         {"file:///etc/passwd" + sum, Obtain{}, "http or https"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			got, err := s.InstallFrom(t.Context(), c.url, c.o)
			if c.says == "" && (err != nil || got.Version != "1.0.0" || got.Source != from) {
				t.Errorf("got %+v, %v", got.Locked, err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if left, _ := filepath.Glob(filepath.Join(s.versions.Dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestFirstLockIsRead(t *testing.T) {
	s := open(t)
	got, err := s.Install(source(t, "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	old := s.versions.Path("small/1.0.0/" + Platform())
	if err := os.Rename(s.versions.Path(got.dir()), old); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("lock = 1\n[[plugin]]\nname = \"small\"\nversion = \"1.0.0\"\nplatform = %q\nsource = \"/src\"\n"+
		"installed = 2026-01-02T03:04:05Z\n[plugin.files]\n", Platform())
	for name, sum := range got.Files {
		text += fmt.Sprintf("%q = %q\n", name, sum)
	}
	if err := os.WriteFile(s.lock.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Verify("small"); err != nil || l.Platform != Platform() {
		t.Fatalf("what an earlier host installed: %+v, %v", l, err)
	}
	if _, err := s.Install(source(t, "1.1.0")); err != nil {
		t.Fatal(err)
	}
	if err := s.Activate("small", "1.0.0"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Verify("small"); err != nil || l.Version != "1.0.0" {
		t.Errorf("back to what an earlier host installed: %+v, %v", l, err)
	}
}

func TestVersionsAreKeptForARollback(t *testing.T) {
	s := open(t)
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		if _, err := s.Install(source(t, v)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Record("small")
	if err != nil || r.Active != "1.3.0" || fmt.Sprint(r.Previous) != "[1.2.0 1.1.0]" || len(r.Releases) != 3 {
		t.Fatalf("got %+v, %v", r.Choice, err)
	}
	if _, err := os.Stat(s.versions.Path("small/1.0.0/" + anyPlatform)); err == nil {
		t.Error("the version that nothing can go back to is still there")
	}
	to, err := r.RollbackTarget()
	if err != nil || to != "1.2.0" {
		t.Fatalf("rollback to %s, %v", to, err)
	}
	if err := s.Activate("small", to); err != nil {
		t.Fatal(err)
	}
	if err := s.settle("small", "1.3.0", "1.2.0", fmt.Errorf("it crashed")); err != nil {
		t.Fatal(err)
	}
	r, err = s.Record("small")
	if err != nil || r.Active != "1.2.0" || len(r.Rejected) != 1 || r.Rejected[0].Why != "it crashed" {
		t.Errorf("got %+v, %v", r.Choice, err)
	}
}

func TestUnbuiltSource(t *testing.T) {
	dir := source(t, "1.0.0")
	put(t, dir, "main.go", "package main\n\nfunc main() { println(\"built\") }\n", 0o644)
	put(t, dir, "go.mod", "module small\n\ngo 1.26\n", 0o644)
	if err := os.Remove(filepath.Join(dir, "bin/small")); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t).Install(dir); err == nil || !strings.Contains(err.Error(), "is not built yet: run flynn plugin dev build") {
		t.Errorf("got %v", err)
	}
	var said bytes.Buffer
	program, err := Build(context.Background(), dir, &said)
	if err != nil || program != filepath.Join(dir, "bin/small") {
		t.Fatalf("build: %s, %v: %s", program, err, &said)
	}
	if _, err := open(t).Install(dir); err != nil {
		t.Errorf("install what was built: %v", err)
	}
}
