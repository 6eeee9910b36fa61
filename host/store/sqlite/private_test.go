package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// TestFilesAreForTheirOwnerAlone: the folder may be there already, and open to others.
func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.AppendInbox(t.Context(), message.Message{Channel: "irc", EventID: "1", Text: "secret"}, mailbox.InboxNew, ""); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files are %q, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", f, info.Mode(), err)
		}
	}
}
