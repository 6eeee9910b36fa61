package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// TestHistoryShowsARequestAtItsOwnCall: of an answer with three calls the second waits for a person. Nothing else may carry
// the request, or somebody approves one call in the belief that it is another.
func TestHistoryShowsARequestAtItsOwnCall(t *testing.T) {
	turn := turnlog.Turn{ID: "t1", State: turnlog.TurnRunning, Started: time.Now()}
	call := func(id, tool string, done bool) transcript.Piece {
		return transcript.Piece{Call: &transcript.ToolStart{Call: id, Tool: tool}, Done: done}
	}
	pieces := []transcript.Piece{call("a", "memory.read", true), call("b", "shell.exec", false), call("c", "memory.search", false)}
	waiting := []consent.Approval{
		{ID: "other", Turn: "t0", Tool: "shell.exec"},
		{ID: "r1", Turn: "t1", Tool: "shell.exec", Args: json.RawMessage(`{"command":"rm -r ."}`), Where: "host"},
	}
	var got []gateway.ToolCall
	for _, e := range entries(turn, pieces, waiting) {
		got = append(got, *e.Call)
	}
	if len(got) != 2 || got[0].Approval != "" {
		t.Fatalf("a call that has ended, and one that has not begun: %+v", got)
	}
	if b := got[1]; b.Approval != "r1" || b.Decision != "ask" || string(b.Args) != `{"command":"rm -r ."}` {
		t.Errorf("the call that waits: %+v", b)
	}
}

func TestStrandedRepliesAreReported(t *testing.T) {
	channels := map[string]config.Channel{"irc": {Enabled: true}, "off": {}}
	got := stranded(map[string]int{"irc": 1, "off": 2, "removed": 3, "web": 4}, channels)
	want := []string{"2 replies wait for the channel off, which is not configured.", "3 replies wait for the channel removed, which is not configured."}
	if !slices.Equal(got, want) {
		t.Fatalf("told %q, want %q", got, want)
	}
}

// The error for an answer that came too late does not quote the store.
func TestALateAnswerIsRefusedInWords(t *testing.T) {
	for _, cause := range []error{approval.ErrDecided, approval.ErrExpired} {
		err := answered(fmt.Errorf("decide request A: %w", cause))
		if !errors.Is(err, store.ErrConflict) || !errors.Is(err, cause) || strings.Contains(err.Error(), store.ErrConflict.Error()) {
			t.Errorf("%v is answered as %v", cause, err)
		}
	}
}
