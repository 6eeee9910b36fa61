package pack

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/install/folder"
)

// earlierKey has signed what is in testdata, which an earlier Flynn has written.
const earlierKey Key = "ed25519:J/xJAwg/2XyfZXaHRwnTf1UKTUlQqNvi4CfLgj8c89o="

func TestStoreOfAnEarlierFlynn(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Remove(dir) })
	err := filepath.WalkDir(filepath.Join(dir, "installed", "p"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = os.Chmod(name, 0o400)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := NewStore(filepath.Join(dir, "installed"), filepath.Join(dir, LockName), Trust{Keys: []Key{earlierKey}, Required: true})
	l, err := s.Verify("p")
	if err != nil || l.Key != earlierKey || l.From != "/src/p" || l.Source == "" {
		t.Fatalf("got %+v, %v", l, err)
	}
	before := get(t, dir, LockName)
	p := must[*Package](t)(Open(filepath.Join(dir, "p.tar.gz")))
	if _, known, err := s.Install(t.Context(), p, "/src/p", false); err != nil || !known {
		t.Errorf("its archive: known %t, %v", known, err)
	}
	if after := get(t, dir, LockName); after != before {
		t.Errorf("the lock was written as\n%s, it was\n%s", after, before)
	}
	var now bytes.Buffer
	if err := p.Pack(&now); err != nil || now.String() != get(t, dir, "p.tar.gz") {
		t.Errorf("the same files make other bytes (%v)", err)
	}
	if err := s.Remove("p"); err != nil {
		t.Error(err)
	}
}
