package configured

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/firstparty"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// policyIn writes the folder of a policy that answers with a number.
func policyIn(t *testing.T, dir, version string, answer int64) {
	t.Helper()
	manifest := "name = \"guard\"\nversion = \"" + version + "\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"go\"\n[build]\noutput = \"guard.wasm\"\n"
	for name, text := range map[string]string{
		"policy.toml": manifest, "guard.wasm": string(w.Policy(1).Hook("flynn_tool", "", w.I64(answer))),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// released returns how policies are found by a Flynn whose release has one, and a function that makes another release of it.
func released(t *testing.T, locks bool) (named, func(answer int64)) {
	t.Helper()
	lib := t.TempDir()
	release := func(answer int64) {
		policyIn(t, filepath.Join(lib, "policies", "guard"), "1.0.0", answer)
		if err := firstparty.WriteManifest(lib); err != nil {
			t.Fatal(err)
		}
	}
	release(0)
	dir := t.TempDir()
	c := &config.Config{Path: filepath.Join(dir, "flynn.toml"), Trust: config.Trust{RequireSignature: true}}
	c.Store.Dir = filepath.Join(dir, "data")
	return named{
		store: Store(c), shelf: func() firstparty.Shelf { return firstparty.FromRelease(lib) }, log: slog.New(slog.DiscardHandler), locks: locks,
	}, release
}

func TestFirstPartyPolicyIsLockedAtItsFirstUse(t *testing.T) {
	n, release := released(t, true)
	path, sum, err := n.find(t.Context(), "guard")
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.store.Verify("guard")
	if err != nil || l.Digest != sum || l.FirstParty == "" || !strings.Contains(l.From, "comes with flynn") {
		t.Fatalf("locked %+v, %v", l, err)
	}
	if again, _, err := n.find(t.Context(), "guard"); err != nil || again != path {
		t.Errorf("found %s, then %s, %v", path, again, err)
	}
	release(1)
	_, next, err := n.find(t.Context(), "guard")
	if l2, err2 := n.store.Verify("guard"); err != nil || err2 != nil || next == sum || l2.Digest != next || l2.FirstParty == l.FirstParty {
		t.Errorf("after another release %s, %v, locked %+v, %v", next, err, l2, err2)
	}
	module, _, err := n.store.Find("guard")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(module, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(module, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.find(t.Context(), "guard"); err == nil {
		t.Error("a module that is not the locked one is found")
	}
}

func TestLookingLocksNothing(t *testing.T) {
	n, _ := released(t, false)
	if _, _, err := n.find(t.Context(), "guard"); err != nil {
		t.Fatal(err)
	}
	if err := n.known("guard"); err != nil {
		t.Error(err)
	}
	if list, err := n.store.List(); err != nil || len(list) > 0 {
		t.Errorf("locked %+v, %v", list, err)
	}
}

func TestPersonsPolicyTakesThePlace(t *testing.T) {
	n, release := released(t, true)
	n.store = pack.NewStore(filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), pack.LockName), pack.Trust{})
	if _, _, err := n.find(t.Context(), "guard"); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	policyIn(t, own, "0.1.0", 2)
	p, err := pack.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := n.store.Install(t.Context(), p, own, false)
	if err != nil {
		t.Fatal(err)
	}
	release(1)
	if _, sum, err := n.find(t.Context(), "guard"); err != nil || sum != l.Digest {
		t.Errorf("found %s, %v, want %s", sum, err, l.Digest)
	}
	if err := n.store.Remove("guard"); err != nil {
		t.Fatal(err)
	}
	if _, sum, err := n.find(t.Context(), "guard"); err != nil || sum == l.Digest {
		t.Errorf("after its removal %s, %v", sum, err)
	}
}

// A folder that cannot be written to, as that of a package's configuration, must not take the policy out of force.
func TestLockThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	n, _ := released(t, true)
	closed := t.TempDir()
	n.store = pack.NewStore(filepath.Join(closed, "s"), filepath.Join(closed, pack.LockName), pack.Trust{})
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.find(t.Context(), "guard"); err != nil {
		t.Error(err)
	}
}
