package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// building are machines whose sandbox takes until somebody says so.
type building struct {
	noMachines
	ready chan struct{}
}

func (b building) Sandbox(ctx context.Context, _ message.WorkspaceKey, _ string) (machine.Machine, error) {
	machine.Notice(ctx, "building image")
	select {
	case <-b.ready:
		return nil, errors.New("the image could not be built")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestWhoWaitsForASandboxIsTold(t *testing.T) {
	for _, c := range []struct {
		name     string
		patience time.Duration
		told     bool
	}{
		{"longer than their patience", time.Millisecond, true},
		{"no longer", time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			ready := make(chan struct{})
			h.touch.machine = true
			if err := h.gen.Registry.Replace(h.touch); err != nil {
				t.Fatal(err)
			}
			h.gen.Agents["helper"].Sandboxed = true
			h.runner.cfg.Machines = building{ready: ready}
			h.runner.cfg.Patience = c.patience
			replied := h.on.replied
			h.on.replied = func(turn string, r message.Reply) {
				replied(turn, r)
				if !transcript.IsAnswer(turn, r) {
					close(ready)
				}
			}
			if !c.told {
				close(ready)
			}
			h.accept("ann", "!touch wood")
			h.work(t.Context())
			texts := h.texts()
			if last := texts[len(texts)-1]; !strings.Contains(last, "the image could not be built") {
				t.Errorf("answered %q", last)
			}
			if told := texts[0] == "This takes a while: building image"; told != c.told || len(texts) > 2 {
				t.Errorf("said %q", texts)
			}
			shown := false
			for _, e := range h.events {
				shown = shown || e.Kind == message.ToolProgress && e.Waiting && strings.Contains(e.Text, "building image")
			}
			if !shown {
				t.Error("the watcher saw nothing")
			}
		})
	}
}

// movedMachines are machines of a conversation that has come from another host.
type movedMachines struct {
	noMachines
	told int
}

func (m *movedMachines) Sandbox(context.Context, message.WorkspaceKey, string) (machine.Machine, error) {
	return namedMachine{name: "sandbox"}, nil
}

func (m *movedMachines) Moved(context.Context, message.WorkspaceKey) string {
	if m.told++; m.told > 1 {
		return ""
	}
	return "Its files have stayed on host \"a\"."
}

// The person and the model are told that files have stayed on another host, once and before anything else.
func TestWhatHasStayedOnAnotherHostIsTold(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.touch.machine = true
	if err := h.gen.Registry.Replace(h.touch); err != nil {
		t.Fatal(err)
	}
	h.gen.Agents["helper"].Sandboxed = true
	h.runner.cfg.Machines = &movedMachines{}
	for _, wood := range []string{"oak", "ash"} {
		h.accept("ann", "!touch "+wood)
		h.work(t.Context())
	}
	const line = "Its files have stayed on host \"a\"."
	texts := h.texts()
	if len(texts) != 3 || texts[0] != line || !strings.Contains(texts[1], "["+line+"]\ntouched oak") || strings.Contains(texts[2], line) {
		t.Errorf("said %q", texts)
	}
}
