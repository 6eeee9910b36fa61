package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shelf stands in for a store of installed policies: its lock names a module's file and digest.
type shelf struct {
	lock, path, digest string
	err                error
}

func (s *shelf) source(trust string) Source {
	return Source{Name: "p", Kinds: []string{KindTool}, Installed: &Installed{Name: "p", Lock: s.lock, Trust: trust, Find: func(context.Context) (string, string, error) {
		return s.path, s.digest, s.err
	}}}
}

func (s *shelf) install(t *testing.T, wasm []byte) {
	t.Helper()
	s.path, s.digest, s.err = write(t, wasm), fileDigest(wasm), nil
	replace(t, s.lock, []byte(s.digest))
}

func TestInstalledPolicyIsWhatItsLockSays(t *testing.T) {
	s := &shelf{lock: filepath.Join(t.TempDir(), "policies.lock")}
	s.install(t, version(1, 1))
	e := opened(t, &pastLog{}, s.source(""))
	decides(t, e, 1)
	if st := e.Status()[0]; st.Path != s.path || e.paths()[0] != s.lock {
		t.Errorf("path %s, watched %v", st.Path, e.paths())
	}
	s.install(t, version(2, 1))
	e.Refresh(t.Context())
	decides(t, e, 2)

	if err := os.WriteFile(s.path, version(3, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Refresh(t.Context())
	decides(t, e, 2)
	if st := e.Status()[0]; st.State != StateStale || !strings.Contains(st.Error, "changed on the disk") {
		t.Errorf("with another module on the disk %+v", st)
	}
	s.err = errors.New("not signed any more")
	if err := e.Configure(t.Context(), []Source{s.source("other keys")}); err == nil || !strings.Contains(err.Error(), "not signed any more") {
		t.Errorf("with other keys %v", err)
	}
	decides(t, e, 2)
	s.install(t, version(4, 1))
	if err := e.Configure(t.Context(), []Source{s.source("other keys")}); err != nil {
		t.Fatal(err)
	}
	decides(t, e, 4)
}
