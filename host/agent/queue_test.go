package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func interrupting(h *house) { h.gen.Queue = QueueInterrupt }

func TestQueueModes(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Generation)
		replies []string
	}{
		{"collect", func(*Generation) {}, []string{"echo: one", "echo: two\nthree"}},
		{"followup", func(g *Generation) { g.Queue = QueueFollowup }, []string{"echo: one", "echo: two", "echo: three"}},
		{"of the channel", func(g *Generation) { g.Queues = map[string]string{"irc": QueueFollowup} }, []string{"echo: one", "echo: two", "echo: three"}},
		{"of another channel", func(g *Generation) { g.Queues = map[string]string{"slack": QueueFollowup} }, []string{"echo: one", "echo: two\nthree"}},
		{"of the agent", func(g *Generation) {
			g.Queue, g.Queues, g.Agents["helper"].Queue = QueueInterrupt, map[string]string{"irc": QueueFollowup}, QueueCollect
		}, []string{"echo: one", "echo: two\nthree"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newHall(t, func(h *house) { c.change(h.gen) })
			r.say("irc", "ann", "ann", "one")
			r.wantAsked("one")
			r.say("irc", "ann", "ann", "two")
			r.say("irc", "ann", "ann", "three")
			for range c.replies {
				r.leave <- struct{}{}
			}
			r.wantReplies(c.replies...)
			r.nothingLeft()
		})
	}
}

// TestInterrupt stops a turn in its model call; what it was to answer is answered together with the later message.
func TestInterrupt(t *testing.T) {
	r := newHall(t, interrupting)
	r.say("irc", "ann", "ann", "one")
	r.wantAsked("one")
	r.say("irc", "ann", "ann", "two")
	r.wantAsked("one\ntwo")
	r.say("irc", "ann", "ann", "three")
	r.wantAsked("one\ntwo\nthree")
	r.leave <- struct{}{}
	r.wantReplies("echo: one\ntwo\nthree")
	r.nothingLeft()
}

// TestInterruptEndsACall: the tool is ended, its call gets a result, and the next turn is shown both.
func TestInterruptEndsACall(t *testing.T) {
	r := newHall(t, interrupting)
	touching := make(chan struct{})
	r.touch.during = func(ctx context.Context) { close(touching); <-ctx.Done() }
	r.say("irc", "ann", "ann", "!touch wood")
	r.wantAsked("!touch wood")
	r.leave <- struct{}{}
	<-touching
	r.say("irc", "ann", "ann", "no, stop")
	r.wantAsked("!touch wood\nno, stop") // no command of the parrot's any more
	r.leave <- struct{}{}
	r.asked() // the parrot reads "!touch wood\nno, stop" as one command
	r.leave <- struct{}{}
	r.nothingLeft()
	steps, err := r.store.Transcript(t.Context(), "irc:ann:helper", 10)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, s := range steps {
		if s.Turn == steps[0].Turn {
			kinds = append(kinds, string(s.Kind))
		}
	}
	if !slices.Equal(kinds, []string{"user", "model", "tool_start", "tool_result"}) || !strings.Contains(string(steps[3].Data), "was canceled") {
		t.Errorf("the turn that was stopped has the steps %q: %s", kinds, steps[3].Data)
	}
	turns, err := r.store.History(t.Context(), "irc", "ann", 10)
	if err != nil || len(turns) != 2 || turns[0].State != turnlog.TurnStopped || len(turns[0].Inbox) != 0 || len(turns[1].Inbox) != 2 {
		t.Fatalf("turns are %+v, %v", turns, err)
	}
	pieces, err := transcript.Describe(turns[0], steps[:4], "")
	if err != nil || pieces[0].Said || pieces[len(pieces)-1].Text != "This answer was interrupted by a later message." {
		t.Errorf("it is told as %+v, %v", pieces, err)
	}
	if len(r.answered(1)) != 1 {
		t.Errorf("replies are %q, want one", r.texts())
	}
}

// TestWhoDoesNotInterrupt: others, and one's own message behind theirs. Each is answered in its turn, and nothing goes round in circles.
func TestWhoDoesNotInterrupt(t *testing.T) {
	r := newHall(t, interrupting)
	r.say("irc", "#f", "ann", "one")
	r.asked()
	r.say("irc", "#f", "bob", "two")
	r.say("irc", "#f", "ann", "three")
	for range 3 {
		r.leave <- struct{}{}
	}
	r.wantReplies("echo: <ann> one", "echo: <bob> two", "echo: <ann> three")
	r.nothingLeft()
}

// TestAnInterruptionThatCannotBeJoinedHappensOnce: the later message is for another agent, so that stopping does not bring them together.
func TestAnInterruptionThatCannotBeJoinedHappensOnce(t *testing.T) {
	r := newHall(t, func(h *house) {
		interrupting(h)
		h.chain.route = func(f policy.RouteFacts) policy.RouteAnswer {
			return policy.RouteAnswer{Decided: strings.HasPrefix(f.Message.Text, "other:"), Agent: "other"}
		}
	})
	r.say("irc", "ann", "ann", "one")
	r.wantAsked("one")
	r.say("irc", "ann", "ann", "other: two")
	r.wantAsked("one")
	r.leave <- struct{}{}
	r.wantAsked("other: two")
	r.leave <- struct{}{}
	r.wantReplies("echo: one", "echo: other: two")
	r.nothingLeft()
}

// TestInterruptOverACrash: the process ends after the later message was taken over, with the turn running, or right after the turn was
// released. The next process answers both, once.
func TestInterruptOverACrash(t *testing.T) {
	t.Run("while the turn runs", func(t *testing.T) {
		s := openStore(t)
		h := newHouse(t, s, nil)
		interrupting(h)
		r, kill := open(t, s, h, nil, "")
		touching := make(chan struct{})
		h.touch.during = func(ctx context.Context) { close(touching); <-ctx.Done() }
		r.say("irc", "ann", "ann", "!touch wood")
		r.asked()
		r.leave <- struct{}{}
		<-touching // its turn is in the store
		kill()
		if _, _, err := s.AppendInbox(t.Context(), message.Message{
			Channel: "irc", EventID: "later", Text: "two", Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "ann", Kind: message.DM},
		}, mailbox.InboxNew, ""); err != nil {
			t.Fatal(err)
		}
		h = newHouse(t, s, nil)
		interrupting(h)
		r, _ = open(t, s, h, nil, "")
		for r.asked() != "!touch wood\ntwo" {
		}
		r.leave <- struct{}{}
		r.asked()
		r.leave <- struct{}{}
		r.answered(1)
		r.nothingLeft()
		if len(r.answered(1)) != 1 {
			t.Errorf("replies are %q, want one", r.texts())
		}
	})
	t.Run("after the turn was released", func(t *testing.T) {
		s := openStore(t)
		h := newHouse(t, s, nil)
		interrupting(h)
		r, kill := open(t, s, h, nil, "")
		r.say("irc", "ann", "ann", "one")
		r.asked()
		r.say("irc", "ann", "ann", "two")
		r.wantAsked("one\ntwo")
		kill()
		h = newHouse(t, s, nil)
		interrupting(h)
		r, _ = open(t, s, h, nil, "")
		r.wantAsked("one\ntwo")
		r.leave <- struct{}{}
		r.wantReplies("echo: one\ntwo")
		r.nothingLeft()
	})
}

// TestQuestionsOfAProgramAreNotJoined leaves two questions in one conversation, as a crash does: each has an answer of its own.
func TestQuestionsOfAProgramAreNotJoined(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.gen.Roles = route.NewRoles(config.Access{Owners: []string{"openai:editor"}}, route.AllProved)
	for _, text := range []string{"question-A", "question-B"} {
		_, _, err := h.store.AppendInbox(t.Context(), message.Message{
			Channel: "openai", EventID: text, Text: text, Sender: message.Sender{ID: "editor"}, Agent: "helper",
			Conversation: message.Conversation{ID: "editor/k1", Kind: message.DM},
		}, mailbox.InboxNew, "")
		if err != nil {
			t.Fatal(err)
		}
	}
	h.work(t.Context())
	h.want("echo: question-A", "echo: question-B")
}

// TestWhoWaitsBehindARequestHearsOfIt puts messages and orders behind a call that waits for an approval: each conversation hears of it once.
func TestWhoWaitsBehindARequestHearsOfIt(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.chain.tool = func(policy.ToolFacts) policy.Restrictions { return policy.Restrictions{Ask: true} }
	item := func(conversation, text string, order bool) Item {
		return Item{Order: order, Row: mailbox.InboxRow{Message: message.Message{
			Channel: "irc", Text: text, Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: conversation, Kind: message.DM},
		}}}
	}
	var mu sync.Mutex
	waiting := []Item{item("ann", "before the question", false)}
	h.on.waiting = func(string) []Item { mu.Lock(); defer mu.Unlock(); return slices.Clone(waiting) }
	var told []string
	heard := make(chan struct{}, 10)
	h.on.behind = func(_ turnlog.Turn, m message.Message, a consent.Approval) {
		told = append(told, string(m.ConversationKey())+" "+m.Text+" "+a.Tool)
		heard <- struct{}{}
	}
	h.accept("ann", "!touch wood")
	var done sync.WaitGroup
	done.Go(func() { h.work(t.Context()) })
	id := <-h.asked
	<-heard
	for _, it := range []Item{item("ann", "again", false), item("other", "/new", true), item("other", "/delete yes", true), {Alone: func() {}}} {
		mu.Lock()
		waiting = append(waiting, it)
		mu.Unlock()
		h.runner.Arrived("irc:ann")
	}
	if want := []string{"irc:ann before the question thing.touch", "irc:other /new thing.touch"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if err := h.approvals.Decide(t.Context(), id, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	h.runner.Arrived("irc:ann")
	if len(told) != 2 {
		t.Errorf("told after the answer: %q", told)
	}
}
