package machine_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/machine/machinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openHost(t *testing.T, c machine.HostConfig) *machine.Host {
	t.Helper()
	c.Workspace = t.TempDir()
	h, err := machine.NewHost(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func TestHostConformance(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	machinetest.Run(t, func(t *testing.T) machine.Machine {
		return openHost(t, machine.HostConfig{Grace: 200 * time.Millisecond})
	})
}
