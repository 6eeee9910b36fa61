package pack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	hash "github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
)

// opened is a store in a folder of its own.
func opened(t *testing.T, trust Trust) *Store {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { _ = folder.Remove(dir) })
	return NewStore(filepath.Join(dir, "installed"), filepath.Join(dir, LockName), trust)
}

func installed(t *testing.T, s *Store, dir string, downgrade bool) (Locked, bool, error) {
	t.Helper()
	return s.Install(t.Context(), must[*Package](t)(Open(dir)), dir, downgrade)
}

func TestInstalledPolicyIsLocked(t *testing.T) {
	dir, key := signed(t, "1.0.0", 1)
	s := opened(t, Trust{Keys: []Key{key}, Required: true})
	l, known, err := installed(t, s, dir, false)
	if err != nil || known || l.Key != key || l.Digest != hash.Of(denying(1)) {
		t.Fatalf("locked %+v, %v, %v", l, known, err)
	}
	if _, known, err := installed(t, s, dir, false); err != nil || !known {
		t.Errorf("installed again: %v, %v", known, err)
	}
	path, digest, err := s.Find("p")
	if err != nil || digest != l.Digest {
		t.Fatalf("found %s, %v", digest, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("module: %v, %v", info, err)
	}
	if lock := get(t, filepath.Dir(s.lock.Path), LockName); !strings.Contains(lock, l.Digest) || !strings.Contains(lock, string(key)) {
		t.Errorf("lock is\n%s", lock)
	}
	if err := s.Remove("p"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Find("p"); err == nil {
		t.Error("it is found after it was removed")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is on the disk after it was removed")
	}
	refused(t, s.Remove("p"), "not installed")
}

func TestTrust(t *testing.T) {
	dir, key := signed(t, "1.0.0", 1)
	plain := folderOf(t, "1.0.0", 1)
	_, other := private(t)
	for _, c := range []struct {
		name  string
		dir   string
		trust Trust
		key   Key
		want  string
	}{
		{"unsigned, nothing is asked", plain, Trust{}, "", ""},
		{"unsigned, keys are pinned", plain, Trust{Keys: []Key{key}}, "", ""},
		{"unsigned, a signature is required", plain, Trust{Keys: []Key{key}, Required: true}, "", "requires a signature"},
		{"signed, no key is pinned", dir, Trust{}, "", ""},
		{"signed by a pinned key", dir, Trust{Keys: []Key{other, key}, Required: true}, key, ""},
		{"signed by another key", dir, Trust{Keys: []Key{other}}, "", "which is not in [policy_trust] keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _, err := installed(t, opened(t, c.trust), c.dir, false)
			if c.want != "" {
				refused(t, err, c.want)
			} else if err != nil || l.Key != c.key {
				t.Errorf("key %q, %v", l.Key, err)
			}
		})
	}
}

func TestKeyThatIsNoLongerTrustedTakesItsPoliciesAlong(t *testing.T) {
	dir, key := signed(t, "1.0.0", 1)
	s := opened(t, Trust{Keys: []Key{key}})
	if _, _, err := installed(t, s, dir, false); err != nil {
		t.Fatal(err)
	}
	_, other := private(t)
	for _, trust := range []Trust{{}, {Keys: []Key{other}}, {Required: true}} {
		if _, _, err := NewStore(s.versions.Dir, s.lock.Path, trust).Find("p"); err == nil {
			t.Errorf("with %v it is found", trust)
		}
	}
}

func TestOlderVersionsAreRefused(t *testing.T) {
	k, key := private(t)
	make := func(version string, rule int64, sign bool) string {
		dir := folderOf(t, version, rule)
		if sign {
			if _, err := Sign(dir, k); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, c := range []struct {
		name      string
		old, next string
		downgrade bool
		want      string
	}{
		{"newer", make("1.0.0", 1, true), make("1.1.0", 2, true), false, ""},
		{"older", make("1.10.0", 1, true), make("1.9.0", 2, true), false, "1.10.0 is installed, which is newer"},
		{"a preview is older", make("1.0.0", 1, true), make("1.0.0-rc.1", 2, true), false, "newer"},
		{"older, and meant", make("1.10.0", 1, true), make("1.9.0", 2, true), true, ""},
		{"the same with other contents", make("1.0.0", 1, true), make("1.0.0", 2, true), true, "raise the version"},
		{"newer without the signature", make("1.0.0", 1, true), make("1.1.0", 2, false), false, "none that counts"},
		{"newer without the signature, and meant", make("1.0.0", 1, true), make("1.1.0", 2, false), true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := opened(t, Trust{Keys: []Key{key}})
			before, _, err := installed(t, s, c.old, false)
			if err != nil {
				t.Fatal(err)
			}
			after, _, err := installed(t, s, c.next, c.downgrade)
			_, digest, found := s.Find("p")
			switch {
			case found != nil:
				t.Error(found)
			case c.want != "":
				refused(t, err, c.want)
				if digest != before.Digest {
					t.Error("a refused policy is locked")
				}
			case err != nil || digest != after.Digest:
				t.Errorf("locked %s, %v", digest, err)
			}
			if left, _ := filepath.Glob(filepath.Join(s.versions.Dir, "p", "*")); len(left) != 1 {
				t.Errorf("the store has %v", left)
			}
			if left, _ := filepath.Glob(filepath.Join(s.versions.Dir, ".staged-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestPolicyThatIsNotFitIsNotInstalled(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"a case fails", "cases/b.toml", "[[case]]\nname = \"allowed\"\nwant = { unrestricted = true }\n", `case "allowed" of b.toml fails`},
		{"no module", "policy.wasm", "text", "not a WebAssembly module"},
		{"no version", "policy.toml", strings.Replace(manifest, `version = "VERSION"`, "", 1), "write an exact one"},
		{"half a version", "policy.toml", strings.Replace(manifest, "VERSION", "1.0", 1), "write an exact one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, s := folderOf(t, "1.0.0", 1), opened(t, Trust{})
			put(t, dir, c.file, c.text)
			p, err := Open(dir)
			if err == nil {
				_, _, err = s.Install(t.Context(), p, dir, false)
			}
			refused(t, err, c.want)
			if list, err := s.List(); err != nil || len(list) > 0 {
				t.Errorf("locked %v, %v", list, err)
			}
		})
	}
}

func TestWhatChangedOnTheDiskIsNotFound(t *testing.T) {
	dir := folderOf(t, "1.0.0", 1)
	for _, name := range []string{"policy.wasm", "policy.toml", "cases/a.toml"} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, Trust{})
			l, _, err := installed(t, s, dir, false)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(s.versions.Path(l.folder()), name)
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			put(t, s.versions.Path(l.folder()), name, get(t, s.versions.Path(l.folder()), name)+" ")
			_, _, err = s.Find("p")
			refused(t, err, name+" is not the file that was installed")
			if _, known, err := installed(t, s, dir, false); err != nil || known { // which heals it
				t.Errorf("installed again: %v, %v", known, err)
			}
			if _, _, err := s.Find("p"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLockIsReadStrictly(t *testing.T) {
	s := opened(t, Trust{})
	if _, _, err := installed(t, s, folderOf(t, "1.0.0", 1), false); err != nil {
		t.Fatal(err)
	}
	good := get(t, filepath.Dir(s.lock.Path), LockName)
	for _, c := range []struct{ name, old, new, want string }{
		{"as it is", "", "", ""},
		{"another format", "lock = 1", "lock = 2", "lock is 2"},
		{"an unknown key", "lock = 1", "lock = 1\nmore = 1", "unknown key more"},
		{"a name that is a path", `name = "p"`, `name = "../p"`, "no policy's name"},
		{"a module elsewhere", `module = "policy.wasm"`, `module = "../policy.wasm"`, "does not have its digest"},
		{"a file elsewhere", `"policy.toml" =`, `"../policy.toml" =`, "is not the name of a file inside"},
		{"half a version", `"1.0.0"`, `"1"`, "no exact version"},
		{"half a digest", `digest = "`, `digest = "0`, "no SHA-256"},
		{"no TOML", "lock", "[[", "policies.lock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.old != "" && !strings.Contains(good, c.old) {
				t.Fatalf("the lock has no %q:\n%s", c.old, good)
			}
			_, err := parseLock([]byte(strings.Replace(good, c.old, c.new, 1)))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, c.want)
		})
	}
}
