package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"

	"github.com/flynnhost/flynn/host/install/signing"
)

// denying is a tool policy that always denies, for the reason of that number.
func denying(rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(int64(abi.ToolDeny)|rule<<8))
}

const manifest = "# A policy.\nname = \"p\"\nversion = \"VERSION\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"wasm\"\n[limits]\nfuel = 1_000_000\n"

// folder writes a policy's folder.
func folder(t testing.TB, version string, rule int64) string {
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
	dir = folder(t, version, rule)
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
	if p.Signer != key || p.Manifest.Digest != digestOf(denying(1)) || p.Manifest.Source == "" {
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
		{"no key", "policy.sig", "ed25519:", "", "is no key"},
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
	dir := folder(t, "1.0.0", 1)
	for rule := int64(1); rule <= 2; rule++ {
		put(t, dir, "policy.wasm", string(denying(rule)))
		if _, err := Sign(dir, k); err != nil {
			t.Fatal(err)
		}
		if p := must[*Package](t)(Open(dir)); p.Signer != key || p.Manifest.Digest != digestOf(denying(rule)) {
			t.Errorf("package is %+v", p.Manifest)
		}
	}
	if text := get(t, dir, "policy.toml"); strings.Count(text, "digest =") != 2 {
		t.Errorf("policy.toml is\n%s", text)
	}
}

func TestKeyFilesArePrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	must[Key](t)(signing.Generate(file))
	_, err := signing.Generate(file)
	refused(t, err, "exists")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = signing.ReadPrivate(file)
	refused(t, err, "others may read the key")
	put(t, filepath.Dir(file), "text", "no key")
	_, err = signing.ReadPrivate(filepath.Join(filepath.Dir(file), "text"))
	refused(t, err, "no private key")
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

// entry is a file of a made-up archive.
type entry struct {
	name string
	size int64
	kind byte
	body string
}

func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tarred := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Size: max(e.size, int64(len(e.body))), Typeflag: e.kind, Mode: 0o644, Linkname: "/etc/passwd"}
		if e.kind == 0 {
			h.Typeflag, h.Linkname = tar.TypeReg, ""
		}
		if err := tarred.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tarred, e.body); err != nil {
			t.Fatal(err)
		}
		if n := h.Size - int64(len(e.body)); h.Typeflag == tar.TypeReg && n > 0 {
			if _, err := io.CopyN(tarred, zeros{}, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tarred.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestHostileArchivesAreRefused(t *testing.T) {
	dir := folder(t, "1.0.0", 1)
	if err := os.Remove(filepath.Join(dir, "policy.c")); err != nil {
		t.Fatal(err)
	}
	p := must[*Package](t)(Open(dir))
	good := []entry{{name: "policy.toml", body: string(p.files["policy.toml"])}, {name: "policy.wasm", body: string(p.Module)}}
	if _, err := Unpack(bytes.NewReader(archiveOf(t, good...))); err != nil {
		t.Fatal(err)
	}
	many := good
	for n := range maxFiles {
		many = append(many, entry{name: fmt.Sprintf("cases/%d.toml", n)})
	}
	for _, c := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"a path upwards", append(good, entry{name: "../x"}), "no name of a file inside"},
		{"a path through a folder", append(good, entry{name: "cases/../../x.toml"}), "no name of a file inside"},
		{"an absolute path", append(good, entry{name: "/etc/x"}), "no name of a file inside"},
		{"a path of another system", append(good, entry{name: "..\\x"}), "no name of a file inside"},
		{"a drive", append(good, entry{name: "C:x"}), "no name of a file inside"},
		{"a symbolic link", append(good, entry{name: "README.md", kind: tar.TypeSymlink}), "no regular file"},
		{"a hard link", append(good, entry{name: "README.md", kind: tar.TypeLink}), "no regular file"},
		{"a device", append(good, entry{name: "README.md", kind: tar.TypeChar}), "no regular file"},
		{"the same name twice", append(good, good[0]), "there twice"},
		{"a file that has no place", append(good, entry{name: "run.sh"}), "has no place"},
		{"a large text", append(good, entry{name: "README.md", size: maxText + 1}), "more than"},
		{"a bomb", append(good, entry{name: "cases/x.toml", size: maxUnpacked + 1}), "more than"},
		{"many large files", append(good, func() (big []entry) {
			for n := range 40 {
				big = append(big, entry{name: fmt.Sprintf("cases/%d.toml", n), size: maxText})
			}
			return big
		}()...), "more than"},
		{"many files", many, "more than 1000 files"},
		{"no manifest", good[1:], "no policy.toml"},
		{"no module", good[:1], "no module"},
		{"nothing", nil, "no policy.toml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Unpack(bytes.NewReader(archiveOf(t, c.entries...)))
			refused(t, err, c.want)
		})
	}
	whole := archiveOf(t, good...)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-5] ^= 1 // in the checksum
	for name, text := range map[string][]byte{"no archive": []byte("text"), "cut short": whole[:len(whole)-9], "damaged": damaged} {
		if _, err := Unpack(bytes.NewReader(text)); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// TestFetchTakesWhatIsVouchedFor takes archives over https alone, by their digest or by a signature of a pinned key.
func TestFetchTakesWhatIsVouchedFor(t *testing.T) {
	archive := packed(t, folder(t, "1.0.0", 1))
	secret, public := private(t)
	dir := folder(t, "1.0.0", 1)
	must[*Package](t)(Sign(dir, secret))
	signed := packed(t, dir)
	_, other := private(t)
	digest := "#sha256=" + signing.Digest(archive)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/p.tar.gz":
			_, _ = w.Write(archive)
		case "/signed":
			_, _ = w.Write(signed)
		case "/away":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer secure.Close()
	for _, c := range []struct {
		name, url string
		keys      []Key
		want      string
	}{
		{"its digest", secure.URL + "/p.tar.gz" + digest, nil, ""},
		{"its digest in capitals", secure.URL + "/p.tar.gz#sha256=" + strings.ToUpper(digest[8:]), nil, ""},
		{"another digest", secure.URL + "/signed" + digest, []Key{public}, "what came has the digest"},
		{"half a digest", secure.URL + "/p.tar.gz#sha256=00", nil, "want #sha256="},
		{"another fragment", secure.URL + "/p.tar.gz#x", []Key{public}, "want #sha256="},
		{"nothing vouches", secure.URL + "/p.tar.gz", nil, "add #sha256=DIGEST, or pin the author's key in [policy_trust]"},
		{"not signed", secure.URL + "/p.tar.gz", []Key{public}, "it is not signed"},
		{"signed", secure.URL + "/signed", []Key{other, public}, ""},
		{"signed by another", secure.URL + "/signed", []Key{other}, "which [policy_trust] keys does not have"},
		{"signed by nobody known", secure.URL + "/signed", nil, "nothing vouches"},
		{"http", plain.URL + digest, nil, "no https URL"},
		{"a redirect to http", secure.URL + "/away" + digest, nil, "leaves https"},
		{"not there", secure.URL + "/none" + digest, nil, "404"},
		{"a password", "https://u:p@localhost/" + digest, nil, "without a password"},
		{"a file", "file:///etc/passwd", nil, "no https URL"},
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
