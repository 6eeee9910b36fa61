package native

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// fake writes a program that stands for flynn-sandboxd.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flynn-sandboxd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServerThatFails: a program that cannot start sandboxes is an error within the time, and leaves no process behind.
func TestServerThatFails(t *testing.T) {
	for _, c := range []struct{ name, program, says string }{
		{"none", filepath.Join(t.TempDir(), "none"), "no such file"},
		{"it ends", fake(t, "exit 1"), ""},
		{"it takes the request and says nothing", fake(t, "exec cat <&3 >/dev/null"), "flynn-sandboxd ended"},
		{"it hangs", fake(t, "exec tail -f /dev/null --pid=$PPID"), "not started in time"},
	} {
		var s server
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, process, err := s.start(ctx, c.program, within.Request{}, os.Stdin, os.Stdout, os.Stderr)
		cancel()
		if err == nil || process != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		s.close()
	}
}

// TestReplies are those of a program that is not what it should be.
func TestReplies(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"nonsense", "\x00\xff{", "no valid reply"},
		{"no process", `{"PID":1}`, "returned no process"},
		{"a refusal", `{"Error":"make the view of files: operation not permitted","Errno":1}`, "make the view of files"},
		{"a huge number", `{"PID":99999999999999999999}`, "no valid reply"},
	} {
		near, far, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Sendmsg(int(far.Fd()), []byte(c.text), nil, nil, 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := receive(t.Context(), near); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		near.Close()
		far.Close()
	}
	near, far, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	if _, _, err := receive(t.Context(), near); err == nil {
		t.Error("a server that is gone started something")
	}
	near.Close()
}
