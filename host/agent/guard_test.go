package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/need"
)

// guarded is a room under the policy untrusted-content, as it ships, asked as a host does.
func guarded(t *testing.T, r *room, wasm string) *room {
	t.Helper()
	engine, err := policy.New(t.Context(), policy.Config{Sources: []policy.Source{{
		Name: "untrusted-content", Path: wasm, Kinds: []string{policy.KindTool}, Limits: policy.Limits{Wall: 10 * time.Second}, // a busy machine is no fault of it
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	r.on.generation = func() (*Generation, Policies) { return r.gen, engine.Pin() }
	return r
}

// TestNoShellWithoutAPersonAfterAPage is the whole way: what a tool has read, through labels, the frame and the module, to the question to a
// person, and again in another process.
func TestNoShellWithoutAPersonAfterAPage(t *testing.T) {
	need.Source(t)
	wasm := filepath.Join(t.TempDir(), "policy.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", wasm, "../../policies/untrusted-content")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the policy: %v\n%s", err, out)
	}
	shell := said{text: `shell.exec {"command":"true"}`, sandbox: "quiet"}
	r := guarded(t, newRoom(t, openStore(t), workspace(t)), wasm)
	r.say(shell)
	if got := r.decisions(); !slices.Equal(got, []string{"run_in_sandbox"}) {
		t.Fatalf("before the page the decisions are %q", got)
	}
	r.say(said{text: "page.read {}"})
	for name, at := range map[string]*room{"the same process": r, "another process": guarded(t, newRoom(t, r.store, r.host), wasm)} {
		at.events = nil
		var done sync.WaitGroup
		done.Go(func() { at.say(shell) })
		if err := at.approvals.Decide(t.Context(), <-at.asked, false, "web:owner"); err != nil {
			t.Error(err)
		}
		done.Wait()
		ran := slices.ContainsFunc(at.events, func(e message.Event) bool { return e.Kind == message.ToolResult && !e.IsError })
		if got := at.decisions(); !slices.Contains(got, "ask") || slices.Contains(got, "run_in_sandbox") || ran {
			t.Errorf("%s: the decisions are %q", name, got)
		}
	}
}
