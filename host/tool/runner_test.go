package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runDecision returns a decision that lets the tool run.
func runDecision(t *testing.T, tool fakeTool) Decision {
	t.Helper()
	e := newEnforcer(t, func(c *EnforcerConfig) { c.Registry = newRegistry(t, tool) })
	v := e.enforce(t.Context(), with(channelSubject(), func(s *Subject) { s.Offered = NewSet(tool.spec.Name) }), model.ToolCall{Name: tool.spec.Name})
	if v.Action != Run {
		t.Fatalf("decision %s: %s", v.Action, v.Refusal)
	}
	return v
}

func working(run func(ctx context.Context, call Call) (Result, error)) fakeTool {
	f := named("test.tool")
	f.run = run
	return f
}

func TestRunner(t *testing.T) {
	for _, c := range []struct {
		name    string
		run     func(ctx context.Context, call Call) (Result, error)
		text    string // part of the result's text
		isError bool
	}{
		{"result", func(context.Context, Call) (Result, error) { return Result{Text: "fine"}, nil }, "fine", false},
		{"failure of the thing", func(context.Context, Call) (Result, error) { return Result{Text: "no", IsError: true}, nil }, "no", true},
		{"failure of the host", func(context.Context, Call) (Result, error) { return Result{}, errors.New("secret path") }, "failed inside the host", true},
		{"sandbox unavailable", func(context.Context, Call) (Result, error) {
			return Result{}, fmt.Errorf("%w: start the engine", machine.ErrUnavailable)
		}, "sandbox is unavailable: start the engine", true},
		{"engine too slow", func(context.Context, Call) (Result, error) {
			return Result{}, fmt.Errorf("%w: %w", machine.ErrUnavailable, context.DeadlineExceeded)
		}, "sandbox is unavailable: ", true},
		{"panic", func(context.Context, Call) (Result, error) { panic("secret") }, "failed inside the host", true},
		{"canceled", func(context.Context, Call) (Result, error) { return Result{}, context.Canceled }, "canceled", true},
		{"not UTF-8", func(context.Context, Call) (Result, error) { return Result{Text: "a\xffb"}, nil }, "a\uFFFDb", false},
		{"progress may be used", func(_ context.Context, call Call) (Result, error) {
			call.Progress([]byte("x"))
			return Result{Text: "fine"}, nil
		}, "fine", false},
		{"runs with what was judged", func(_ context.Context, call Call) (Result, error) {
			return Result{Text: call.Name + string(call.Args)}, nil
		}, "test.tool{}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Runner{}
			got := r.Run(t.Context(), runDecision(t, working(c.run)), Call{Name: "other.tool", Args: []byte(`{"other":1}`)})
			if !strings.Contains(got.Text, c.text) || got.IsError != c.isError || strings.Contains(got.Text, "secret") {
				t.Errorf("got %+v, want %q, error %v", got, c.text, c.isError)
			}
		})
	}
}

func TestRunnerRefusesWithoutADecisionToRun(t *testing.T) {
	v := runDecision(t, working(func(context.Context, Call) (Result, error) {
		t.Error("it ran")
		return Result{}, nil
	}))
	for _, c := range []struct {
		name   string
		change func(*Decision)
		text   string
	}{
		{"no decision", func(v *Decision) { *v = Decision{} }, "refused"},
		{"made up", func(v *Decision) { *v = Decision{Action: Run} }, "refused"},
		{"ask", func(v *Decision) { v.Action = Ask }, "not approved"},
		{"deny", func(v *Decision) { v.Action, v.Refusal = Deny, "because" }, "because"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := v
			c.change(&v)
			if got := new(Runner).Run(t.Context(), v, Call{}); !got.IsError || !strings.Contains(got.Text, c.text) {
				t.Errorf("got %+v, want refused with %q", got, c.text)
			}
		})
	}
}

// nameOnly is a machine that is only a name.
type nameOnly struct {
	machine.Machine
	name string
}

func (p nameOnly) Name() string { return p.name }

func TestRunnerKeepsACallInItsPlace(t *testing.T) {
	for _, c := range []struct {
		name    string
		sandbox bool
		machine machine.Machine
		runs    bool
	}{
		{"host on the host", false, nameOnly{name: "host"}, true},
		{"sandbox in a sandbox", true, nameOnly{name: "node"}, true},
		{"sandbox on the host", true, nameOnly{name: "host"}, false},
		{"host in a sandbox", false, nameOnly{name: "node"}, false},
		{"nowhere", true, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := false
			v := runDecision(t, working(func(context.Context, Call) (Result, error) {
				ran = true
				return Result{}, nil
			}))
			v.spec.Machine, v.Sandbox = true, c.sandbox
			got := new(Runner).Run(t.Context(), v, Call{Machine: c.machine})
			if ran != c.runs || got.IsError == c.runs {
				t.Errorf("ran %v, result %+v; want it to run: %v", ran, got, c.runs)
			}
		})
	}
}

func TestRunnerDeadline(t *testing.T) {
	v := runDecision(t, working(func(ctx context.Context, _ Call) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	}))
	synctest.Test(t, func(t *testing.T) {
		r := Runner{Deadline: time.Minute}
		began := time.Now()
		if got := r.Run(t.Context(), v, Call{}); !got.IsError || !strings.Contains(got.Text, "too long") {
			t.Errorf("got %+v", got)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestRunnerKeepsHeadAndTail(t *testing.T) {
	long := "FIRST" + strings.Repeat("x", 1<<20) + "LAST"
	v := runDecision(t, working(func(context.Context, Call) (Result, error) { return Result{Text: long}, nil }))
	got := new(Runner).Run(t.Context(), v, Call{}).Text
	if len(got) > MaxText || !strings.HasPrefix(got, "FIRST") || !strings.HasSuffix(got, "LAST") || !strings.Contains(got, defaultRest) {
		t.Errorf("%d bytes, from %.10q to %q", len(got), got, got[len(got)-10:])
	}
	var left int
	if _, err := fmt.Sscanf(got[strings.Index(got, "[..."):], "[... %d bytes", &left); err != nil {
		t.Fatal(err)
	}
	if kept := strings.Count(got, "x"); left != strings.Count(long, "x")-kept+strings.Count("Ask for less at a time to read it.", "x") {
		t.Errorf("it says %d bytes are left out, and %d are there of %d", left, kept, len(long))
	}
}

func TestBoundTextIsValidAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 3000), func(b []byte) string { return string(b) })).Draw(t, "text")
		max := rapid.IntRange(0, 2000).Draw(t, "max")
		got := boundText(text, max, "Read on.")
		if len(got) > max || !utf8.ValidString(got) {
			t.Fatalf("%d bytes of at most %d, valid %v", len(got), max, utf8.ValidString(got))
		}
		if utf8.ValidString(text) && len(text) <= max && got != text {
			t.Fatalf("%q became %q without need", text, got)
		}
	})
}
