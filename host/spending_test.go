package host

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Background processes and files in the media store are among what is held.
func TestHeld(t *testing.T) {
	h := newHost(t, "")
	defer h.close()
	m, err := h.fleet.Host("tg:c:a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // the end of a run ends what runs on the host
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = h.fleet.Run(ctx)
	}()
	for range 2 {
		if _, err := m.Start(t.Context(), machine.Command{Script: "sleep 60"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.files.Keep(t.Context(), "tg:eve", "a", strings.NewReader("a")); err != nil {
		t.Fatal(err)
	}
	got, err := h.backend().Usages.Held(t.Context())
	want := []gateway.Held{{Sender: "tg:eve", Media: 8 << 10}, {Processes: 2, HostProcesses: 2}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}
