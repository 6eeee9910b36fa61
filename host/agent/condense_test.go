package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// manyCalls is a model that touches n things one after the other, each with a long name, and then answers.
func (h *house) manyCalls(n int) script {
	return func(_ context.Context, req model.Request) (model.Response, error) {
		h.touch.mu.Lock()
		done := len(h.touch.counts)
		h.touch.mu.Unlock()
		if done >= n {
			return say("all touched"), nil
		}
		return callTool(fmt.Sprintf("c%d", done), "thing.touch", fmt.Sprintf(`{"what":"thing %d %s"}`, done, strings.Repeat("x", 100))), nil
	}
}

// manyCallsHouse returns a house whose helper, of a kind, makes many calls. It continues from what was touched in the house before.
func manyCallsHouse(t *testing.T, s *sqlite.Store, kind string, fast script, before *house, wrap func(Store) Store) (*house, *byTier) {
	m := newByTier(map[string]script{"fast": fast})
	h := compacting(t, s, m, wrap)
	if before != nil {
		h.touch.counts = before.touch.counts
	}
	m.by["default"] = h.manyCalls(20)
	h.gen.Limits = Limits{Steps: 50, ToolCalls: 50, Tokens: 1e6, Time: time.Minute}
	helper := h.gen.Agents["helper"]
	helper.Window, helper.Kind = 1000, kind
	if kind == KindCode {
		helper.Programs = &Programs{Tool: "thing.touch", Languages: []string{"python"}, Available: func(context.Context) error { return nil }}
	}
	return h, m
}

// whole checks what the model was shown in one call: what was said, the rules, and calls with their results.
func whole(t *testing.T, req model.Request) {
	t.Helper()
	if req.System != rules || !strings.Contains(text(req.Messages), "touch everything") {
		t.Errorf("shown without what was said, or the rules: %q\n%s", req.System, text(req.Messages))
	}
	for i, m := range req.Messages {
		if len(m.Calls) == 0 {
			continue
		}
		if i+1 == len(req.Messages) || len(req.Messages[i+1].Results) != len(m.Calls) || req.Messages[i+1].Results[0].ID != m.Calls[0].ID {
			t.Fatalf("message %d has calls without their results", i)
		}
	}
	for i, m := range req.Messages {
		if len(m.Results) > 0 && (i == 0 || len(req.Messages[i-1].Calls) != len(m.Results)) {
			t.Fatalf("message %d has results without their calls", i)
		}
	}
}

func TestALongTurnIsCompacted(t *testing.T) {
	for _, kind := range []string{KindChat, KindCode} {
		t.Run(kind, func(t *testing.T) {
			s := openStore(t)
			h, m := manyCallsHouse(t, s, kind, counting(), nil, nil)
			var labels []string
			h.chain.tool = func(f policy.ToolFacts) policy.Restrictions { labels = f.Labels; return policy.Restrictions{} }
			h.accept("ann", "touch everything")
			h.work(t.Context())
			if got := h.texts(); len(got) != 1 || got[0] != "all touched" {
				t.Fatalf("answered %q", got)
			}
			summaries := len(m.asked["fast"])
			if summaries < 2 || summaries > 8 {
				t.Errorf("%d summaries in a turn of 20 steps", summaries)
			}
			for i, req := range m.asked["default"] {
				whole(t, req)
				if size := model.Rough(req); size > 1000 {
					t.Errorf("call %d has %d tokens", i, size)
				}
				if i > 1 && !strings.Contains(text(req.Messages), fmt.Sprintf("touched thing %d ", i-1)) {
					t.Errorf("call %d is not shown the last step", i)
				}
			}
			for i, req := range m.asked["fast"][1:] {
				if !strings.Contains(req.Messages[0].Text, fmt.Sprintf("summary %d", i+1)) {
					t.Errorf("summary %d is made without the one before it", i+2)
				}
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return strings.HasPrefix(l, "thing:thing 0 ") }) {
				t.Errorf("labels of the first steps are gone: %q", labels)
			}
			last := m.last("default").Messages[0].Text
			if !strings.Contains(last, "[Summary of your first") || !strings.Contains(last, "no approval of anything") {
				t.Errorf("shown %q", last)
			}
			turns, err := s.History(t.Context(), "irc", "ann", 1)
			if err != nil || len(turns) != 1 {
				t.Fatal(turns, err)
			}
			steps, err := s.Steps(t.Context(), turns[0].ID)
			results := 0
			for _, st := range steps {
				if st.Kind == turnlog.StepToolResult {
					results++
				}
			}
			if err != nil || results != 20 {
				t.Errorf("%d results are in the store (%v), want 20", results, err)
			}

			h, m = manyCallsHouse(t, s, kind, counting(), h, nil) // another process reads the turn back as it was shown
			h.accept("ann", "and now? touch everything")
			h.work(t.Context())
			if shown := text(m.last("default").Messages); !strings.Contains(shown, fmt.Sprintf("summary %d", summaries)) || strings.Contains(shown, "touched thing 0 ") {
				t.Errorf("after a restart the model is shown\n%s", shown)
			}
		})
	}
}

// TestCodeAgentsAreCompacted: the turns before give way for agents of kind code as well.
func TestCodeAgentsAreCompacted(t *testing.T) {
	m := newByTier(map[string]script{"default": parrot, "fast": counting()})
	h := compacting(t, openStore(t), m, nil)
	h.gen.Agents["helper"].Kind = KindCode
	h.gen.Agents["helper"].Programs = &Programs{Tool: "thing.touch", Languages: []string{"python"}, Available: func(context.Context) error { return nil }}
	h.talk(0, 4)
	if shown := text(m.last("default").Messages); len(m.asked["fast"]) != 1 || !strings.Contains(shown, "summary 1") || strings.Contains(shown, "thing 0 ") {
		t.Errorf("%d compactions; the model is shown\n%s", len(m.asked["fast"]), shown)
	}
}

// TestTurnsBeforeGiveWayInTheMiddle: a turn that grows has the session compacted before its own steps are.
func TestTurnsBeforeGiveWayInTheMiddle(t *testing.T) {
	h, m := manyCallsHouse(t, openStore(t), KindChat, counting(), nil, nil)
	manyCalls := m.by["default"]
	m.by["default"] = parrot
	h.talk(0, 4) // of the 1,000 tokens that there are, about 400
	m.by["default"] = manyCalls
	h.accept("ann", "touch everything")
	h.work(t.Context())
	if first := m.asked["fast"][0].Messages[0].Text; !strings.Contains(first, "thing 0 ") || strings.Contains(first, "thing 2 ") {
		t.Errorf("the first summary is made from\n%s", first)
	}
	if sum, err := h.store.LatestSummary(t.Context(), "irc:ann:helper"); err != nil || sum.Turns != 2 {
		t.Errorf("stored %+v (%v)", sum, err)
	}
}

// TestALongTurnWithoutASummary: the turn goes on without its first steps, and the model knows it.
func TestALongTurnWithoutASummary(t *testing.T) {
	asked := 0
	h, m := manyCallsHouse(t, openStore(t), KindChat, func(context.Context, model.Request) (model.Response, error) {
		asked++
		return model.Response{}, &model.Error{Kind: model.Overloaded, Err: errors.New("busy")}
	}, nil, nil)
	h.accept("ann", "touch everything")
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || got[0] != "all touched" || asked != 1 {
		t.Errorf("answered %q, a summary was asked for %d times", got, asked)
	}
	req := m.last("default")
	whole(t, req)
	if shown := text(req.Messages); !strings.Contains(shown, "are left out, since they no longer fit") || !strings.Contains(shown, "check before you repeat something") {
		t.Errorf("shown\n%s", shown)
	}
}

// TestTheModelCountsMore: where the provider finds the turn alone too long, its first steps give way at once.
func TestTheModelCountsMore(t *testing.T) {
	h, m := manyCallsHouse(t, openStore(t), KindChat, counting(), nil, nil)
	h.gen.Agents["helper"].Window = 100_000
	manyCalls, refused := m.by["default"], 0
	m.by["default"] = func(ctx context.Context, req model.Request) (model.Response, error) {
		if len(req.Messages) > 12 {
			refused++
			return model.Response{}, &model.Error{Kind: model.TooLong, Err: errors.New("too long")}
		}
		return manyCalls(ctx, req)
	}
	h.accept("ann", "touch everything")
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || got[0] != "all touched" || refused == 0 || len(m.asked["fast"]) != refused {
		t.Errorf("answered %q, refused %d times, %d summaries", got, refused, len(m.asked["fast"]))
	}
}

// condensing is a store that dies at a commit, counted from the one that brings a summary of a turn's steps.
type condensing struct {
	*dying
	after int
}

func (d condensing) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	if d.left > 1000 && slices.ContainsFunc(c.Steps, func(s turnlog.Step) bool { return s.Kind == turnlog.StepCondensed }) {
		d.left = d.after
	}
	return d.dying.CommitTurn(ctx, c)
}

// TestCrashAroundCondensing kills a host before and after the commits around a summary of a turn's steps. The next one goes on from what
// was committed: the summary is made again only where it was lost, nothing is touched twice, and the message is answered once.
func TestCrashAroundCondensing(t *testing.T) {
	for after := range 3 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit %d, late=%v", after, late), func(t *testing.T) {
				s := openStore(t)
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				first, m := manyCallsHouse(t, s, KindChat, counting(), nil, func(in Store) Store {
					return condensing{&dying{Store: in, left: 1 << 20, late: late, kill: kill}, after}
				})
				first.accept("ann", "touch everything")
				first.work(ctx)
				if ctx.Err() == nil || len(m.asked["fast"]) != 1 {
					t.Fatalf("the process did not die around the first of %d summaries", len(m.asked["fast"]))
				}
				second, m := manyCallsHouse(t, s, KindChat, counting(), first, nil)
				second.work(t.Context())
				out, err := s.UnsentOutbox(t.Context())
				if err != nil || len(out) != 1 || out[0].Reply.Text != "all touched" {
					t.Fatalf("outbox has %+v (%v)", out, err)
				}
				for what, n := range second.touch.counts {
					if n != 1 {
						t.Errorf("%.10s was touched %d times", what, n)
					}
				}
				for _, req := range m.asked["default"] {
					whole(t, req)
				}
				again := !strings.Contains(m.asked["fast"][0].Messages[0].Text, "summary 1")
				if lost := after == 0 && !late; again != lost {
					t.Errorf("the summary is made again: %v, want %v", again, lost)
				}
			})
		}
	}
}
