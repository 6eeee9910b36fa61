package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

func TestDelete(t *testing.T) {
	both := []message.SessionKey{"irc:#busy:coder#2", "irc:#busy:helper"}
	for _, c := range []struct {
		name, who, text string
		kind            message.Kind
		empty, busy     bool
		want            string
		deleted         []message.SessionKey
	}{
		{name: "it asks first", who: "bob", text: "/delete", kind: message.DM, want: "(2 answers) for good"},
		{name: "another word is no yes", who: "bob", text: "/delete everything", kind: message.DM, want: "Write `/delete yes`"},
		{name: "one's own", who: "bob", text: "/delete yes", kind: message.DM, want: "Deleted: 2 answers", deleted: both},
		{name: "a guest in a group", who: "bob", text: "/delete yes", kind: message.Group, want: "Only an owner"},
		{name: "an owner in a group", who: "ann", text: "/delete yes", kind: message.Group, want: "Deleted: 2 answers", deleted: both},
		{name: "nothing", who: "bob", text: "/delete yes", kind: message.DM, empty: true, want: "Nothing is stored"},
		{name: "something still runs", who: "bob", text: "/delete yes", kind: message.DM, busy: true, want: "`/stop` ends it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.busy = c.busy
			there := append(slices.Clone(both), "irc:#busy:x:helper")
			if c.empty {
				there = there[2:]
			}
			for i, key := range there {
				tn := turnlog.Turn{ID: fmt.Sprint("t", i), Session: key, Agent: "helper", State: turnlog.TurnDone}
				if err := h.store.CommitTurn(t.Context(), turnlog.Commit{Turn: tn}); err != nil {
					t.Fatal(err)
				}
			}
			got := h.order("e1", c.who, c.text, c.kind)
			if !strings.Contains(got, c.want) {
				t.Errorf("says %q, want %q in it", got, c.want)
			}
			asks := strings.Contains(c.want, "for good") || strings.Contains(c.want, "Write")
			if buttons := h.replied[len(h.replied)-1].Buttons; asks != (len(buttons) == 1 && buttons[0].Value == "/delete yes") {
				t.Errorf("the buttons are %+v", buttons)
			}
			left, err := h.store.Sessions(t.Context(), 10)
			if err != nil || len(left) != len(there)-len(c.deleted) || !slices.Equal(h.deleted, c.deleted) {
				t.Errorf("%d sessions are left, deleted %q (%v)", len(left), h.deleted, err)
			}
			if p := h.scope(); len(c.deleted) > 0 && (p.Epoch != 2 || time.Since(p.Began) > time.Minute) {
				t.Errorf("the scope is %+v", p)
			}
		})
	}
}
