package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

func TestForget(t *testing.T) {
	for _, c := range []struct {
		name, who, text string
		kind            message.Kind
		want            string
		left            int // notes
	}{
		{"one's own by its key", "bob", "/forget diet", message.DM, "Forgotten: 1 note.", 4},
		{"of a linked id", "bob", "/forget car", message.DM, "Forgotten: 1 note.", 4},
		{"all of one's own", "bob", "/forget all", message.DM, "Forgotten: 2 notes.", 3},
		{"all of one's own in a group", "bob", "/forget all", message.Group, "Forgotten: 2 notes.", 3},
		{"what is another's", "bob", "/forget pet", message.DM, "Nothing is remembered about you under that key", 5},
		{"what is everybody's", "ann", "/forget wifi", message.DM, "Nothing is remembered about you under that key", 5},
		{"a list", "bob", "/forget", message.DM, "- `car` (helper)\n- `diet` (helper)", 5},
		{"no list in a group", "bob", "/forget", message.Group, "in a private chat", 5},
		{"nothing to list", "eve", "/forget", message.DM, "Nothing is remembered about you.", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			for _, n := range []memory.Note{
				{Agent: "helper", Person: "irc:bob", Key: "diet", Text: "secret"}, {Agent: "helper", Person: "mail:bob", Key: "car", Text: "secret"},
				{Agent: "helper", Person: "irc:ann", Key: "pet", Text: "secret"}, {Agent: "coder", Person: "irc:ann", Key: "diet", Text: "secret"},
				{Agent: "helper", Key: "wifi", Text: "secret"},
			} {
				if err := h.store.WriteNote(t.Context(), n, 0); err != nil {
					t.Fatal(err)
				}
			}
			got := h.say("e1", c.who, c.text, c.kind)
			if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
				t.Errorf("says %q, want %q in it", got, c.want)
			}
			if left, err := h.store.SearchNotes(t.Context(), memory.NoteQuery{}); err != nil || len(left) != c.left {
				t.Errorf("%d notes are left, want %d (%v)", len(left), c.left, err)
			}
		})
	}
}

func TestCompact(t *testing.T) {
	for _, c := range []struct {
		name, who string
		kind      message.Kind
		want      string
	}{
		{"a guest in private", "bob", message.DM, "Compacted."},
		{"an owner in a group", "ann", message.Group, "Compacted."},
		{"a guest in a group", "bob", message.Group, "Only owners and members"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			if got := h.order("e1", c.who, "/compact", c.kind); !strings.Contains(got, c.want) {
				t.Errorf("says %q", got)
			}
			allowed := 0
			if c.want == "Compacted." {
				allowed = 1
			}
			_, err := h.store.LatestSummary(t.Context(), "irc:#busy:helper")
			if h.compacted != allowed || h.applied != allowed || (err == nil) != (allowed == 1) || err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("compacted %d, applied %d times, %v", h.compacted, h.applied, err)
			}
		})
	}
}
