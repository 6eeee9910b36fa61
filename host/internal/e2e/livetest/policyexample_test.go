package livetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

// The example of a policy from nothing to live works as its README says, in the language that every machine of a developer has.
func TestPolicyExample(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("clang")
	need.Part(t, "clang", err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "examples", "policies", "run.sh"), "c")
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath") // as everything else that the tests build
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{
		"from new to live", "20 of 20 decisions changed", "its cases keep it out", `case "the owner reaches the coder"`,
		"it is in force, without a restart", "the one before is in force",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
}
