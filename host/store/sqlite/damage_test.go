//go:build unix

package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// filled makes a store with many messages that wait, and closes it.
func filled(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		m := message.Message{
			Channel: "irc", EventID: fmt.Sprint(i), Text: strings.Repeat("said ", 300), Sender: message.Sender{ID: "ann"},
			Conversation: message.Conversation{ID: "#c"},
		}
		if _, _, err := s.AppendInbox(t.Context(), m, mailbox.InboxNew, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestADamagedStoreIsFoundAtOpen damages a store in the ways of disks and people. It is not opened, the error says what to do, and nothing
// in it is changed.
func TestADamagedStoreIsFoundAtOpen(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, path string)
		want   string
	}{
		"pages overwritten": {func(t *testing.T, path string) { overwrite(t, path, size(t, path)/4096*3/4*4096, 20*4096) }, "is damaged: "},
		"cut in half":       {func(t *testing.T, path string) { truncate(t, path, size(t, path)/2) }, "is damaged: "},
		"cut in a page":     {func(t *testing.T, path string) { truncate(t, path, 5000) }, "is damaged: "},
		"broken header":     {func(t *testing.T, path string) { overwrite(t, path, 0, 100) }, "is damaged: "},
		"no bytes":          {func(t *testing.T, path string) { truncate(t, path, 0) }, "is missing or empty, but this folder has had a database: restore it"},
		"gone": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "is missing or empty, but this folder has had a database: restore it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			filled(t, dir)
			path := filepath.Join(dir, "flynn.db")
			c.damage(t, path)
			before, _ := os.ReadFile(path)
			s, err := Open(t.Context(), dir)
			if err == nil {
				s.Close()
				t.Fatal("it is opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "from a backup") {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file is changed")
			}
		})
	}
}

// TestAStoreThatIsWellOpensAgain opens new folders, used ones, and one in which another command has taken the lock.
func TestAStoreThatIsWellOpensAgain(t *testing.T) {
	dir := t.TempDir()
	lock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	filled(t, dir)
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if rows, err := s.PendingInbox(t.Context()); err != nil || len(rows) != 300 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestACheckWithoutTimeLeavesTheStoreInOrder opens a store whose check for damage is broken off.
func TestACheckWithoutTimeLeavesTheStoreInOrder(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	defer func(wall time.Duration) { checkWall = wall }(checkWall)
	for _, checkWall = range []time.Duration{0, time.Nanosecond, 50 * time.Microsecond, 200 * time.Microsecond} {
		s, err := Open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := s.PendingInbox(t.Context()); err != nil || len(rows) != 300 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func truncate(t *testing.T, path string, to int64) {
	t.Helper()
	if err := os.Truncate(path, to); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, at, n int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xA5}, int(n)), at); err != nil {
		t.Fatal(err)
	}
}

// TestOpenOnAFullDisk opens a store in a file system without room for it, in a mount namespace of its own.
func TestOpenOnAFullDisk(t *testing.T) {
	if dir := os.Getenv("FLYNN_TEST_FULL_DISK"); dir != "" {
		s, err := Open(t.Context(), dir)
		if err == nil {
			s.Close()
			t.Fatal("it is opened")
		}
		if !strings.Contains(err.Error(), "the disk is full: make room for ") {
			t.Fatal(err)
		}
		return
	}
	for _, blocks := range []string{"8k", "32k", "64k"} {
		dir := t.TempDir()
		script := `mount -t tmpfs -o size=` + blocks + ` none "$1" || exit 77; shift; exec "$@"`
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", dir, os.Args[0], "-test.run=^TestOpenOnAFullDisk$")
		cmd.Env = append(os.Environ(), "FLYNN_TEST_FULL_DISK="+dir)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 || bytes.Contains(out, []byte("unshare failed")) {
			t.Skipf("no mount namespace here: %v: %s", err, out)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", blocks, err, out)
		}
	}
}
