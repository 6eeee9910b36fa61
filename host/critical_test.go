package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/plugin/instances"
)

// criticalHost is a host with a channel whose plugin is in dir.
func criticalHost(t *testing.T, manifest, channel string) *Host {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "") // that of the temporary folder is short enough
	for name, text := range map[string]string{
		"plugin/plugin.toml": "manifest = 1\nname = \"broken\"\nversion = \"1.0.0\"\nkinds = [\"channel\"]\nprotocols = [1]\n" +
			"exec = { any = [\"sh\", \"run.sh\"] }\n" + manifest,
		"plugin/run.sh": "echo broken >&2; exit 1\n",
		"flynn.toml": fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n"+
			"[agent_configs.a]\ntool_profile = \"minimal\"\n[channels.bad]\nplugin = \"broken\"\n%s[plugins.dev_paths]\nbroken = %q\n",
			dir+"/s", channel, dir+"/plugin"),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := New(t.Context(), Config{Path: filepath.Join(dir, "flynn.toml"), Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run runs h until the test ends and waits until it serves.
func run(t *testing.T, h *Host) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !h.ready.Load(); {
		if time.Now().After(deadline) {
			t.Fatal("the host does not start")
		}
		time.Sleep(time.Millisecond) // a poll, not a synchronisation
	}
}

func TestACriticalChannelThatIsDownKeepsTheHostFromServing(t *testing.T) {
	for _, c := range []struct {
		name, manifest, channel string
		down                    bool
	}{
		{"by the configuration", "", "critical = true\n", true},
		{"by the manifest", "critical = true\n", "", true},
		{"by neither", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := criticalHost(t, c.manifest, c.channel)
			run(t, h)
			err := h.backend().Status.Ready(t.Context())
			if down := err != nil && strings.Contains(err.Error(), "critical plugin instance bad is"); down != c.down {
				t.Errorf("ready: %v", err)
			}
			err = instances.AwaitCritical(t.Context(), h.plugins, 100*time.Millisecond)
			if failed := err != nil && strings.Contains(err.Error(), "not ready within 100ms") && strings.Contains(err.Error(), "instance bad is"); failed != c.down {
				t.Errorf("start: %v", err)
			}
		})
	}
}

func TestACriticalChannelInQuarantineEndsTheStart(t *testing.T) {
	h := criticalHost(t, "config = { schema = \"plugin.toml\" }\nrun = { tls = \"none\" }\n", "critical = true\n")
	manifest := h.current.Load().Config.Plugins.DevPaths["broken"] + "/plugin.toml"
	if err := os.Remove(manifest); err != nil { // a plugin that is not there is quarantined at once
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := h.Run(ctx)
	if ctx.Err() != nil || err == nil || !strings.Contains(err.Error(), "critical plugin instance bad is quarantined") {
		t.Errorf("run: %v, %v", err, ctx.Err())
	}
}
