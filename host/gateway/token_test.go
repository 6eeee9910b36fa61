package gateway_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
)

func TestTokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "gateway.token")
	var urls [8]string
	var wg sync.WaitGroup
	for i := range urls {
		wg.Go(func() {
			s, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0", TokenFile: path}, gateway.Backend{})
			if err != nil {
				t.Error(err)
				return
			}
			_, urls[i], _ = strings.Cut(s.URL(), "/#token=")
			_ = s.Close()
		})
	}
	wg.Wait()
	for _, u := range urls {
		if u != urls[0] || len(u) != 43 {
			t.Fatalf("tokens differ or are not 32 bytes: %q", urls)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %#o", info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("files beside the token: %v %v", entries, err)
	}
}

func TestTokenIsRefused(t *testing.T) {
	good := strings.Repeat("a", 43)
	tests := []struct {
		name string
		make func(path string) error
		want string
	}{
		{"readable by others", func(p string) error { return os.WriteFile(p, []byte(good), 0o644) }, "chmod 600"},
		{"readable by the group", func(p string) error { return os.WriteFile(p, []byte(good), 0o640) }, "chmod 600"},
		{"empty", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "must hold one line"},
		{"short", func(p string) error { return os.WriteFile(p, []byte("hunter2"), 0o600) }, "must hold one line"},
		{"long", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("a", 300)), 0o600) }, "must hold one line"},
		{"two lines", func(p string) error { return os.WriteFile(p, []byte(good+"\n"+good), 0o600) }, "must hold one line"},
		{"space", func(p string) error { return os.WriteFile(p, []byte(good+" "), 0o600) }, "must hold one line"},
		{"folder", func(p string) error { return os.Mkdir(p, 0o700) }, "not a regular file"},
		{"link", func(p string) error {
			if err := os.WriteFile(p+"2", []byte(good), 0o600); err != nil {
				return err
			}
			return os.Symlink(p+"2", p)
		}, "open token file"},
		{"foreign owner", func(p string) error {
			if err := os.WriteFile(p, []byte(good), 0o600); err != nil {
				return err
			}
			return os.Chown(p, 12345, 12345)
		}, "belongs to another user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := tt.make(path); os.IsPermission(err) {
				t.Skip("needs root")
			} else if err != nil {
				t.Fatal(err)
			}
			_, err := gateway.ReadToken(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), good) {
				t.Error("the error holds the token")
			}
			s, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0", TokenFile: path}, gateway.Backend{})
			if err == nil {
				_ = s.Close()
				t.Error("New took it")
			}
		})
	}
}

func TestTokenByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(strings.Repeat("A-z_", 10)+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := gateway.ReadToken(path)
	if err != nil || got != strings.Repeat("A-z_", 10) {
		t.Fatalf("token %q, error %v", got, err)
	}
}

// TestRootReadsTheTokenOfAService: root may use the token of another user's host, where nobody but that user can have put it. A host of root
// does not take it for its own.
func TestRootReadsTheTokenOfAService(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for name, c := range map[string]struct {
		dir, file int // whose they are
		mode      os.FileMode
		ok        bool
	}{
		"all of one user":          {12345, 12345, 0o700, true},
		"a folder others can read": {12345, 12345, 0o755, true},
		"a folder of root":         {0, 12345, 0o700, false},
		"a folder of a third":      {12346, 12345, 0o700, false},
		"a folder for the group":   {12345, 12345, 0o770, false},
		"a folder for everybody":   {12345, 12345, 0o777, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "of a service")
			path, token := filepath.Join(dir, "token"), strings.Repeat("a", 43)
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, []byte(token), 0o600), os.Chown(path, c.file, c.file), os.Chmod(dir, c.mode),
				os.Chown(dir, c.dir, c.dir)); err != nil {
				t.Fatal(err)
			}
			got, err := gateway.ReadToken(path)
			if c.ok && got != token || !c.ok && (err == nil || !strings.Contains(err.Error(), "another user")) {
				t.Errorf("%q, %v", got, err)
			}
			if s, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0", TokenFile: path}, gateway.Backend{}); err == nil {
				_ = s.Close()
				t.Error("a host of root took it")
			}
		})
	}
}
