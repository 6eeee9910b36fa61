package notice

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func TestButtonsOfARequest(t *testing.T) {
	a := consent.Approval{ID: "ABC", Args: []byte(`{}`)}
	for _, c := range []struct {
		offer approval.Offer
		want  []string
	}{
		{approval.Offer{}, []string{"/approve ABC", "/deny ABC"}},
		{approval.Offer{Session: true}, []string{"/approve ABC", "/approve ABC session", "/deny ABC"}},
		{approval.Offer{Session: true, Standing: true}, []string{"/approve ABC", "/approve ABC session", "/approve ABC always", "/deny ABC"}},
	} {
		var got []string
		for _, b := range answers(a, c.offer) {
			got = append(got, b.Value)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.offer, got, c.want)
		}
	}
}

func TestAnAnsweredRequestLosesItsButtonsWhereverItIsShown(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := slog.New(slog.DiscardHandler)
	n := New(Config{Store: s, Log: log, Outbox: channel.NewOutbox(channel.OutboxConfig{Store: s, Log: log})})
	turn := turnlog.Turn{ID: "t1", Channel: "irc", Conversation: message.Conversation{ID: "#x", Kind: message.Group}}
	a := consent.Approval{ID: "ABC", Turn: "t1", Args: []byte(`{}`), State: consent.ApprovalPending, Expires: time.Now().Add(time.Minute)}
	shown := requests([]string{"telegram:5"}, turn, "1", a, approval.Offer{})
	if len(shown) != 2 {
		t.Fatalf("%d messages show it, want 2", len(shown))
	}
	if _, err := s.AddReplies(t.Context(), "t1", append(shown, message.Reply{Key: "t1/0", Channel: "irc", Text: "Wait."})); err != nil {
		t.Fatal(err)
	}
	amended := func() (keys []string) {
		t.Helper()
		rows, err := s.Replies(t.Context(), "t1")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Reply.Amends != "" {
				keys = append(keys, r.Reply.Amends)
			}
		}
		return keys
	}
	if err := n.settle(t.Context(), a); err != nil || len(amended()) != 0 {
		t.Errorf("while it waits: %v, %q", err, amended())
	}
	for _, a.State = range []consent.ApprovalState{consent.ApprovalGranted, consent.ApprovalConsumed} { // the second says nothing new
		a.Decider = "irc:ann"
		if err := n.settle(t.Context(), a); err != nil {
			t.Error(err)
		}
		if got := amended(); !slices.Equal(got, []string{"t1/ask/ABC", "t1/ask/ABC/telegram:5"}) {
			t.Errorf("%s: amended %q", a.State, got)
		}
	}
}
