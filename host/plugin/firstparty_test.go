package plugin

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/sdk/need"
)

// releaseWith makes a release whose plugin "small" has a program with that text.
func releaseWith(t *testing.T, version, text string) func() firstparty.Shelf {
	t.Helper()
	lib := t.TempDir()
	dir := filepath.Join(lib, "plugins", "small")
	put(t, dir, ManifestName, "manifest = 1\nname = \"small\"\nversion = \""+version+"\"\nkinds = [\"channel\"]\nprotocols = [1]\nexec = { any = \"bin/small\" }\n", 0o644)
	put(t, dir, "bin/small", text, 0o755)
	if err := firstparty.WriteManifest(lib); err != nil {
		t.Fatal(err)
	}
	return func() firstparty.Shelf { return firstparty.FromRelease(lib) }
}

// TestTheLockMovesAlongWithTheProgram: another release of Flynn brings its own plugins; what a person has chosen stays.
func TestTheLockMovesAlongWithTheProgram(t *testing.T) {
	s, log := open(t), slog.New(slog.DiscardHandler)
	program := func(version, want string) {
		t.Helper()
		if err := s.Provide(t.Context(), log, "small"); err != nil {
			t.Fatal(err)
		}
		l, err := s.Verify("small")
		if err != nil || l.Version != version {
			t.Fatalf("version %s, %v, want %s", l.Version, err, version)
		}
		if text, err := os.ReadFile(filepath.Join(s.versions.Path(l.dir()), "bin/small")); err != nil || string(text) != want {
			t.Errorf("the program is %q, %v, want %q", text, err, want)
		}
	}
	s.shelf = releaseWith(t, "1.0.0", "one")
	program("1.0.0", "one")
	s.shelf = releaseWith(t, "1.0.0", "one, built again")
	program("1.0.0", "one, built again")
	s.shelf = releaseWith(t, "1.1.0", "two")
	program("1.1.0", "two")
	if err := s.Activate("small", "1.0.0"); err != nil { // a rollback
		t.Fatal(err)
	}
	program("1.0.0", "one, built again")
	if _, err := s.Install(source(t, "1.1.0")); err != nil {
		t.Fatal(err)
	}
	program("1.1.0", "#!/bin/sh\n")
	s.shelf = releaseWith(t, "2.0.0", "three")
	program("1.1.0", "#!/bin/sh\n")
}

// idler uses an instance for nothing.
type idler struct{}

func (idler) Serve(ctx context.Context, _ *kind.Conn) error {
	<-ctx.Done()
	return nil
}

// TestAFirstPartyChannelStarts builds a plugin of this repository, starts it by its name, and does so again from a release.
func TestAFirstPartyChannelStarts(t *testing.T) {
	need.Source(t)
	need.Long(t)
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	lib := t.TempDir()
	dir := filepath.Join(lib, "plugins", "irc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (Assembler{Platform()}).Assemble(t.Context(), filepath.Join(module, "plugins", "irc"), dir); err != nil {
		t.Fatal(err)
	}
	if err := firstparty.WriteManifest(lib); err != nil {
		t.Fatal(err)
	}
	for name, shelf := range map[string]firstparty.Shelf{
		"clone": firstparty.FromSource(module, t.TempDir()), "release": firstparty.FromRelease(lib),
	} {
		t.Run(name, func(t *testing.T) {
			s := startPrepared(t, nil, Containment{}, func(h *Host) { h.store.shelf = func() firstparty.Shelf { return shelf } })
			i := Instance{Name: "one", Plugin: "irc", Kind: channelkind.Name, Settings: map[string]any{"address": "127.0.0.1:1", "nick": "flynn", "tls": false}}
			if err := s.Add(i, idler{}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			st := s.await("one", Ready)
			t.Logf("ready with pid %d after %v", st.PID, time.Since(began))
		})
	}
	put(t, dir, "bin/irc", "#!/bin/sh\n", 0o755)
	s := startPrepared(t, nil, Containment{}, func(h *Host) {
		h.store.shelf = func() firstparty.Shelf { return firstparty.FromRelease(lib) }
	})
	if err := s.Add(Instance{Name: "one", Plugin: "irc", Kind: channelkind.Name}, idler{}); err != nil {
		t.Fatal(err)
	}
	if st := s.await("one", Quarantined); !strings.Contains(st.LastError, "is not the one that came with this flynn") {
		t.Errorf("got %+v", st)
	}
}
