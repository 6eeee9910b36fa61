package sandbox_test

import (
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// A sandbox looks the same to a tool as the host does.
func TestSessionIsAMachine(t *testing.T) {
	t.Parallel()
	m, config := sandboxtest.Engine(t).Manager(t)
	opened := 0
	machinetest.Run(t, func(t *testing.T) machine.Machine {
		opened++
		s := get(t, m, message.WorkspaceKey(fmt.Sprint("chat:", opened)), config.Spec)
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}
