package livetest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

// The example of several hosts does what its README says, and leaves nothing.
func TestClusterExample(t *testing.T) {
	t.Parallel()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) == 0 {
		need.Part(t, "postgres", errors.New("there is no Postgres of Debian: apt-get install postgresql"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "examples", "cluster", "run.sh"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it stops what it has started
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath", "TMPDIR="+t.TempDir()) // as everything else that the tests build
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{
		"another host has answered, once", "from a", "what was said meanwhile has its answer, once", "drained", "host b gets work again", "You said: third",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
}
