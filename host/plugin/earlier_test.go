package plugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/install/signing"
)

// earlierKey has signed what is in testdata, which an earlier Flynn has written.
const earlierKey signing.Key = "ed25519:IviHQR0qf1zuo1V6AXI3SXWseTrX3DhVmA8ukzfV3ck="

// earlier is a store as it left it.
func earlier(t *testing.T) *Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/installed")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Remove(dir) })
	err := filepath.WalkDir(filepath.Join(dir, "store"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.Chmod(name, info.Mode()&0o500)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreOfAnEarlierFlynn(t *testing.T) {
	s := earlier(t)
	before, err := os.ReadFile(s.lock.Path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Record("small")
	if err != nil || r.Active != "1.1.0" || r.Previous[0] != "1.0.0" || r.Rejected[0].Version != "1.2.0" || len(r.Releases) != 2 {
		t.Fatalf("got %+v, %v", r, err)
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		p, err := s.loadVersion("small", version)
		if err != nil || p.locked.Signer != string(earlierKey) || p.program == nil {
			t.Fatalf("version %s: %+v, %v", version, p, err)
		}
		p.close()
	}
	if err := s.SetDisabled("small", false); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(s.lock.Path); err != nil || afterComment(after) != afterComment(before) {
		t.Errorf("the lock was written as\n%s(%v), it was\n%s", after, err, before)
	}
	trust := signing.Trust{Keys: []signing.Key{earlierKey}, Required: true}
	got, err := s.InstallFrom(t.Context(), "testdata/small-1.1.0.tar.gz", Obtain{Options{Trust: trust}, fetch.Client{}})
	if err != nil || !got.Known || got.Signer != string(earlierKey) {
		t.Errorf("its archive: known %t, signer %q, %v", got.Known, got.Signer, err)
	}
	if _, err := s.Install(source(t, "2.0.0")); err != nil {
		t.Error(err)
	}
	if err := s.Remove("small"); err != nil {
		t.Error(err)
	}
}

// afterComment returns a lock without the comment at its head.
func afterComment(lock []byte) string {
	_, rest, _ := strings.Cut(string(lock), "\n")
	return rest
}

func TestPackedAsByAnEarlierFlynn(t *testing.T) {
	s := earlier(t)
	old, err := os.ReadFile("testdata/small-1.1.0.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	var now strings.Builder
	if _, err := Pack(s.versions.Path("small/1.1.0/any"), &now); err != nil || now.String() != string(old) {
		t.Errorf("the same files make other bytes (%v)", err)
	}
}
