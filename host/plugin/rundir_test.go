//go:build unix

package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunDirsGo: a host that ends leaves no folder for sockets, and one that starts removes those of hosts that were killed, and of nobody
// else.
func TestRunDirsGo(t *testing.T) {
	parent, log := t.TempDir(), slog.New(slog.DiscardHandler)
	if len(parent) > 50 {
		parent = shortParent(t)
	}
	name := func(n int) string { return filepath.Join(parent, fmt.Sprintf("flynn-%d-%08x", os.Getuid(), n)) }
	make := func(dir string, names ...string) string {
		for _, name := range names {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	dead := make(name(1), runLock, "names/hosts")
	killed := make(name(2), runLock, socketDirs+"123/socket")
	xdg := make(filepath.Join(parent, "flynn-00000003"), runLock)
	live, err := claimRunDir(name(4), log)
	if err != nil {
		t.Fatal(err)
	}
	others := []string{
		make(name(5), "something"),                              // has no lock
		make(filepath.Join(parent, "flynn-home-1234"), runLock), // is named otherwise
		make(filepath.Join(parent, "flynn-999999-00000006"), runLock),
	}
	release, err := claimRunDir(name(7), log)
	if err != nil {
		t.Fatal(err)
	}
	sweepSiblings(name(7), log)
	for _, dir := range []string{dead, killed, xdg} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s is there", dir)
		}
	}
	for _, dir := range append(others, name(4), name(7)) {
		if _, err := os.Lstat(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := claimRunDir(name(4), log); err == nil {
		t.Error("two hosts have one folder")
	}
	live()
	release()
	for _, dir := range []string{name(4), name(7)} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s is there after its host's end", dir)
		}
	}
	again, err := claimRunDir(name(7), log)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func shortParent(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "rd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The folder for temporary files of macOS leaves no room for the name of a socket.
func TestDefaultRunDir(t *testing.T) {
	for name, c := range map[string]struct{ runtime, temporary, want string }{
		"the user's":          {"/run/user/7", "/tmp", "/run/user/7/flynn-"},
		"temporary":           {"", "/tmp/x/", "/tmp/x/flynn-"},
		"temporary on a Mac":  {"", "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/501", "/tmp/flynn-"},
		"a short one on that": {"", "/var/tmp/", "/var/tmp/flynn-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", c.runtime)
			t.Setenv("TMPDIR", c.temporary)
			dir, err := defaultRunDir("/srv/flynn/state")
			if err != nil || !strings.HasPrefix(dir, c.want) || strings.Contains(dir, "//") || len(dir)+socketTail > maxSocket || !isDefaultRunDir(dir) {
				t.Errorf("%s (%d bytes), %v; want it to begin with %s", dir, len(dir), err, c.want)
			}
		})
	}
}

// A folder for a socket of the host's own lies in the run folder, once that is its alone, and goes as the plugins' do.
func TestSocketDir(t *testing.T) {
	dir := filepath.Join(shortParent(t), "flynn-0000000a")
	h, err := New(Config{Dir: t.TempDir(), StateDir: t.TempDir(), RunDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.MkdirTemp(shortParent(t), "")
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan string)
	go func() {
		folder, err := h.SocketDir() // before Run
		if err != nil {
			t.Error(err)
		}
		made <- folder
	}()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	folder := <-made
	if filepath.Dir(folder) != dir || privateDir(folder) != nil {
		t.Errorf("%s is not in %s, or not private", folder, dir)
	}
	// As a killed process leaves them.
	if err := os.CopyFS(filepath.Join(left, filepath.Base(folder)), os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if err := sweep(left, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if found, _ := os.ReadDir(left); len(found) != 0 {
		t.Errorf("a start leaves %v", found)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again, err := New(Config{Dir: t.TempDir(), StateDir: t.TempDir(), RunDir: "relative"})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(ctx); err == nil {
		t.Error("a relative run folder is taken")
	}
	if folder, err := again.SocketDir(); err == nil {
		t.Errorf("without a run folder there is %s", folder)
	}
}
