package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is one scripted answer of a fake provider.
type outcome struct {
	text string // emitted, and the answer where err is nil
	err  error
	hang bool // wait for the context instead
}

// fake answers with a script; the last outcome stays.
type fake struct {
	script []outcome
	seen   []Request
	closed bool
}

func (f *fake) Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	f.seen = append(f.seen, req)
	next := f.script[0]
	if len(f.script) > 1 {
		f.script = f.script[1:]
	}
	if next.hang {
		<-ctx.Done()
		return Response{}, &Error{Kind: Timeout, Err: ctx.Err()}
	}
	if next.text != "" {
		emit(Delta{Text: next.text})
	}
	if next.err != nil {
		return Response{}, next.err
	}
	return Response{Message: Message{Role: Assistant, Text: next.text}, Stop: StopEnd, Usage: Usage{Input: 1000, Output: 100, CacheRead: 10}}, nil
}

func (f *fake) Close() error { f.closed = true; return nil }

func fails(kind Kind) outcome {
	return outcome{err: &Error{Kind: kind, Provider: "fake", Err: errors.New("scripted")}}
}

func limited(after time.Duration) outcome {
	return outcome{err: &Error{Kind: RateLimited, Provider: "fake", RetryAfter: after, Err: errors.New("scripted")}}
}

// world is a Set over fakes, one a tier: "default" falls back to "second" and "third".
type world struct {
	set   *Set
	fakes map[string]*fake
	calls []Call
	text  strings.Builder // what a watcher shows
}

func newWorld(t *testing.T, scripts map[string][]outcome) *world {
	t.Helper()
	w := &world{fakes: map[string]*fake{}}
	models := map[string]config.Model{}
	for name, script := range scripts {
		w.fakes[name] = &fake{script: script}
		models[name] = config.Model{Provider: "fake", Model: name, ContextWindow: len(name) * 1000}
	}
	first := models["default"]
	for _, name := range []string{"second", "third"} {
		if _, ok := models[name]; ok {
			first.Fallbacks = append(first.Fallbacks, name)
		}
	}
	models["default"] = first
	set, err := NewSet(models, Options{
		Providers: map[string]Constructor{"fake": func(m config.Model) (Provider, error) { return w.fakes[m.Model], nil }},
		Events:    event.Only(func(c Call) { w.calls = append(w.calls, c) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.set = set
	return w
}

func (w *world) stream(ctx context.Context) (Response, error) {
	return w.set.Stream(ctx, "default", Request{}, func(d Delta) {
		if d.Reset {
			w.text.Reset()
		}
		w.text.WriteString(d.Text)
	})
}

func (w *world) tried() string {
	var names []string
	for _, c := range w.calls {
		names = append(names, fmt.Sprintf("%s:%d", c.Tier, c.Attempt))
	}
	return strings.Join(names, " ")
}

func TestRetriesAndFallbacks(t *testing.T) {
	good := outcome{text: "good"}
	for name, test := range map[string]struct {
		scripts  map[string][]outcome
		tried    string
		kind     Kind // of the failure, "" for success
		min, max time.Duration
	}{
		"first try":                   {map[string][]outcome{"default": {good}}, "default:1", "", 0, 0},
		"temporary, then good":        {map[string][]outcome{"default": {fails(Overloaded), good}}, "default:1 default:2", "", 250 * time.Millisecond, 500 * time.Millisecond},
		"three times at most":         {map[string][]outcome{"default": {fails(Cut)}}, "default:1 default:2 default:3", Cut, 750 * time.Millisecond, 1500 * time.Millisecond},
		"retry after is obeyed":       {map[string][]outcome{"default": {limited(20 * time.Second), good}}, "default:1 default:2", "", 20 * time.Second, 21 * time.Second},
		"too long a wait falls back":  {map[string][]outcome{"default": {limited(31 * time.Second)}, "second": {good}}, "default:1 second:1", "", 0, 0},
		"too long a wait fails":       {map[string][]outcome{"default": {limited(time.Hour)}}, "default:1", RateLimited, 0, 0},
		"auth falls back at once":     {map[string][]outcome{"default": {fails(Auth)}, "second": {good}}, "default:1 second:1", "", 0, 0},
		"bad request falls back":      {map[string][]outcome{"default": {fails(BadRequest)}, "second": {good}}, "default:1 second:1", "", 0, 0},
		"fallbacks in order":          {map[string][]outcome{"default": {fails(Auth)}, "second": {fails(Auth)}, "third": {good}}, "default:1 second:1 third:1", "", 0, 0},
		"bad answer is tried twice":   {map[string][]outcome{"default": {fails(BadAnswer)}}, "default:1 default:2", BadAnswer, 250 * time.Millisecond, 500 * time.Millisecond},
		"empty answer is a bad one":   {map[string][]outcome{"default": {{}, good}}, "default:1 default:2", "", 250 * time.Millisecond, 500 * time.Millisecond},
		"timeout is tried twice":      {map[string][]outcome{"default": {{hang: true}}, "second": {good}}, "default:1 default:2 second:1", "", 600 * time.Second, 601 * time.Second},
		"too long needs more window":  {map[string][]outcome{"default": {fails(TooLong)}, "third": {good}}, "default:1", TooLong, 0, 0},
		"all fail, the first is told": {map[string][]outcome{"default": {fails(Auth)}, "second": {fails(BadRequest)}}, "default:1 second:1", Auth, 0, 0},
		"unknown errors are final":    {map[string][]outcome{"default": {{err: errors.New("a bug")}}}, "default:1", "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.scripts)
				start := time.Now()
				resp, err := w.stream(t.Context())
				if kindOf(err) != test.kind || (err == nil && resp.Message.Text != "good") {
					t.Errorf("answer is %+v, %v", resp, err)
				}
				if got := w.tried(); got != test.tried {
					t.Errorf("tried %s, want %s", got, test.tried)
				}
				if took := time.Since(start); took < test.min || took > test.max {
					t.Errorf("took %s, want %s to %s", took, test.min, test.max)
				}
			})
		})
	}
}

func TestTooLongMovesToALargerWindow(t *testing.T) {
	models := map[string]config.Model{
		"default": {Provider: "small", Model: "s", ContextWindow: 1000, Fallbacks: []string{"complex"}},
		"complex": {Provider: "large", Model: "l", ContextWindow: 9000},
	}
	set, err := NewSet(models, Options{Providers: map[string]Constructor{
		"small": func(config.Model) (Provider, error) { return &fake{script: []outcome{fails(TooLong)}}, nil },
		"large": func(config.Model) (Provider, error) { return &fake{script: []outcome{{text: "fits"}}}, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := set.Stream(t.Context(), "default", Request{}, nil)
	if err != nil || resp.Tier != "complex" {
		t.Errorf("answer is %+v, %v", resp, err)
	}
}

func TestResetTakesBackText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := outcome{text: "half an ans", err: &Error{Kind: Cut, Err: errors.New("scripted")}}
		w := newWorld(t, map[string][]outcome{"default": {half}, "second": {{text: "whole"}}})
		var deltas []Delta
		if _, err := w.set.Stream(t.Context(), "default", Request{}, func(d Delta) { deltas = append(deltas, d) }); err != nil {
			t.Fatal(err)
		}
		one, reset := Delta{Text: "half an ans"}, Delta{Reset: true}
		want := []Delta{one, reset, one, reset, one, reset, {Text: "whole"}}
		if diff := cmp.Diff(want, deltas); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string][]outcome{"default": {limited(20 * time.Second)}, "second": {{text: "never"}}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if _, err := w.stream(ctx); err == nil {
			t.Error("want an error")
		}
		if took := time.Since(start); took != time.Second || w.tried() != "default:1" {
			t.Errorf("took %s, tried %s", took, w.tried())
		}
	})
}

func TestNoWaitBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string][]outcome{"default": {limited(20 * time.Second)}, "second": {{text: "in time"}}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := w.stream(ctx)
		if err != nil || resp.Tier != "second" || time.Since(start) != 0 {
			t.Errorf("answer is %+v, %v after %s", resp, err, time.Since(start))
		}
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := slices.Repeat([]outcome{fails(Unreachable)}, 6)
		w := newWorld(t, map[string][]outcome{"default": append(down, outcome{text: "back"}), "second": {{text: "meanwhile"}}})
		ask := func(want, tried string) {
			t.Helper()
			w.calls = nil
			resp, err := w.stream(t.Context())
			if err != nil || resp.Message.Text != want || w.tried() != tried {
				t.Errorf("answer is %q, %v, tried %s; want %q, %s", resp.Message.Text, err, w.tried(), want, tried)
			}
		}
		ask("meanwhile", "default:1 default:2 default:3 second:1")
		ask("meanwhile", "default:1 default:2 second:1") // the fifth failure opens it
		ask("meanwhile", "second:1")
		time.Sleep(minOpen)
		ask("meanwhile", "default:1 second:1") // the probe fails and opens it for longer
		time.Sleep(minOpen)
		ask("meanwhile", "second:1")
		time.Sleep(minOpen)
		ask("back", "default:1")
		ask("back", "default:1")
	})
}

// TestALackOfThisMachineIsNoFailureOfTheModel: it is waited out, and however often it comes, the model is not left alone for it.
func TestALackOfThisMachineIsNoFailureOfTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string][]outcome{"default": append(slices.Repeat([]outcome{fails(Lacking)}, lackAttempts-1), outcome{text: "there"})})
		if resp, err := w.stream(t.Context()); err != nil || resp.Message.Text != "there" {
			t.Errorf("answer is %q, %v", resp.Message.Text, err)
		}
		lasting := append(slices.Repeat([]outcome{fails(Lacking)}, 3*lackAttempts), outcome{text: "there"})
		w = newWorld(t, map[string][]outcome{"default": lasting})
		for range 3 {
			began := time.Now()
			if _, err := w.stream(t.Context()); kindOf(err) != Lacking || time.Since(began) > 45*time.Second {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		}
		began := time.Now()
		if resp, err := w.stream(t.Context()); err != nil || resp.Message.Text != "there" || time.Since(began) > 0 {
			t.Errorf("after %s: answer is %q, %v", time.Since(began), resp.Message.Text, err)
		}
	})
}

func TestBreakerLetsOneProbeThrough(t *testing.T) {
	var b breaker
	now := time.Unix(0, 0)
	down := &Error{Kind: Overloaded, Err: errors.New("down")}
	for i := range breakAfter {
		if err := b.admit(now, "p"); err != nil {
			t.Fatal(err)
		}
		b.report(now, now, fmt.Sprint(i), down)
	}
	var refusal *Error
	if err := b.admit(now, "p"); !errors.As(err, &refusal) || refusal.Kind != Overloaded || refusal.RetryAfter != minOpen {
		t.Errorf("refusal is %v", err)
	}
	now = now.Add(minOpen)
	if b.admit(now, "p") != nil || b.admit(now, "p") == nil {
		t.Error("want one probe and no more")
	}
	b.report(now, now, "p", context.Canceled)
	if b.admit(now, "p") != nil {
		t.Error("a cancelled probe must leave room for the next")
	}
	if b.admit(now.Add(probeExpiry), "p") != nil {
		t.Error("a lost probe must not keep the breaker open for ever")
	}
	b.report(now, now, "p", &Error{Kind: BadRequest, Err: errors.New("alive")})
	for range 2 {
		if b.admit(now, "p") != nil {
			t.Error("an opinion of the model closes the breaker")
		}
	}
}

// TestLateFailureIsNoProbe wants calls that were under way when the breaker opened to leave its one probe alone.
func TestLateFailureIsNoProbe(t *testing.T) {
	var b breaker
	began := time.Unix(0, 0)
	down := &Error{Kind: Timeout, Err: errors.New("down")}
	for i := range breakAfter {
		b.report(began, began, fmt.Sprint(i), down)
	}
	now := began.Add(minOpen)
	if b.admit(now, "p") != nil {
		t.Fatal("no probe is let through")
	}
	b.report(now, began, "p", down)
	b.report(now, began, "p", context.Canceled)
	if b.admit(now, "p") == nil {
		t.Error("a late failure makes room for a second probe")
	}
	if st := b.status(now); st.State != HalfOpen {
		t.Errorf("a late failure makes the breaker %s", st.State)
	}
	b.report(now, now, "p", down)
	if b.admit(now, "q") != nil {
		t.Error("another person has no probe after one that failed")
	}
	b.report(now, now, "q", down)
	if st := b.status(now); st.State != Open || st.Until.Sub(now) != 2*minOpen {
		t.Errorf("after the probe the status is %+v", st)
	}
}

func TestBreakerIsShared(t *testing.T) {
	same := config.Model{Provider: "fake", Model: "m", BaseURL: "http://one"}
	other := same
	other.BaseURL = "http://two"
	set, err := NewSet(map[string]config.Model{"fast": same, "default": same, "local": other},
		Options{Providers: map[string]Constructor{"fake": nil}})
	if err != nil {
		t.Fatal(err)
	}
	if set.tiers["fast"].breaker != set.tiers["default"].breaker || set.tiers["fast"].breaker == set.tiers["local"].breaker {
		t.Error("tiers share a breaker where they share a model, and only there")
	}
}

// TestBreakerOutlivesAReload: what is left alone stays so, unless how it is reached has changed.
func TestBreakerOutlivesAReload(t *testing.T) {
	was := config.Model{Provider: "fake", Model: "m", BaseURL: "http://one", TimeoutSeconds: 300}
	with := func(change func(*config.Model)) config.Model {
		m := was
		change(&m)
		return m
	}
	more := with(func(m *config.Model) { m.MaxOutputTokens, m.Fallbacks = 5, []string{"default"} })
	rekeyed := with(func(m *config.Model) { m.APIKey = config.Secret("new") })
	set := func(before *Set, models map[string]config.Model) *Set {
		t.Helper()
		s, err := NewSet(models, Options{Providers: map[string]Constructor{"fake": nil}, Before: before})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := set(nil, map[string]config.Model{"default": was})
	old, now := first.tiers["default"].breaker, time.Now()
	for i := range breakAfter {
		old.report(now, now, fmt.Sprint(i), &Error{Kind: Unreachable, Err: errors.New("down")})
	}
	for name, c := range map[string]struct {
		models map[string]config.Model
		kept   bool
	}{
		"nothing changed":             {map[string]config.Model{"default": was}, true},
		"under another tier's name":   {map[string]config.Model{"default": was, "fast": more}, true},
		"what it is asked changed":    {map[string]config.Model{"default": with(func(m *config.Model) { m.MaxOutputTokens = 9 })}, true},
		"another key":                 {map[string]config.Model{"default": rekeyed}, false},
		"another key for one of them": {map[string]config.Model{"default": was, "fast": rekeyed}, false},
		"another address":             {map[string]config.Model{"default": with(func(m *config.Model) { m.BaseURL = "http://two" })}, false},
		"another model":               {map[string]config.Model{"default": with(func(m *config.Model) { m.Model = "n" })}, false},
		"more time":                   {map[string]config.Model{"default": with(func(m *config.Model) { m.TimeoutSeconds = 600 })}, false},
	} {
		t.Run(name, func(t *testing.T) {
			next := set(first, c.models)
			state := next.tiers["default"].breaker.status(now).State
			if kept := next.tiers["default"].breaker == old; kept != c.kept || (state == Open) != c.kept {
				t.Errorf("kept: %v, want %v; it is %s", kept, c.kept, state)
			}
			for name, tier := range next.tiers {
				if tier.breaker == nil || breakerKey(tier.cfg) == breakerKey(next.tiers["default"].cfg) && tier.breaker != next.tiers["default"].breaker {
					t.Errorf("the tier %s has a breaker of its own", name)
				}
			}
		})
	}
}

func TestRequestIsFitted(t *testing.T) {
	for name, test := range map[string]struct{ configured, asked, want int }{
		"neither":      {0, 0, 4096},
		"configured":   {800, 0, 800},
		"asked less":   {800, 100, 100},
		"asked more":   {800, 9000, 800},
		"asked nought": {800, -1, 800},
	} {
		t.Run(name, func(t *testing.T) {
			one := tier{cfg: config.Model{Model: "m", MaxOutputTokens: test.configured}}
			got := one.fit(t.Context(), Request{Model: "other", MaxTokens: test.asked})
			if got.MaxTokens != test.want || got.Model != "m" {
				t.Errorf("got %+v, want %d tokens", got, test.want)
			}
		})
	}
}

func TestCost(t *testing.T) {
	u := Usage{Input: 1_000_000, Output: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000}
	if got := Cost(u, config.Prices{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}); got != 22.05 {
		t.Errorf("cost is %v", got)
	}
	if got := Cost(u, config.Prices{Input: 3, Output: 15}); got != 24 {
		t.Errorf("cost without cache prices is %v", got)
	}
}

func TestNewSetRefuses(t *testing.T) {
	all := map[string]Constructor{"fake": nil, "demo": nil}
	for name, test := range map[string]struct {
		models map[string]config.Model
		want   string
	}{
		"unknown provider": {map[string]config.Model{"fast": {Provider: "fakee"}}, `models.fast: no provider "fakee"; use one of demo, fake`},
		"unknown fallback": {map[string]config.Model{"fast": {Provider: "fake", Fallbacks: []string{"slow"}}}, `models.fast: no tier "slow" to fall back to; use one of fast`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewSet(test.models, Options{Providers: all}); err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestUnknownTier(t *testing.T) {
	w := newWorld(t, map[string][]outcome{"default": {{text: "x"}}})
	_, err := w.set.Stream(t.Context(), "fats", Request{}, nil)
	if !errors.Is(err, ErrNoTier) || !strings.Contains(err.Error(), "default") {
		t.Errorf("error is %v", err)
	}
}

// TestLazy wants no provider before the first call, and a failed construction to be reported and not kept.
func TestLazy(t *testing.T) {
	built := 0
	set, err := NewSet(map[string]config.Model{"default": {Provider: "fake"}}, Options{Providers: map[string]Constructor{
		"fake": func(config.Model) (Provider, error) {
			if built++; built == 1 {
				return nil, errors.New("no key")
			}
			return &fake{script: []outcome{{text: "x"}}}, nil
		},
	}})
	if err != nil || built != 0 {
		t.Fatalf("%d providers built, %v", built, err)
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	if _, err := set.Stream(t.Context(), "default", Request{}, nil); kindOf(err) != Auth || !strings.Contains(err.Error(), "models.default: no key") {
		t.Errorf("error is %v", err)
	}
	for range 2 {
		if _, err := set.Stream(t.Context(), "default", Request{}, nil); err != nil {
			t.Error(err)
		}
	}
	if built != 2 {
		t.Errorf("built %d times, want 2", built)
	}
	if _ = set.Close(); !set.tiers["default"].provider.(*fake).closed {
		t.Error("the provider was not closed")
	}
}

func TestCallsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string][]outcome{"default": {fails(Overloaded), {text: "x"}}})
		if _, err := w.stream(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed, good := w.calls[0], w.calls[1]
		if failed.Kind() != Overloaded || failed.FirstText != 0 || failed.Provider != "fake" || failed.Model != "default" {
			t.Errorf("failed call is %+v", failed)
		}
		if good.Err != nil || good.FirstText == 0 || good.Usage.Input != 1000 || good.Attempt != 2 {
			t.Errorf("good call is %+v", good)
		}
	})
}

func TestToolCallIsStorableWhateverTheModelWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := ToolCall{ID: "c", Name: "n", Args: json.RawMessage(rapid.SliceOf(rapid.Byte()).Draw(t, "args"))}
		b, err := json.Marshal(Message{Role: Assistant, Calls: []ToolCall{in}})
		if err != nil {
			t.Fatal(err)
		}
		var out Message
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		wasObject := json.Unmarshal(in.Args, &object) == nil
		if isObject := json.Unmarshal(out.Calls[0].Args, &object) == nil; isObject != wasObject {
			t.Errorf("%q became %q", in.Args, out.Calls[0].Args)
		}
	})
}
