package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// TestACallIsJudgedAsItIsDecided compares judgements with what becomes of the same call, before and after somebody has allowed it for
// the session.
func TestACallIsJudgedAsItIsDecided(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = \"127.0.0.1:0\"\n[models.default]\nprovider = \"demo\"\n[routing]\ndefault_agent = \"a\"\n"+
		"[agent_configs.a]\ntool_profile = \"coding\"\n", dir+"/s")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	run(t, h) // what comes before it is ready is taken for what an earlier process left, and queued twice
	ctx, b := t.Context(), h.backend()
	judge := func() gateway.DryRunResult {
		t.Helper()
		j, err := b.DryRuns.DryRun(ctx, gateway.DryRunCall{
			Tool: "shell.exec", Agent: "a", Args: json.RawMessage(`{ "command": "touch made" }`), Channel: "web", Sender: "owner", Conversation: "main",
			Kind: message.DM,
		})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	judged := judge()
	if judged.Labels == nil || judged.Reasons == nil || judged.Policies == nil {
		t.Errorf("a list of %+v is null", judged)
	}
	if judged.Action != "ask" || judged.Lease != nil || string(judged.Args) != `{"command":"touch made"}` {
		t.Errorf("judged %+v", judged)
	}
	if err := b.Conversations.Submit(ctx, message.Message{
		Channel: "web", EventID: "e1", Text: "!sh touch made", Sender: message.Sender{ID: "owner"}, Addressed: true,
		Conversation: message.Conversation{ID: "main", Kind: message.DM},
	}); err != nil {
		t.Fatal(err)
	}
	var asked []consent.Approval
	eventually(t, "a person is asked", func() bool {
		asked, err = b.Approvals.Approvals(ctx)
		return err != nil || len(asked) > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked[0].Session != judged.Session || !slices.Equal(asked[0].Reasons, judged.Reasons) {
		t.Errorf("judged %+v, asked %+v", judged, asked[0])
	}
	if err := b.Approvals.Grant(ctx, asked[0].ID, string(consent.GrantSession), 0, "", "web:owner"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the turn is done", func() bool {
		trace, err := b.Explains.Explain(ctx, "message/1")
		return err == nil && trace.State == "done"
	})
	before := kept(t, h)
	if j := judge(); j.Action != "ask" || j.Lease == nil || j.Lease.ID != asked[0].ID || j.Lease.Scope != consent.GrantSession {
		t.Errorf("judged %+v, lease %+v", j, j.Lease)
	}
	if after := kept(t, h); after != before {
		t.Errorf("a judgement leaves\n%s\nwhere there was\n%s", after, before)
	}
	if err := h.approvals.Revoke(ctx, asked[0].ID, "web:owner"); err != nil {
		t.Fatal(err)
	}
	if j := judge(); j.Lease != nil {
		t.Errorf("judged by a lease that has ended: %+v", j.Lease)
	}
	if err := h.kill.Set(ctx, true, "a test", "web:owner"); err != nil {
		t.Fatal(err)
	}
	if j := judge(); j.Action != "deny" || !strings.Contains(j.Refusal, "all tools are stopped") {
		t.Errorf("judged %+v while everything is halted", j)
	}
	if _, err := b.DryRuns.DryRun(ctx, gateway.DryRunCall{Tool: "x", Agent: "none", Args: json.RawMessage("{}"), Channel: "web"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an agent that is not there: %v", err)
	}
}

// kept is what a judgement must not add to.
func kept(t *testing.T, h *Host) string {
	t.Helper()
	decisions, err := h.store.ListDecisions(t.Context(), journal.DecisionFilter{})
	audit, err2 := h.store.ListAudit(t.Context(), consent.AuditFilter{})
	grants, err3 := h.store.ListGrants(t.Context(), 100)
	turns, err4 := h.store.History(t.Context(), "web", "main", 100)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d decisions, %d audit rows, %d turns, grants %+v", len(decisions), len(audit), len(turns), grants)
}
