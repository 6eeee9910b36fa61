package host

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/machine"
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
