package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

func TestInside(t *testing.T) {
	for _, c := range []struct {
		name, want string
		outside    bool
	}{
		{"f", "f", false}, {"./a//b/", "a/b", false}, {"a/../b", "b", false}, {"", ".", false},
		{"/workspace", ".", false}, {"/workspace/", ".", false}, {"/workspace/a/./b", "a/b", false},
		{"..", "", true}, {"a/../../b", "", true}, {"/", "", true}, {"/workspace/..", "", true},
		{"/workspacex", "", true}, {"/etc/passwd", "", true}, {"a\x00b", "", true}, {strings.Repeat("a", 5000), "", true},
		{"..a", "..a", false}, {"a/..b", "a/..b", false},
	} {
		got, err := inside(c.name, "/workspace")
		if got != c.want || errors.Is(err, machine.ErrOutside) != c.outside {
			t.Errorf("%.20q: got %q (%v)", c.name, got, err)
		}
	}
}

// Names are safe for files and containers, and different sessions never share one.
func TestSafeName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		name := safeName(a)
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || len(name) > 60 {
			t.Fatalf("unsafe name %q", name)
		}
		if a != b && name == safeName(b) {
			t.Fatalf("%q and %q share %q", a, b, name)
		}
	})
}

// TestNamesCannotBeMadeToMeet: with 32 bits of a digest a few of so many names would be the same.
func TestNamesCannotBeMadeToMeet(t *testing.T) {
	seen := map[string]int{}
	for i := range 400_000 {
		name := safeName(fmt.Sprintf("matrix:!%040d:%d", 0, i))
		if j, taken := seen[name]; taken {
			t.Fatalf("sessions %d and %d share %s", i, j, name)
		}
		seen[name] = i
	}
}

func TestSpecHash(t *testing.T) {
	base := Spec{Image: "x"}.WithDefaults()
	same := base
	same.Timeout = time.Hour
	if base.hash("s") != same.hash("s") {
		t.Error("the time-out of commands should not replace containers")
	}
	for name, change := range map[string]func(*Spec){
		"image": func(s *Spec) { s.Image = "y" }, "network": func(s *Spec) { s.Network = "host" },
		"memory": func(s *Spec) { s.MemoryBytes++ }, "cpus": func(s *Spec) { s.CPUs = 2 },
		"disk": func(s *Spec) { s.DiskBytes++ }, "pids": func(s *Spec) { s.PidsLimit++ }, "runtime": func(s *Spec) { s.Runtime = "runsc" },
		"workspace": func(s *Spec) { s.WorkspaceDir = "/w" }, "allowlist": func(s *Spec) { s.Allowlist = []string{"example.com"} },
	} {
		other := base
		if change(&other); base.hash("s") == other.hash("s") {
			t.Errorf("%s does not count", name)
		}
	}
	if base.hash("s") == base.hash("t") {
		t.Error("the supervisor does not count")
	}
}

func TestFileMode(t *testing.T) {
	for mode, want := range map[uint32]fs.FileMode{
		unix.S_IFREG | 0o644: 0o644, unix.S_IFDIR | 0o1777: fs.ModeDir | fs.ModeSticky | 0o777,
		unix.S_IFLNK | 0o777: fs.ModeSymlink | 0o777, unix.S_IFCHR | 0o600: fs.ModeDevice | fs.ModeCharDevice | 0o600,
		unix.S_IFREG | 0o4755: fs.ModeSetuid | 0o755, 0: fs.ModeIrregular,
	} {
		if got := fileMode(mode); got != want {
			t.Errorf("%o: got %v, want %v", mode, got, want)
		}
	}
}

// FuzzListing feeds hostile listings: whatever is accepted names single path elements only.
func FuzzListing(f *testing.F) {
	f.Add(append(frame.Encode(frame.Entry{Name: []byte("f"), Size: 1, Mode: unix.S_IFREG}), '\n'))
	f.Add(frame.Encode(frame.Entry{Name: []byte("../f")}))
	f.Add([]byte(`{"n":"Zg==","s":-1}{`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		infos, err := parseListing(bytes.NewReader(lines))
		if err != nil {
			if !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("wrong kind: %v", err)
			}
			return
		}
		for _, i := range infos {
			if i.Name == "" || strings.ContainsAny(i.Name, "/\x00") || i.Size < 0 {
				t.Errorf("accepted %+v", i)
			}
		}
	})
}

func TestInstalledSupervisorIsACopy(t *testing.T) {
	source := filepath.Join(t.TempDir(), supervisorName)
	if err := os.WriteFile(source, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(t.TempDir(), "run")
	first, _, err := installSupervisor(source, run)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(first); err != nil || info.Mode() != 0o555 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	if err := os.WriteFile(source, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, _, err := installSupervisor(source, run)
	if err != nil || second == first {
		t.Errorf("second copy at %s (%v)", second, err)
	}
	if got, err := os.ReadFile(first); err != nil || string(got) != "one" {
		t.Errorf("the first copy changed to %q (%v)", got, err)
	}
	if again, _, err := installSupervisor(source, run); err != nil || again != second {
		t.Errorf("copied again to %s (%v)", again, err)
	}
}

func TestSupervisorNowhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := FindSupervisor(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "beside the program") {
		t.Errorf("got %v", err)
	}
}

func TestWorkspaceOfRootIsHandedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can hand a folder over")
	}
	w := newWorkspaces(t.TempDir(), "i", &presence{id: "h"}, NewHolds())
	folder, o, err := w.prepare("s")
	if err != nil || o.uid != workloadID || o.gid != workloadID {
		t.Fatalf("owner %+v (%v)", o, err)
	}
	if err := os.Chown(folder, 1234, 0); err != nil {
		t.Fatal(err)
	}
	if _, o, err := w.prepare("s"); err != nil || o.uid != 1234 || o.gid != workloadID {
		t.Errorf("owner %+v (%v)", o, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", folder); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.prepare("s"); err == nil {
		t.Error("a link was taken for a workspace")
	}
}
