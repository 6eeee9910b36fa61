package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/message"
)

// TestRename gives what a session has made to the key that it has now, and loses nothing of either where that one has a workspace already.
func TestRename(t *testing.T) {
	root := t.TempDir()
	write := func(session message.WorkspaceKey, name string) {
		t.Helper()
		if err := os.MkdirAll(Path(root, session), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(Path(root, session), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tg:7:main", "a")
	write("wh:v2:main", "b")
	write("wh/dm:v2:main", "c")
	for range 2 { // the second time after a crash in between
		for was, now := range map[string]string{"tg:7:main": "tg/dm:7:main", "wh:v2:main": "wh/dm:v2:main", "none:1:main": "none/dm:1:main"} {
			if err := Rename(root, was, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{
		filepath.Join(Path(root, "tg/dm:7:main"), "a"), filepath.Join(Path(root, "wh/dm:v2:main"), "c"),
		filepath.Join(Path(root, "wh/dm:v2:main"), "earlier-"+Name("wh:v2:main"), "b"),
	} {
		if _, err := os.Stat(want); err != nil {
			t.Error(err)
		}
	}
	for _, gone := range []message.WorkspaceKey{"tg:7:main", "wh:v2:main", "none:1:main", "none/dm:1:main"} {
		if _, err := os.Lstat(Path(root, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", gone, err)
		}
	}
}
