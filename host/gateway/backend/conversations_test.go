package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// TestConversationPages reads a list that is longer than what is read at a time: each conversation of this machine is there once, latest
// first, with the turns of all its sessions, and those of programs and of channels apart.
func TestConversationPages(t *testing.T) {
	k := newTalk(t)
	begin := time.Now().Add(-time.Hour)
	var list []turnlog.WholeSession
	put := func(scope string, epoch, turns, at int) {
		key := message.Session{Scope: scope, Agent: "main", Epoch: epoch}.Key()
		s := turnlog.Session{Key: key, Agent: "main", Turns: turns, Last: begin.Add(time.Duration(at) * time.Millisecond)}
		list = append(list, turnlog.WholeSession{Session: s})
	}
	var want []string
	for i := range 1200 {
		put(fmt.Sprint("web:c", i), 1, 2, 1000*i)
		put(fmt.Sprint("tg:c", i), 1, 2, 1000*i)
		want = append(want, fmt.Sprint("c", i))
	}
	put("web:c0", 2, 3, 600_500) // its latest session is newer than its first one
	put("openai:editor/one", 1, 2, 2_000_000)
	want = slices.Insert(slices.Delete(want, 0, 1), 600, "c0")
	slices.Reverse(want)
	if err := k.store.PutSessions(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for f := (gateway.ConversationFilter{From: gateway.FromPeople, Limit: 70}); ; {
		page, err := k.Conversations.Conversations(t.Context(), f)
		if err != nil || len(page.Items) > f.Limit {
			t.Fatal(len(page.Items), err)
		}
		for _, c := range page.Items {
			got = append(got, c.ID)
			if turns := map[bool]int{true: 5, false: 2}[c.ID == "c0"]; c.Channel != "web" || c.Turns != turns {
				t.Errorf("%+v, want %d turns", c, turns)
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	if one, err := k.Conversations.Conversation(t.Context(), "web", "c0"); err != nil || one.Turns != 5 || !one.Last.Equal(begin.Add(600_500*time.Millisecond)) {
		t.Errorf("by itself: %+v, %v", one, err)
	}
	for _, none := range []struct{ channel, id string }{{"web", "c"}, {"web", "c0:main"}, {"web", ""}, {"tg", "c0"}, {"no", "c0"}} {
		if one, err := k.Conversations.Conversation(t.Context(), none.channel, none.id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v is %+v, %v", none, one, err)
		}
	}
	if !slices.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Errorf("%d conversations, want %d; they differ from place %d on", len(got), len(want), at)
	}
	page, err := k.Conversations.Conversations(t.Context(), gateway.ConversationFilter{From: gateway.FromPrograms, Limit: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].Channel != "openai" || !page.Items[0].Program || page.Next != "" {
		t.Errorf("those of programs: %+v, %v", page, err)
	}
}
