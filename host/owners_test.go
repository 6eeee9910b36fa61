package host

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// TestOwnersByAGlobAreTold where they have spoken: of strangers, and of requests for approval that nobody else is named for.
func TestOwnersByAGlobAreTold(t *testing.T) {
	h := pairingHost(t)
	for i, v := range []struct{ sender, channel, where string }{
		{"tg:ann", "tg", "d-ann"}, {"tg:alf", "tg", "d-alf"}, {"tg:bob", "tg", "d-bob"}, {"irc:amy", "irc", "amy"}, {"tg:abe", "tg", "d-abe"},
	} {
		turn := turnlog.Turn{
			ID: store.NewID(time.Now()) + strconv.Itoa(i), Session: "s", Agent: "a", Channel: v.channel, Sender: message.SenderKey(v.sender), State: turnlog.TurnDone,
			Conversation: message.Conversation{ID: v.where, Kind: message.DM},
		}
		if err := h.store.CommitTurn(t.Context(), turnlog.Commit{Turn: turn}); err != nil {
			t.Fatal(err)
		}
	}
	use := func(change func(*config.Config)) {
		next := *h.current.Load().Config
		change(&next)
		g, err := h.current.Make(&next)
		if err != nil {
			t.Fatal(err)
		}
		h.current.Store(g)
	}
	use(func(c *config.Config) {
		c.Access.Owners, c.Access.Blocked, c.Approvals.Conversations = []string{"tg:a*", "irc:amy"}, []string{"tg:abe"}, nil
	})
	both := []string{"d-alf", "d-ann"} // the channel irc is not in use
	say(t, h, "knock", mailbox.InboxDropped)
	if got := toldIn(t, h); !slices.Equal(got, append([]string{"eve"}, both...)) {
		t.Errorf("of a stranger are told %q", got)
	}
	for _, c := range []struct {
		name, requester, where string
		change                 func(*config.Config)
		want                   []string
	}{
		{"of a guest's request", "tg:eve", "eve", func(*config.Config) {}, append([]string{"eve"}, both...)},
		{"of one that comes from an owner's chat", "tg:ann", "d-ann", func(*config.Config) {}, []string{"d-ann", "d-alf"}},
		{"of one that its requester may answer", "tg:ann", "d-ann", func(c *config.Config) { c.Approvals.Self = true }, []string{"d-ann"}},
		{"of one that others are named for", "tg:eve", "eve", func(c *config.Config) { c.Approvals.Conversations = []string{"tg:ops"} }, []string{"eve", "ops"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			use(c.change)
			before := len(toldIn(t, h))
			a := consent.Approval{ID: c.name, Turn: c.name, Requester: message.SenderKey(c.requester), Args: []byte(`{}`), State: consent.ApprovalPending, Expires: time.Now().Add(time.Hour)}
			turn := turnlog.Turn{ID: c.name, Channel: "tg", Conversation: message.Conversation{ID: c.where, Kind: message.DM}, Sender: message.SenderKey(c.requester)}
			for range 2 { // as when the turn is resumed
				h.notices.Asked(t.Context(), turn, "", a)
			}
			if got := toldIn(t, h)[before:]; !slices.Equal(got, c.want) {
				t.Errorf("told in %q, want %q", got, c.want)
			}
		})
	}
}

// toldIn are the conversations of the replies that wait.
func toldIn(t *testing.T, h *Host) (where []string) {
	t.Helper()
	rows, err := h.store.UnsentOutbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		where = append(where, r.Reply.Conversation.ID)
	}
	return where
}
