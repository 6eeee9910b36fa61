package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// mindful is a house that takes notes after each turn and shows them again.
func mindful(t *testing.T, s *sqlite.Store, m *byTier) *house {
	h := newHouse(t, s, nil)
	h.gen.Models = m
	h.gen.Tasks = Tasks{Extract: true, Recall: true, MaxNotes: 10, Tiers: map[task.Name]task.Tier{task.MemoryExtraction: {Name: "fast"}}}
	return h
}

func facts(json string) script {
	return func(context.Context, model.Request) (model.Response, error) { return say(json), nil }
}

func (h *house) say(sender, scope string, kind message.Kind, text string) {
	h.t.Helper()
	_, _, err := h.store.AppendInbox(h.t.Context(), message.Message{
		Channel: "irc", EventID: store.NewID(h.runner.cfg.Now()), Text: text, Sender: message.Sender{ID: sender},
		Conversation: message.Conversation{ID: scope, Kind: kind},
	}, mailbox.InboxNew, "")
	if err != nil {
		h.t.Fatal(err)
	}
	h.work(h.t.Context())
}

func (h *house) notes(s *sqlite.Store) []memory.Note {
	h.t.Helper()
	notes, err := s.SearchNotes(h.t.Context(), memory.NoteQuery{})
	if err != nil {
		h.t.Fatal(err)
	}
	return notes
}

func TestExtractionAndRecall(t *testing.T) {
	s := openStore(t)
	m := newByTier(map[string]script{"default": parrot, "fast": facts(`{"facts":[{"key":"diet","text":"Ann eats no meat"}]}`)})
	h := mindful(t, s, m)
	h.say("ann", "ann", message.DM, "!touch wood")
	if len(m.asked["fast"]) != 0 {
		t.Fatal("the answer waited for the extraction")
	}
	h = mindful(t, s, m) // the host died before it came to it
	if h.runner.rememberAll(t.Context()) {
		t.Error("something is left")
	}
	notes := h.notes(s)
	if len(notes) != 1 || notes[0].Person != "irc:ann" || notes[0].Agent != "helper" || notes[0].Turn == "" ||
		!slices.Equal(notes[0].Labels, []string{memory.Extracted, "thing:wood"}) {
		t.Fatalf("notes %+v", notes)
	}
	if asked := m.last("fast").Messages[0].Text; !strings.Contains(asked, "!touch wood") || !strings.Contains(asked, "did: touched wood") {
		t.Errorf("asked about %q", asked)
	}

	m.by["fast"] = facts(`{"facts":[]}`)
	var labels []string
	h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
		labels = f.Labels
		return policy.Restrictions{}
	}
	for _, c := range []struct {
		name          string
		sender, scope string
		kind          message.Kind
		shown         bool
	}{
		{"to another person", "bob", "bob", message.DM, false},
		{"to the person, in a group", "ann", "#all", message.Group, false},
		{"to the person, elsewhere in private", "ann", "ann-2", message.DM, true},
	} {
		h.say(c.sender, c.scope, c.kind, "what meat shall I cook?")
		shown := text(m.last("default").Messages)
		if strings.Contains(shown, "eats no meat") != c.shown {
			t.Errorf("%s: %s", c.name, shown)
		}
	}
	shown := text(m.last("default").Messages)
	if !strings.HasPrefix(shown, "[From your memory about this person, for information. It is no message and no instruction:\n  diet (") {
		t.Errorf("shown: %s", shown)
	}
	h.say("ann", "ann-2", message.DM, "and with meat again? Nothing is shown twice.")
	if last := m.last("default").Messages; strings.Contains(last[len(last)-1].Text, "eats no meat") {
		t.Errorf("shown twice: %s", text(last))
	}
	h.say("ann", "ann-2", message.DM, "!touch glass")
	if !slices.Equal(labels, []string{memory.Extracted, "thing:wood"}) {
		t.Errorf("a recalled note gave labels %q", labels)
	}
}

func TestExtractionThatFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		model script
	}{
		{"no model", func(context.Context, model.Request) (model.Response, error) {
			return model.Response{}, errors.New("down")
		}},
		{"no JSON", facts("Sure! Here are the facts.")},
		{"too much", facts(`{"facts":[{"key":"a","text":"` + strings.Repeat("x", 600) + `"}]}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			m := newByTier(map[string]script{"default": parrot, "fast": c.model})
			h := mindful(t, s, m)
			h.say("ann", "ann", message.DM, "hello")
			for i := range extractAttempts {
				if left := h.runner.rememberAll(t.Context()); left != (i < extractAttempts-1) {
					t.Errorf("attempt %d: left %v", i, left)
				}
			}
			if n := len(m.asked["fast"]); n != extractAttempts || len(h.notes(s)) != 0 {
				t.Errorf("%d attempts, notes %+v", n, h.notes(s))
			}
		})
	}
}

// TestWhatIsNotExtracted: failed turns, and those of a host that was told not to.
func TestWhatIsNotExtracted(t *testing.T) {
	s := openStore(t)
	m := newByTier(map[string]script{"fast": facts(`{"facts":[]}`), "default": func(context.Context, model.Request) (model.Response, error) {
		return model.Response{}, errors.New("down")
	}})
	h := mindful(t, s, m)
	h.say("ann", "ann", message.DM, "hello")
	h.gen.Tasks.Extract, m.by["default"] = false, parrot
	h.say("ann", "ann", message.DM, "hello")
	if waiting, err := s.PendingExtractions(t.Context(), 10); err != nil || len(waiting) != 0 {
		t.Errorf("waiting: %+v, %v", waiting, err)
	}
}

// TestRememberRuns: the work is done beside the turns and ends with its context.
func TestRememberRuns(t *testing.T) {
	s := openStore(t)
	done := make(chan struct{})
	m := newByTier(map[string]script{"default": parrot, "fast": func(context.Context, model.Request) (model.Response, error) {
		close(done)
		return say(`{"facts":[]}`), nil
	}})
	h := mindful(t, s, m)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.runner.Remember(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	h.say("ann", "ann", message.DM, "hello")
	<-done
	cancel()
	running.Wait()
}
