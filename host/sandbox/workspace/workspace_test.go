package workspace

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/message"
)

// Names are safe for files and containers, and different sessions never share one.
func TestName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := message.WorkspaceKey(rapid.String().Draw(t, "a")), message.WorkspaceKey(rapid.String().Draw(t, "b"))
		name := Name(a)
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || len(name) > 60 {
			t.Fatalf("unsafe name %q", name)
		}
		if a != b && name == Name(b) {
			t.Fatalf("%q and %q share %q", a, b, name)
		}
	})
}

// TestNamesCannotBeMadeToMeet: with 32 bits of a digest a few of so many names would be the same.
func TestNamesCannotBeMadeToMeet(t *testing.T) {
	seen := map[string]int{}
	for i := range 400_000 {
		name := Name(message.WorkspaceKey(fmt.Sprintf("matrix:!%040d:%d", 0, i)))
		if j, taken := seen[name]; taken {
			t.Fatalf("sessions %d and %d share %s", i, j, name)
		}
		seen[name] = i
	}
}

func TestWorkspaceOfRootIsHandedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can hand a folder over")
	}
	w := New(Config{Path: t.TempDir(), Instance: "i", Host: only("h"), Holds: NewHolds()})
	folder, o, err := w.Prepare("s")
	if err != nil || o.UID != workloadID || o.GID != workloadID {
		t.Fatalf("owner %+v (%v)", o, err)
	}
	if err := os.Chown(folder, 1234, 0); err != nil {
		t.Fatal(err)
	}
	if _, o, err := w.Prepare("s"); err != nil || o.UID != 1234 || o.GID != workloadID {
		t.Errorf("owner %+v (%v)", o, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", folder); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Prepare("s"); err == nil {
		t.Error("a link was taken for a workspace")
	}
}
