//go:build unix

package plugin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/sdk/need"
)

// insideEnv is set in the PID namespace in which the tests run: nothing that they kill is anybody else's there.
const insideEnv = "FLYNN_TEST_PID_NAMESPACE"

// TestMain plays three parts: outside it runs itself again in a PID namespace of its own, inside it runs the tests, and with
// a first argument "plugin:MODE" it is the plugin of a test.
func TestMain(m *testing.M) {
	if mode, ok := strings.CutPrefix(firstArg(), "plugin:"); ok {
		playPlugin(mode)
		return
	}
	if firstArg() == "contain" {
		if err := hinder(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, jail.Enter())
		os.Exit(1)
	}
	if dir, ok := strings.CutPrefix(firstArg(), "host:"); ok {
		playHost(dir)
		return
	}
	if os.Getenv(insideEnv) == "" {
		if unshare := findUnshare(); unshare != nil {
			os.Exit(runInside(unshare))
		}
	}
	goleak.VerifyTestMain(m)
}

func firstArg() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[1]
}

// findUnshare returns the command that makes a PID namespace here, as root or in a user namespace; nil if there is none.
func findUnshare() []string {
	plain := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	for _, c := range [][]string{plain, append(slices.Clone(plain), "--user", "--map-root-user")} {
		if exec.Command(c[0], append(c[1:], "true")...).Run() == nil {
			return c
		}
	}
	return nil
}

func runInside(unshare []string) int {
	cmd := exec.Command(unshare[0], append(unshare[1:], os.Args...)...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// needProcesses skips tests that kill where there is no namespace for it.
func needProcesses(t testing.TB) {
	t.Helper()
	if os.Getenv(insideEnv) == "" {
		need.Part(t, "unshare", errors.New("no PID namespace can be made here"))
	}
}
