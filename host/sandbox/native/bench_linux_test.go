package native_test

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// BenchmarkNative compares the first command of a session without a pool, and a further one, with a process of the host.
func BenchmarkNative(b *testing.B) {
	m := manager(b)
	command := machine.Command{Script: "true"}
	b.Run("first", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			session := message.WorkspaceKey(fmt.Sprintf("web:first-%d", i))
			s, err := m.Get(b.Context(), session, "default", small)
			if err == nil {
				_, err = s.Exec(b.Context(), command)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := m.Destroy(context.Background(), session); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("warm", func(b *testing.B) {
		s, err := m.Get(b.Context(), "web:warm", "default", small)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := s.Exec(b.Context(), command); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("host", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
