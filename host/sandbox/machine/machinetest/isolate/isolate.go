// Package isolate runs a test that kills processes in its own PID namespace. It is for tests only.
package isolate

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// isolated marks the copy of a test that runs inside.
const isolated = "FLYNN_TEST_ISOLATED"

// Test runs the calling test again in its own PID namespace, where signals reach no other process of the computer, and reports whether this
// is that run. If it is false, the caller must return. Call it at the start of a top-level test.
func Test(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolated) != "" {
		return true
	}
	args := namespaceArgs()
	need.Part(t, "unshare", exec.Command("unshare", append(args, "true")...).Run())
	args = append(args, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd := exec.Command("unshare", args...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run in a namespace: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("run in a namespace: the test did not run to its end\n%s", out)
	}
	return false
}

// namespaceArgs returns the arguments of unshare; without root they include a user namespace.
func namespaceArgs() []string {
	args := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	return args
}
