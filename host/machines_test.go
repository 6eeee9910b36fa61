package host

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// TestIdleHostMachinesAreClosed: a stranger opens as many conversations as he likes; each held a descriptor for ever.
func TestIdleHostMachinesAreClosed(t *testing.T) {
	now := time.Now()
	m := newMachines(t.TempDir(), "i", nil, slog.New(slog.DiscardHandler))
	m.now = func() time.Time { return now }
	defer m.closeHosts()
	get := func(session string) machine.Machine {
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
		get(fmt.Sprint("s", i))
	}
	recent := get("recent")
	now = now.Add(hostIdle)
	recentAgain := get("recent")
	get("one more")
	if len(m.hosts) != 3 {
		t.Errorf("%d machines are open, want 3", len(m.hosts))
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
	m := newMachines(t.TempDir(), "i", nil, slog.New(slog.DiscardHandler))
	m.configure(c)
	want := []sandbox.Pool{{Spec: spec(c.Sandbox), Size: 2}, {Spec: spec(named), Size: 1}}
	if !reflect.DeepEqual(m.pools, want) || m.poolCPU != 0.5 {
		t.Errorf("pools %+v with %v of the machine, want %+v", m.pools, m.poolCPU, want)
	}
	c.Sandbox.Enabled = false
	if m.configure(c); len(m.pools) != 1 || m.poolStats().Wanted != 0 {
		t.Errorf("pools %+v", m.pools)
	}
}

// What a command on the host has written is seen before the next one, which may delete and nothing else.
func TestHostCommandsAreHeldToTheDisk(t *testing.T) {
	m := newMachines(t.TempDir(), "i", nil, slog.New(slog.DiscardHandler))
	m.configure(&config.Config{Limits: config.Limits{SessionDisk: 1 << 20}})
	defer m.closeHosts()
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
