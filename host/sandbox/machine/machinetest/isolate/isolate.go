// Package isolate runs a test that kills in a process-id namespace of its own. It is for tests only.
package isolate

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// isolated tells a test that it is the copy inside.
const isolated = "FLYNN_TEST_ISOLATED"

// Test runs the calling test once more in a process-id namespace of its own, where a signal can hit nothing of
// the computer around it, and reports whether this is that run. The caller returns when it is false. It must be called
// at the start of a top-level test.
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

// namespaceArgs are the arguments of unshare; without root a user namespace comes with it.
func namespaceArgs() []string {
	args := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	return args
}
