package plugin

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/signing"
)

// entry is one member of a test's archive.
type entry struct {
	name, text string
	kind       byte
	link       string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o755, Size: int64(len(e.text))}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || packed.Close() != nil {
		t.Fatal("close the archive")
	}
	return out.Bytes()
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o755)
		if e.kind == tar.TypeSymlink {
			h.SetMode(0o777 | os.ModeSymlink)
			e.text = e.link
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.text); err != nil {
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

func release(under string) []entry {
	return []entry{
		{name: under + ManifestName, text: twoPlatforms}, {name: under + "bin/small", text: "#!/bin/sh\n"}, {name: under + "bin/other", text: "other"},
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
		"tar":              tarOf(t, release("")...),
		"tar in a folder":  tarOf(t, release("small-1.0.0/")...),
		"tar, dot slash":   tarOf(t, release("./")...),
		"zip":              zipOf(t, release("")...),
		"zip in a folder":  zipOf(t, release("small-1.0.0/")...),
		"tar with folders": tarOf(t, append([]entry{{name: "bin/", kind: tar.TypeDir}}, release("")...)...),
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
			if left, _ := filepath.Glob(s.path("store", ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	good := release("")
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"no archive":         {[]byte("hello"), "neither a .tar.gz nor a .zip"},
		"empty":              {nil, "neither a .tar.gz nor a .zip"},
		"tar, cut short":     {tarOf(t, good...)[:200], "unexpected EOF"},
		"tar, climbs out":    {tarOf(t, append(good, entry{name: "../evil"})...), `"../evil" is not a name`},
		"tar, absolute":      {tarOf(t, append(good, entry{name: "/etc/evil"})...), `"/etc/evil" is not a name`},
		"tar, climbs inside": {tarOf(t, append(good, entry{name: "bin/../../evil"})...), `is not a name`},
		"tar, backslash":     {tarOf(t, append(good, entry{name: `..\evil`})...), `is not a name`},
		"tar, link":          {tarOf(t, append(good, entry{name: "l", kind: tar.TypeSymlink, link: "/etc"})...), "not a regular file"},
		"tar, hard link":     {tarOf(t, append(good, entry{name: "l", kind: tar.TypeLink, link: "bin/small"})...), "not a regular file"},
		"tar, device":        {tarOf(t, append(good, entry{name: "l", kind: tar.TypeChar})...), "not a regular file"},
		"tar, twice":         {tarOf(t, append(good, entry{name: "bin/small"})...), "exists"},
		"tar, file as folder": {
			tarOf(t, append(good, entry{name: "bin/small/more"})...), "bin/small",
		},
		"zip, climbs out": {zipOf(t, append(good, entry{name: "../evil"})...), `"../evil" is not a name`},
		"zip, link":       {zipOf(t, append(good, entry{name: "l", kind: tar.TypeSymlink, link: "/etc"})...), "not a regular file"},
		"zip, cut short":  {zipOf(t, good...)[:100], "zip"},
		"long name":       {tarOf(t, append(good, entry{name: strings.Repeat("a/", 200) + "b"})...), "is not a name"},
		"no manifest":     {tarOf(t, good[1:]...), ManifestName},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			_, err := s.InstallFrom(t.Context(), saved(t, c.content), Obtain{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if left, _ := filepath.Glob(s.path("store", "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if left, _ := filepath.Glob(s.path(".*")); len(left) > 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestBombsAreBounded(t *testing.T) {
	bomb := tarOf(t, entry{name: "zeros", text: strings.Repeat("\x00", 4<<20)})
	for name, into := range map[string]*unpacking{"bytes": {left: 1 << 20}, "files": {left: 1 << 30, files: maxFiles}} {
		t.Run(name, func(t *testing.T) {
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			into.root = root
			if err := into.tarGzip(bytes.NewReader(bomb)); err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("got %v", err)
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
	archive := saved(t, one.Bytes())
	pinned := signing.Trust{Keys: []signing.Key{key}, Required: true, Table: "[plugin_trust]"}
	s := open(t)
	got, err := s.InstallFrom(t.Context(), archive, Obtain{Options: Options{Trust: pinned}})
	if err != nil || got.Signer != string(key) {
		t.Errorf("signer %q, %v", got.Signer, err)
	}
	other := pinned
	other.Keys = nil
	if _, err := open(t).InstallFrom(t.Context(), archive, Obtain{Options: Options{Trust: other}}); err == nil ||
		!strings.Contains(err.Error(), "which [plugin_trust] keys does not have") {
		t.Errorf("by a key that nobody pinned: %v", err)
	}
	put(t, dir, "bin/small", "#!/bin/sh\necho evil\n", 0o755)
	if _, err := open(t).InstallFrom(t.Context(), dir, Obtain{Options: Options{Trust: pinned}}); err == nil ||
		!strings.Contains(err.Error(), "run flynn plugin sign again") {
		t.Errorf("changed after it was signed: %v", err)
	}
	if _, err := Pack(dir, io.Discard); err == nil {
		t.Error("a signature that is wrong was packed")
	}
}

func TestInstallFromURL(t *testing.T) {
	content := tarOf(t, release("")...)
	mux := http.NewServeMux()
	mux.HandleFunc("/small.tar.gz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/small.tar.gz", http.StatusFound) })
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/small.tar.gz", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	secure, plain := httptest.NewTLSServer(mux), httptest.NewServer(mux)
	defer secure.Close()
	defer plain.Close()
	sum := "#sha256=" + signing.Digest(content)
	for name, c := range map[string]struct {
		url  string
		says string // "" is installed
		o    Obtain
	}{
		"with its digest":        {url: secure.URL + "/small.tar.gz" + sum},
		"moved":                  {url: secure.URL + "/moved" + sum},
		"plain with its digest":  {url: plain.URL + "/small.tar.gz" + sum},
		"nothing vouches":        {url: secure.URL + "/small.tar.gz", says: "add #sha256=DIGEST"},
		"keys, and no signature": {url: secure.URL + "/small.tar.gz", o: Obtain{Options: Options{Trust: signing.Trust{Keys: []signing.Key{"ed25519:x"}}}}, says: "it is not signed"},
		"another digest":         {url: secure.URL + "/small.tar.gz#sha256=" + strings.Repeat("0", 64), says: "what came has the digest"},
		"half a digest":          {url: secure.URL + "/small.tar.gz#sha256=00", says: "want #sha256="},
		"leaves https":           {url: secure.URL + "/plain" + sum, says: "a redirect leads from https to http"},
		"for ever":               {url: secure.URL + "/round" + sum, says: "more than 5 redirects"},
		"not there":              {url: secure.URL + "/none" + sum, says: "404"},
		"password":               {url: "https://a:b@example.com/x" + sum, says: "without a password"},
		"other scheme":           {url: "file:///etc/passwd" + sum, says: "http or https"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
			defer c.o.Transport.(*http.Transport).CloseIdleConnections()
			s := open(t)
			got, err := s.InstallFrom(t.Context(), c.url, c.o)
			if c.says == "" && (err != nil || got.Version != "1.0.0" || strings.Contains(got.Source, "#")) {
				t.Errorf("got %+v, %v", got.Locked, err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if left, _ := filepath.Glob(s.path("store", ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, err := open(t).InstallFrom(t.Context(), plain.URL+"/small.tar.gz"+sum, Obtain{}); err == nil || !strings.Contains(err.Error(), "--allow-private") {
		t.Errorf("a private address: %v", err)
	}
	if _, err := open(t).InstallFrom(t.Context(), plain.URL+"/small.tar.gz"+sum, Obtain{Private: true}); err != nil {
		t.Errorf("a private address that is allowed: %v", err)
	}
}

func TestFirstLockIsRead(t *testing.T) {
	s := open(t)
	got, err := s.Install(source(t, "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	old := s.path("store", "small", "1.0.0", Platform())
	if err := os.Rename(s.folder(got.Locked), old); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("lock = 1\n[[plugin]]\nname = \"small\"\nversion = \"1.0.0\"\nplatform = %q\nsource = \"/src\"\n"+
		"installed = 2026-01-02T03:04:05Z\n[plugin.files]\n", Platform())
	for name, sum := range got.Files {
		text += fmt.Sprintf("%q = %q\n", name, sum)
	}
	if err := os.WriteFile(s.path(lockName), []byte(text), 0o600); err != nil {
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
	if _, err := os.Stat(s.path("store", "small", "1.0.0", anyPlatform)); err == nil {
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
	if _, err := open(t).Install(dir); err == nil || !strings.Contains(err.Error(), "is not built yet: run flynn plugin build") {
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

// FuzzUnpack holds that no archive writes outside of its folder.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(f, release("")...))
	f.Add(zipOf(f, release("x/")...))
	f.Add(tarOf(f, entry{name: "../evil"}))
	f.Add(zipOf(f, entry{name: "a/../../evil"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		around := t.TempDir()
		dir := filepath.Join(around, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		archive, err := os.Open(saved(t, content))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		_ = unpack(archive, dir)
		if entries, err := os.ReadDir(around); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}
