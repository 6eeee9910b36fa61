package transcript

import (
	"errors"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "2000")
	os.Exit(m.Run())
}

// did names a call by its answer and its id.
type did struct {
	answer int
	id     string
}

// world is what outlives a process: the committed steps, and what was really done.
type world struct {
	*rapid.T
	limits    Limits
	committed []turnlog.Step
	begun     map[did]int
	answers   int         // committed
	results   map[did]int // likewise
}

// process carries out what Next says until it dies.
type process struct {
	*world
	state   State
	pending []turnlog.Step
	running []string
	end     error
	was     State // when it committed last
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func (p *process) add(record any) { p.pending = append(p.pending, p.state.Add("t1", noon, record)) }

// commit makes durable what was added, and keeps what the state was then.
func (p *process) commit() {
	for _, s := range p.pending {
		p.committed = append(p.committed, s)
		switch s.Kind {
		case turnlog.StepModel:
			p.answers++
		case turnlog.StepToolResult:
			decode(s, func(r ToolResult) error { p.results[did{p.answers - 1, r.Call}]++; return nil })
		}
	}
	p.pending, p.was = nil, clone(p.state)
}

// clone copies a state with all that Apply may change later.
func clone(s State) State {
	s.Answers = slices.Clone(s.Answers)
	for i := range s.Answers {
		s.Answers[i].Calls = slices.Clone(s.Answers[i].Calls)
	}
	s.Tasks, s.Children = slices.Clone(s.Tasks), slices.Clone(s.Children)
	return s
}

// dies draws whether the process dies at this point.
func (p *process) dies() bool { return rapid.IntRange(0, 9).Draw(p.T, "fate") == 0 }

// now is what the process knows beside the steps.
func (p *process) now() Now {
	if p.end == nil && rapid.IntRange(0, 19).Draw(p.T, "ended") == 0 {
		p.end = errors.New("stopped")
	}
	n := Now{Limits: p.limits, Running: p.running, End: p.end}
	if rapid.Bool().Draw(p.T, "measured") {
		n.Fill = &Fill{
			Window: 60, Threshold: rapid.IntRange(0, 60).Draw(p.T, "threshold"), Own: rapid.IntRange(0, 100).Draw(p.T, "own"),
			Keep: rapid.IntRange(0, 3).Draw(p.T, "keep"), Unsummarised: rapid.Bool().Draw(p.T, "unsummarised"),
		}
	}
	return n
}

// live runs a turn until it is over, which it reports, or the process dies.
func (p *process) live() (over bool) {
	for {
		if p.dies() {
			return false
		}
		now := p.now()
		switch a := Next(&p.state, now).(type) {
		case Ask:
			p.mayAsk(now)
			p.add(anAnswer(p.T))
		case Run:
			p.mayRun(a.Calls, now)
			if died := p.run(a.Calls[0]); died {
				return false
			}
		case Interrupt:
			p.mayInterrupt(a.Start, now)
			p.add(a.Start.Interrupted())
		case Wait:
			if len(p.running) == 0 {
				p.Fatal("waits for nothing")
			}
			p.result()
		case Condense:
			if a.Upto <= p.state.Condensed.Entries || a.Upto > len(p.state.Answers) {
				p.Fatalf("a summary of %d answers, of %d, after one of %d", a.Upto, len(p.state.Answers), p.state.Condensed.Entries)
			}
			p.add(CondensedStep{Entries: a.Upto, Text: "much was done"})
			p.commit()
		case Finish:
			p.finished(a)
			p.commit()
			return true
		case Fail:
			p.mayFail(a.Err)
			p.commit()
			return true
		}
	}
}

// run begins a call, alone or beside others, or refuses it.
func (p *process) run(c model.ToolCall) (died bool) {
	start := ToolStart{Call: c.ID, Tool: c.Name, Decision: "run"}
	if rapid.IntRange(0, 4).Draw(p.T, "refused") == 0 {
		start.Decision = "deny"
		p.add(ToolResult{ToolStart: start, Result: tool.Result{Text: "refused", IsError: true}})
		return false
	}
	p.add(start)
	if p.dies() {
		return true
	}
	p.commit()
	if p.dies() {
		return true
	}
	key := did{len(p.state.Answers) - 1, c.ID}
	if p.begun[key]++; p.begun[key] > 1 {
		p.Fatalf("call %s of answer %d was started %d times", c.ID, key.answer, p.begun[key])
	}
	if p.dies() {
		return true
	}
	p.running = append(p.running, c.ID)
	if len(p.running) == 3 || rapid.Bool().Draw(p.T, "alone") {
		p.result()
	}
	return false
}

// result is what comes of a call that runs. It is committed at once or with what follows.
func (p *process) result() {
	i := rapid.IntRange(0, len(p.running)-1).Draw(p.T, "done")
	id := p.running[i]
	p.running = slices.Delete(p.running, i, i+1)
	r := ToolResult{ToolStart: ToolStart{Call: id, Tool: "thing.touch"}, Result: tool.Result{Text: "touched", Labels: []string{"thing:" + id}}}
	if rapid.IntRange(0, 5).Draw(p.T, "delegated") == 0 {
		r.Tool, r.Result.Record = DelegateTool, Encode(Child{Turn: "t2", Tokens: 3, ToolCalls: 1, Used: Used{Tokens: 4}})
	}
	p.add(r)
	if rapid.Bool().Draw(p.T, "held") {
		p.commit()
	}
}

func (p *process) mayAsk(now Now) {
	spent := p.state.Spent()
	if now.End != nil || len(p.state.Answers) >= p.limits.Steps || spent.Tokens >= p.limits.Tokens {
		p.Fatalf("the model is asked after %v: %d answers, %+v, limits %+v", now.End, len(p.state.Answers), spent, p.limits)
	}
	if a := p.state.last(); a != nil {
		for _, c := range a.Message.Calls {
			if a.Result(c.ID) == nil {
				p.Fatalf("the model is asked before call %s has a result", c.ID)
			}
		}
	}
}

func (p *process) mayRun(calls []model.ToolCall, now Now) {
	if now.End != nil || p.state.Spent().ToolCalls+len(calls) > p.limits.ToolCalls || len(p.state.Answers) >= p.limits.Steps {
		p.Fatalf("%d calls may run after %v: %+v, limits %+v", len(calls), now.End, p.state.Spent(), p.limits)
	}
	seen := map[string]bool{}
	for _, c := range calls {
		key := did{len(p.state.Answers) - 1, c.ID}
		if seen[c.ID] || p.begun[key] > 0 || p.state.last().Start(c.ID) != nil || p.state.last().Result(c.ID) != nil {
			p.Fatalf("call %s may run again", c.ID)
		}
		seen[c.ID] = true
	}
}

func (p *process) mayInterrupt(start ToolStart, now Now) {
	if slices.Contains(now.Running, start.Call) || p.state.last().Result(start.Call) != nil {
		p.Fatalf("call %s is reported as interrupted: %v run", start.Call, now.Running)
	}
}

func (p *process) finished(a Finish) {
	if last := p.state.last(); len(last.Calls) > 0 || last.Message.Text != a.Text {
		p.Fatalf("finished with %q after %+v", a.Text, last)
	}
}

func (p *process) mayFail(err error) {
	spent := p.state.Spent()
	var e *Exceeded
	switch {
	case p.end != nil && errors.Is(err, p.end):
	case errors.As(err, &e) && (len(p.state.Answers) >= p.limits.Steps || spent.ToolCalls >= p.limits.ToolCalls || spent.Tokens >= p.limits.Tokens):
	default:
		p.Fatalf("failed with %v: %+v", err, spent)
	}
}

// anAnswer draws an answer of a model, which may give several calls one id.
func anAnswer(t *rapid.T) model.Response {
	r := model.Response{Message: model.Message{Role: model.Assistant, Text: "x"}, Usage: model.Usage{Input: rapid.IntRange(0, 5).Draw(t, "tokens")}}
	for _, id := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 5).Draw(t, "calls") {
		r.Message.Calls = append(r.Message.Calls, model.ToolCall{ID: id, Name: "thing.touch", Args: Encode(map[string]any{})})
	}
	return r
}

// TestCrashes runs a turn through processes that die at every point. No call is started twice, every call gets one result, one that had
// begun is reported as interrupted and not run again, limits hold over all processes, and what a process reads back is what was there.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, begun: map[did]int{}, results: map[did]int{}, limits: Limits{
			Steps: rapid.IntRange(0, 6).Draw(t, "steps"), ToolCalls: rapid.IntRange(0, 8).Draw(t, "tool calls"), Tokens: rapid.IntRange(0, 30).Draw(t, "tokens"),
		}}
		p := &process{world: w}
		p.add(UserStep{Said: []Said{{Text: "do it", At: noon}}})
		p.commit()
		for over := p.live(); !over; over = p.live() {
			state, err := Read(w.committed)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(state, p.was) {
				t.Fatalf("read back:\n%+v\nwas:\n%+v", state, p.was)
			}
			p = &process{world: w, state: state, was: p.was}
		}
		check(t, w, p.state)
	})
}

// check compares what was done with what the steps say of it.
func check(t *rapid.T, w *world, s State) {
	ended := len(s.Answers) > 0 && len(s.last().Calls) == 0
	for i, a := range s.Answers {
		for _, c := range a.Message.Calls {
			key := did{i, c.ID}
			if n := w.results[key]; n > 1 || n == 0 && (ended || i < len(s.Answers)-1) {
				t.Fatalf("call %s of answer %d has %d results", c.ID, i, n)
			}
			if r := a.Result(c.ID); r != nil && !r.Interrupted && r.Decision != "deny" && w.begun[key] != 1 {
				t.Fatalf("call %s of answer %d has a result and was begun %d times", c.ID, i, w.begun[key])
			}
		}
	}
	for key := range maps.Keys(w.begun) {
		if a := s.Answers[key.answer]; a.Start(key.id) == nil {
			t.Fatalf("call %s of answer %d was begun, which no step says", key.id, key.answer)
		}
	}
	for i, m := range s.Messages()[1:] {
		if i%2 == 1 && len(m.Results) != len(s.Answers[s.Condensed.Entries+i/2].Calls) {
			t.Fatalf("a model is shown %d results", len(m.Results))
		}
	}
}
