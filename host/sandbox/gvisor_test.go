package sandbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

func TestGVisor(t *testing.T) {
	t.Parallel()
	e := sandboxtest.GVisor(t)
	m, config := e.Manager(t, func(c *sandbox.Config) { c.Spec.Runtime = spec.GVisor })
	t.Run("commands", func(t *testing.T) {
		s := get(t, m, "s", config.Spec)
		if got := shell(t, s, "id -u; uname -r; pwd; echo kept >f; cat f"); got != "1000\n4.4.0\n/workspace\nkept\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("kill", func(t *testing.T) {
		s := get(t, m, "s", config.Spec)
		for _, script := range []string{
			"sleep 100", "trap '' TERM; setsid sleep 100 & setsid sleep 100 & sleep 100",
			`(sh -c 'trap "" TERM; sleep 60 & sleep 60' &); sleep 60`,
		} {
			r := run(t, s, machine.Command{Script: script, Timeout: 500 * time.Millisecond})
			t.Logf("%q: %+v %+v wall %v", script, r.Kill, r.TimedOut, r.Wall)
			if !r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 {
				t.Errorf("%q: %+v (%+v)", script, r, r.Kill)
			}
		}
	})
	t.Run("machine", func(t *testing.T) {
		opened := 0
		machinetest.Run(t, func(t *testing.T) machine.Machine {
			opened++
			s := get(t, m, message.WorkspaceKey(fmt.Sprint("chat:", opened)), config.Spec)
			t.Cleanup(func() { _ = s.Close() })
			return s
		})
	})
}
