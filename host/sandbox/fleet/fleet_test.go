package fleet

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// made returns a fleet of a configuration, which does not run. Processes on the host end with the test.
func made(t *testing.T, c *config.Config, log *slog.Logger) *Fleet {
	t.Helper()
	f, err := New(Config{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	f.Configure(c)
	t.Cleanup(f.hosts.close)
	return f
}

// TestIdleHostMachinesAreClosed: a stranger opens as many conversations as it likes, and each one once held a descriptor for good.
func TestIdleHostMachinesAreClosed(t *testing.T) {
	now := time.Now()
	m := made(t, &config.Config{}, slog.New(slog.DiscardHandler))
	m.hosts.now = func() time.Time { return now }
	get := func(session message.WorkspaceKey) machine.Machine {
		t.Helper()
		h, err := m.Host(session)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	busy := get("busy")
	p, err := busy.Start(t.Context(), machine.Command{Script: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxHosts {
		get(message.WorkspaceKey(fmt.Sprint("s", i)))
	}
	recent := get("recent")
	now = now.Add(hostIdle)
	recentAgain := get("recent")
	get("one more")
	if len(m.hosts.open) != 3 {
		t.Errorf("%d machines are open, want 3", len(m.hosts.open))
	}
	if get("recent") != recent || recentAgain != recent {
		t.Error("a machine in use was closed")
	}
	if list, err := get("busy").Processes(t.Context()); err != nil || len(list) != 1 || list[0].PID != p.PID || !list[0].Running {
		t.Errorf("the background process is %+v, %v", list, err)
	}
}

// TestWarmPools: each sandbox that asks for one has a pool, and a change takes effect at once.
func TestWarmPools(t *testing.T) {
	named := config.Sandbox{Enabled: true, Image: "b", WarmPool: 1}
	off := config.Sandbox{Image: "c", WarmPool: 1}
	c := &config.Config{
		Sandbox:   config.Sandbox{Enabled: true, Image: "a", WarmPool: 2, WarmPoolCPU: 50},
		Sandboxes: map[string]config.Sandbox{"named": named, "off": off, "none": {Enabled: true, Image: "d"}},
	}
	m := made(t, c, slog.New(slog.DiscardHandler))
	want := []sandbox.Pool{{Spec: specs.Of(c.Sandbox), Size: 2}, {Spec: specs.Of(named), Size: 1}}
	if in := m.setup.Load(); !reflect.DeepEqual(in.pools, want) || in.poolCPU != 0.5 {
		t.Errorf("pools %+v with %v of the machine, want %+v", in.pools, in.poolCPU, want)
	}
	c.Sandbox.Enabled = false
	if m.Configure(c); len(m.setup.Load().pools) != 1 || m.PoolStats().Wanted != 0 {
		t.Errorf("pools %+v", m.setup.Load().pools)
	}
}

// The files of a command on the host are counted before the next one, which may only delete.
func TestHostCommandsAreHeldToTheDisk(t *testing.T) {
	m := made(t, &config.Config{Limits: config.Limits{SessionDisk: 1 << 20}}, slog.New(slog.DiscardHandler))
	var full quota.Refusal
	for i, c := range []struct {
		script string
		no     bool
	}{
		{"dd if=/dev/zero of=f bs=1M count=2 2>/dev/null", false},
		{"echo more >g", true},
		{"rm -f f; echo more >g", true},
		{"ls -l\nrm -f f", false},
		{"echo more >g", false},
	} {
		h, err := m.Host("tg:c:a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Exec(t.Context(), machine.Command{Script: c.script})
		if errors.As(err, &full) != c.no || !c.no && err != nil || c.no && !strings.Contains(full.Error(), "2.0 MiB of 1.0 MiB") {
			t.Errorf("command %d: %v", i, err)
		}
		if p, err := h.Start(t.Context(), machine.Command{Script: "sleep 60"}); errors.As(err, &full) != (i < 3) {
			t.Errorf("process %d: %+v, %v", i, p, err)
		}
	}
	h, err := m.Host("tg:other:a")
	if err == nil {
		_, err = h.Exec(t.Context(), machine.Command{Script: "true"})
	}
	if err != nil {
		t.Error(err)
	}
}

func TestASandboxThatIsMadeOtherwiseHasAnotherDigest(t *testing.T) {
	m := made(t, &config.Config{
		Sandbox:   config.Sandbox{Image: "a"},
		Sandboxes: map[string]config.Sandbox{"same": {Image: "a"}, "other": {Image: "b"}, "open": {Image: "a", Network: "bridge"}},
	}, slog.New(slog.DiscardHandler))
	own := m.Digest("")
	if own == "" || m.Digest("same") != own {
		t.Errorf("equal sandboxes have the digests %q and %q", own, m.Digest("same"))
	}
	for _, name := range []string{"other", "open"} {
		if m.Digest(name) == own {
			t.Errorf("%s has the digest of another sandbox", name)
		}
	}
	if got := m.Digest("none"); got != "" {
		t.Errorf("a sandbox that is not there has the digest %q", got)
	}
}
