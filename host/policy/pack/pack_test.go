package pack

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/archive"
	hash "github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/signing"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// denying is a tool policy that always denies, for the reason of that number.
func denying(rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(int64(abi.ToolDeny)|rule<<8))
}

const manifest = "# A policy.\nname = \"p\"\nversion = \"VERSION\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"wasm\"\n[limits]\nfuel = 1_000_000\n"

// folderOf writes a policy's folder.
func folderOf(t testing.TB, version string, rule int64) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "policy.toml", strings.ReplaceAll(manifest, "VERSION", version))
	put(t, dir, "policy.wasm", string(denying(rule)))
	put(t, dir, "cases/a.toml", "[[case]]\nname = \"denied\"\nwant = { deny = true }\n")
	put(t, dir, "policy.c", "int source;")
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// private makes a key.
func private(t testing.TB) (ed25519.PrivateKey, Key) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	key := must[Key](t)(signing.Generate(file))
	return must[ed25519.PrivateKey](t)(signing.ReadPrivate(file)), key
}

// signed is a folder with a signature.
func signed(t testing.TB, version string, rule int64) (dir string, key Key) {
	t.Helper()
	k, key := private(t)
	dir = folderOf(t, version, rule)
	if _, err := Sign(dir, k); err != nil {
		t.Fatal(err)
	}
	return dir, key
}

func packed(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := must[*Package](t)(Open(dir)).Pack(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
}

func TestSignedPolicyIsWhatItsSignerMeant(t *testing.T) {
	dir, key := signed(t, "1.0.0", 1)
	p := must[*Package](t)(Open(dir))
	if p.Signer != key || p.Manifest.Digest != hash.Of(denying(1)) || p.Manifest.Source == "" {
		t.Fatalf("package is %+v", p.Manifest)
	}
	if text := get(t, dir, "policy.toml"); !strings.HasPrefix(text, "# A policy.\nname = \"p\"\ndigest = ") || !strings.Contains(text, "fuel = 1_000_000") {
		t.Errorf("policy.toml is\n%s", text)
	}
	for _, c := range []struct{ name, file, old, new, want string }{
		{"another version", "policy.toml", `"1.0.0"`, `"1.0.1"`, "of another policy"},
		{"another name", "policy.toml", `name = "p"`, `name = "q"`, "of another policy"},
		{"another kind", "policy.toml", `["tool"]`, `["tool", "route"]`, "of another policy"},
		{"other limits", "policy.toml", "1_000_000", "2_000_000", "of another policy"},
		{"another module", "policy.wasm", "memory", "memorx", "digest of another module"},
		{"another source", "policy.c", "source", "other", "digest of another source"},
		{"a damaged signature", "policy.sig", " ", "  ", "not one line"},
		{"a signature of two lines", "policy.sig", "\n", "\n\n", "not one line"},
		{"no key", "policy.sig", "ed25519:", "", "is not a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := t.TempDir()
			for _, name := range []string{"policy.toml", "policy.wasm", "policy.c", "policy.sig"} {
				text := get(t, dir, name)
				if name == c.file {
					text = strings.Replace(text, c.old, c.new, 1)
				}
				put(t, copied, name, text)
			}
			_, err := Open(copied)
			refused(t, err, c.want)
		})
	}
}

func TestSigningAgainTakesTheNewModule(t *testing.T) {
	k, key := private(t)
	dir := folderOf(t, "1.0.0", 1)
	for rule := int64(1); rule <= 2; rule++ {
		put(t, dir, "policy.wasm", string(denying(rule)))
		if _, err := Sign(dir, k); err != nil {
			t.Fatal(err)
		}
		if p := must[*Package](t)(Open(dir)); p.Signer != key || p.Manifest.Digest != hash.Of(denying(rule)) {
			t.Errorf("package is %+v", p.Manifest)
		}
	}
	if text := get(t, dir, "policy.toml"); strings.Count(text, "digest =") != 2 {
		t.Errorf("policy.toml is\n%s", text)
	}
}

func TestArchivesAreTheSameEverywhere(t *testing.T) {
	dir, key := signed(t, "1.0.0", 1)
	one := packed(t, dir)
	for _, name := range []string{"policy.toml", "policy.wasm"} {
		put(t, dir, name, get(t, dir, name)) // at another time
	}
	put(t, dir, "notes.txt", "left out") // which is source, so it must not be there when it is signed
	if err := os.Remove(filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, packed(t, dir)) {
		t.Error("the same files make other bytes")
	}
	p := must[*Package](t)(Unpack(bytes.NewReader(one)))
	if p.Signer != key || strings.Join(p.names(), " ") != "cases/a.toml policy.sig policy.toml policy.wasm" {
		t.Errorf("unpacked %v by %s", p.names(), p.Signer)
	}
	var again bytes.Buffer
	if err := p.Pack(&again); err != nil || !bytes.Equal(one, again.Bytes()) {
		t.Errorf("packed again it is other bytes (%v)", err)
	}
}

// archiveOf is an archive of any files.
func archiveOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := archive.NewWriter(&out)
	for name, text := range files {
		if err := w.Write(archive.File{Name: name, Content: strings.NewReader(text)}, int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestArchivesThatAreNoPackageAreRefused(t *testing.T) {
	dir := folderOf(t, "1.0.0", 1)
	if err := os.Remove(filepath.Join(dir, "policy.c")); err != nil {
		t.Fatal(err)
	}
	p := must[*Package](t)(Open(dir))
	with := func(name, text string) map[string]string {
		files := map[string]string{"policy.toml": string(p.files["policy.toml"]), "policy.wasm": string(p.Module)}
		if files[name] = text; text == "" {
			delete(files, name)
		}
		return files
	}
	if _, err := Unpack(bytes.NewReader(archiveOf(t, with("README.md", "text")))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a path upwards", with("../x", "text"), "not a name"},
		{"a file that has no place", with("run.sh", "text"), "is not allowed"},
		{"a large text", with("README.md", strings.Repeat("x", maxText+1)), "README.md has more than 1048576 bytes"},
		{"a large manifest", with("policy.toml", strings.Repeat("#", maxManifest+1)), "policy.toml has more than 65536 bytes"},
		{"many large files", func() map[string]string {
			files := with("README.md", "text")
			for n := range 40 {
				files[fmt.Sprintf("cases/%d.toml", n)] = strings.Repeat("x", maxText)
			}
			return files
		}(), "more than"},
		{"many files", func() map[string]string {
			files := with("README.md", "text")
			for n := range bounds.Files {
				files[fmt.Sprintf("cases/%d.toml", n)] = "x"
			}
			return files
		}(), "more than 1000 files"},
		{"no manifest", with("policy.toml", ""), "no policy.toml"},
		{"no module", with("policy.wasm", ""), "no module"},
		{"nothing", nil, "no policy.toml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Unpack(bytes.NewReader(archiveOf(t, c.files)))
			refused(t, err, c.want)
		})
	}
	_, err := Unpack(strings.NewReader("text"))
	refused(t, err, "not an archive of flynn policy dev pack")
}

// TestFetchTakesWhatIsVouchedFor takes archives over https alone, by their digest or by a signature of a pinned key.
func TestFetchTakesWhatIsVouchedFor(t *testing.T) {
	plain := packed(t, folderOf(t, "1.0.0", 1))
	secret, public := private(t)
	dir := folderOf(t, "1.0.0", 1)
	must[*Package](t)(Sign(dir, secret))
	signed := packed(t, dir)
	_, other := private(t)
	digest := "#sha256=" + hash.Of(plain)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(map[string][]byte{"/p.tar.gz": plain, "/signed": signed}[r.URL.Path])
	}))
	defer secure.Close()
	for _, c := range []struct {
		name, url string
		keys      []Key
		want      string
	}{
		{"its digest", secure.URL + "/p.tar.gz" + digest, nil, ""},
		{"another digest", secure.URL + "/signed" + digest, []Key{public}, "the downloaded file has the digest"},
		{"nothing vouches", secure.URL + "/p.tar.gz", nil, "add #sha256=DIGEST, or pin the author's key in [policy_trust]"},
		{"not signed", secure.URL + "/p.tar.gz", []Key{public}, "it is not signed"},
		{"signed", secure.URL + "/signed", []Key{other, public}, ""},
		{"signed by another", secure.URL + "/signed", []Key{other}, "which is not in [policy_trust] keys"},
		{"its digest, and signed by another", secure.URL + "/signed#sha256=" + hash.Of(signed), []Key{other}, "which is not in [policy_trust] keys"},
		{"signed by nobody known", secure.URL + "/signed", nil, "is not authenticated"},
		{"http", strings.Replace(secure.URL, "https", "http", 1) + digest, nil, "must be an https URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Fetch(t.Context(), c.url, Trust{Keys: c.keys, Table: "[policy_trust]"}, secure.Client().Transport)
			if c.want != "" {
				refused(t, err, c.want)
			} else if err != nil || p.Manifest.Name != "p" {
				t.Errorf("got %v, %v", p, err)
			}
		})
	}
}
