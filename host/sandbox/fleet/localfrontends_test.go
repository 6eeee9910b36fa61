package fleet

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

// TestTheStartSaysWhereLocalCallsAct: [sandbox] enabled alone leaves the web page and the terminal on the host.
func TestTheStartSaysWhereLocalCallsAct(t *testing.T) {
	for _, local := range []bool{false, true} {
		var log bytes.Buffer
		c := &config.Config{Sandbox: config.Sandbox{Enabled: true, LocalFrontends: local, Engine: "unix:///nowhere/docker.sock"}}
		f := made(t, c, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(log.String(), "run on the host; local_frontends = true"); said == local {
			t.Errorf("local_frontends = %v: the log says\n%s", local, log.String())
		}
	}
}
