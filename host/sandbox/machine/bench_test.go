package machine_test

import (
	"os/exec"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// BenchmarkExec compares a command through the machine with a bare fork and exec of the same shell.
func BenchmarkExec(b *testing.B) {
	h, err := machine.NewHost(machine.HostConfig{Workspace: b.TempDir(), Homes: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	b.Run("machine", func(b *testing.B) {
		for b.Loop() {
			if _, err := h.Exec(b.Context(), machine.Command{Script: ":"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/sh", "-c", ":").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
