package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy/meter"
)

func open(t *testing.T) *Archive {
	t.Helper()
	a, err := Open(filepath.Join(t.TempDir(), "modules"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func put(t *testing.T, a *Archive, text string) string {
	t.Helper()
	digest, err := a.Put([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestModulesAreKeptByTheirDigest(t *testing.T) {
	a := open(t)
	one := put(t, a, "one")
	if again := put(t, a, "one"); again != one {
		t.Errorf("the same module is %s, then %s", one, again)
	}
	got, err := a.Get(one)
	if err != nil || string(got) != "one" {
		t.Errorf("got %q, %v", got, err)
	}
	for path, want := range map[string]os.FileMode{a.dir: 0o700, a.path(one): 0o400} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(a.dir, ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatWasChangedOnTheDiskIsNotRead(t *testing.T) {
	a := open(t)
	one := put(t, a, "one")
	if err := os.Remove(a.path(one)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.path(one), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get(one); err == nil || !strings.Contains(err.Error(), "changed on the disk") {
		t.Errorf("error is %v", err)
	}
	put(t, a, "one") // which heals it
	if _, err := a.Get(one); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "../" + one, strings.ToUpper(one), one[:63], strings.Repeat("0", 64)} {
		if _, err := a.Get(name); err == nil {
			t.Errorf("%q was read", name)
		}
	}
	if _, err := a.Put(make([]byte, meter.MaxModule+1)); err == nil {
		t.Error("a module that is too large was kept")
	}
}

func TestPruneKeepsWhatIsWantedOrYoung(t *testing.T) {
	a := open(t)
	wanted, old, young := put(t, a, "wanted"), put(t, a, "old"), put(t, a, "young")
	past := time.Now().Add(-time.Hour)
	for _, d := range []string{wanted, old} {
		if err := os.Chtimes(a.path(d), past, past); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(a.dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, past, past); err != nil {
		t.Fatal(err)
	}
	if err := a.Prune(time.Minute, func(d string) bool { return d == wanted }); err != nil {
		t.Fatal(err)
	}
	for digest, want := range map[string]bool{wanted: true, old: false, young: true} {
		if _, err := a.Get(digest); (err == nil) != want {
			t.Errorf("%s: %v", digest, err)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("a file that is no module was removed")
	}
}
