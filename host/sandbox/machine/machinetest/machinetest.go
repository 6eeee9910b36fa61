// Package machinetest is the test suite for every machine.Machine: to a tool, the host and a sandbox must look the same.
//
// Call Run from a test of the implementation. On the host the suite kills process groups, so such a test begins with Isolate.
package machinetest

import (
	"context"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
)

// Isolate runs the calling test again in its own PID namespace and reports whether this is that run; see isolate.Test.
func Isolate(t *testing.T) bool {
	t.Helper()
	return isolate.Test(t)
}

// patience bounds everything that should be fast; only failing tests reach it.
const patience = 30 * time.Second

// Run tests the machines that open returns. Each must have an empty workspace, /bin/sh and the usual small programs. open closes its
// machine with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) machine.Machine) {
	t.Run("exec", func(t *testing.T) { testExec(t, open(t)) })
	t.Run("exec refusals", func(t *testing.T) { testExecRefusals(t, open(t)) })
	t.Run("output caps", func(t *testing.T) { testCaps(t, open(t)) })
	t.Run("progress", func(t *testing.T) { testProgress(t, open(t)) })
	t.Run("ending", func(t *testing.T) { testEnding(t, open(t)) })
	t.Run("parallel", func(t *testing.T) { testParallel(t, open(t)) })
	Files(t, open)
	t.Run("processes", func(t *testing.T) { testProcesses(t, open(t)) })
	t.Run("process kill", func(t *testing.T) { testProcessKill(t, open(t)) })
	t.Run("process output", func(t *testing.T) { testProcessOutput(t, open(t)) })
}

// Files runs the tests about files only.
func Files(t *testing.T, open func(t *testing.T) machine.Machine) {
	FilesAtRest(t, open)
	t.Run("file races", func(t *testing.T) { testFileRaces(t, open(t)) })
}

// FilesAtRest runs the tests in which no command changes files meanwhile.
func FilesAtRest(t *testing.T, open func(t *testing.T) machine.Machine) {
	t.Run("files", func(t *testing.T) { testFiles(t, open(t)) })
	t.Run("file refusals", func(t *testing.T) { testFileRefusals(t, open(t)) })
	t.Run("file modes", func(t *testing.T) { testFileModes(t, open(t)) })
	t.Run("links to files", func(t *testing.T) { testFileLinks(t, open(t)) })
	t.Run("special files", func(t *testing.T) { testSpecialFiles(t, open(t)) })
	t.Run("big file", func(t *testing.T) { testBigFile(t, open(t)) })
	t.Run("list", func(t *testing.T) { testList(t, open(t)) })
}

// execute runs a command that must not return an error.
func execute(t *testing.T, m machine.Machine, cmd machine.Command) machine.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := m.Exec(ctx, cmd)
	if err != nil {
		t.Fatalf("exec %q: %v", cmd.Script, err)
	}
	return r
}

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-time.After(5 * time.Millisecond)
	}
}
