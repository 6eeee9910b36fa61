package tool

import (
	"testing"

	"github.com/flynnhost/flynn/host/model"
)

// BenchmarkEnforce is the cost of a decision without the policies' own.
func BenchmarkEnforce(b *testing.B) {
	e := newEnforcer(b, nil)
	s := channelSubject()
	s.Sandbox.Configured = true
	call := model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}
	for b.Loop() {
		if v := e.enforce(b.Context(), s, call); v.Action != Run {
			b.Fatal(v.Refusal)
		}
	}
}
