package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// An undo asks first, does what its code stands for, and is only for those who may give orders in the conversation.
func TestUndo(t *testing.T) {
	plan := snapshot.Plan{Code: "1ABCDE", Turn: "t1", Restored: []string{"a", "b`\n<x>"}, Removed: []string{"d/"}, Changed: []string{"mine"}, Count: snapshot.Count{Restored: 2, Removed: 1, Changed: 1}}
	final := plan
	final.Final, final.Changed, final.Turn = "no room", nil, ""
	nothing := snapshot.Plan{Why: "the files are as they were"}
	for _, c := range []struct {
		name, who, text string
		kind            message.Kind
		plan            snapshot.Plan
		want            []string // parts of the answer
		buttons         int
		done            string
	}{
		{"a plan", "bob", "/undo", message.DM, plan, []string{"last answer", "Earlier content comes back (2): `a`, `b'\\n<x>`", "Removed (1): `d/`", "stay as they are (1): `mine`", "/undo yes 1ABCDE", "/undo overwrite 1ABCDE"}, 2, "irc:#other plan 1"},
		{"further back", "bob", "/undo 3", message.DM, plan, []string{"/undo yes 1ABCDE"}, 2, "irc:#other plan 3"},
		{"an undo for good", "bob", "/UNDO", message.DM, final, []string{"last undo", "cannot be taken back: no room"}, 1, "irc:#other plan 1"},
		{"nothing", "bob", "/undo", message.DM, nothing, []string{"nothing to undo: the files are as they were."}, 0, "irc:#other plan 1"},
		{"confirmed", "bob", "/undo yes 1ABCDE", message.DM, plan, []string{"Undone", "left as they are (1): `mine`", "takes it back"}, 0, "irc:#other undo 1ABCDE false by irc:bob"},
		{"confirmed twice", "bob", "/undo Overwrite 1ABCDE", message.DM, plan, []string{"undone, too (1): `mine`"}, 0, "irc:#other undo 1ABCDE true by irc:bob"},
		{"without a code", "bob", "/undo yes", message.DM, plan, []string{"shows what would be undone"}, 0, ""},
		{"another code", "bob", "/undo yes 1FFFFF", message.DM, plan, []string{"look again"}, 0, "irc:#other undo 1FFFFF false by irc:bob"},
		{"rude", "bob", "/undo ; rm -rf /", message.DM, plan, []string{"Write `/undo`"}, 0, ""},
		{"below one", "bob", "/undo -1", message.DM, plan, []string{"Write `/undo`"}, 0, ""},
		{"a guest in a group", "bob", "/undo yes 1ABCDE", message.Group, plan, []string{"Only owners and members"}, 0, ""},
		{"an owner in a group", "ann", "/undo yes 1ABCDE", message.Group, plan, []string{"Undone"}, 0, "irc:#other undo 1ABCDE false by irc:ann"},
		{"nobody any more", "mallory", "/undo yes 1ABCDE", message.DM, plan, nil, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.plan = c.plan
			row, _, err := h.store.AppendInbox(t.Context(), message.Message{
				Channel: "irc", EventID: "e", Conversation: message.Conversation{ID: "#other", Kind: c.kind}, Sender: message.Sender{ID: c.who}, Text: c.text,
			}, mailbox.InboxNew, "")
			if err != nil {
				t.Fatal(err)
			}
			h.service.Work(t.Context(), "", []mailbox.InboxRow{row})
			if c.want == nil {
				if len(h.replied) > 0 || len(h.undos) > 0 {
					t.Errorf("%v, %q", h.replied, h.undos)
				}
				return
			}
			got := h.replied[0]
			for _, part := range c.want {
				if !strings.Contains(got.Text, part) {
					t.Errorf("%q is not in %q", part, got.Text)
				}
			}
			if len(got.Buttons) != c.buttons {
				t.Errorf("buttons %+v", got.Buttons)
			}
			for _, b := range got.Buttons {
				if again, ok := Parse(b.Value); !ok || again.Name != "undo" || !strings.Contains(again.Arg, c.plan.Code) {
					t.Errorf("button %q", b.Value)
				}
			}
			want := []string{c.done}
			if c.done == "" {
				want = nil
			}
			if !slices.Equal(h.undos, want) {
				t.Errorf("done %q, want %q", h.undos, want)
			}
		})
	}
	h := newHouse(t)
	if got := h.say("e1", "ann", "/undo", message.DM); got != "An answer is being written here." {
		t.Errorf("while a turn runs: %q", got)
	}
	h.plan.Restored, h.plan.Count.Restored = strings.Split(strings.Repeat("x ", 200), " "), 5000
	if text, _ := question(h.plan); len(text) > 1000 || !strings.Contains(text, fmt.Sprint(5000-maxFiles, " more")) {
		t.Errorf("a long list: %q", text)
	}
}
