package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// teller is a gate that writes down what passes.
type teller struct {
	refuse string // tier
	log    []string
}

var errNoMoney = errors.New("no money")

func (g *teller) Enter(_ context.Context, a Attempt) error {
	g.log = append(g.log, fmt.Sprintf("in %s:%d", a.Tier, a.Number))
	if a.Tier == g.refuse {
		return errNoMoney
	}
	return nil
}

func (g *teller) Leave(a Attempt, u Usage, err error) {
	g.log = append(g.log, fmt.Sprintf("out %s:%d %d+%d %s", a.Tier, a.Number, u.Input, u.Output, kindOf(err)))
}

func TestGateSeesEveryAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		scripts map[string][]outcome
		refuse  string
		want    string
		err     error
	}{
		"an answer": {map[string][]outcome{"default": {{text: "good"}}}, "", "in default:1, out default:1 1000+100 ", nil},
		"a retry that is free": {map[string][]outcome{"default": {fails(Overloaded), {text: "good"}}}, "",
			"in default:1, out default:1 0+0 overloaded, in default:2, out default:2 1000+100 ", nil},
		"a cut answer is charged, and then a fallback": {
			map[string][]outcome{"default": {{text: "half a", err: &Error{Kind: Cut, RetryAfter: time.Hour, Err: errors.New("x")}}}, "second": {{text: "good"}}}, "",
			"in default:1, out default:1 10+2 stream_cut, in second:1, out second:1 1000+100 ", nil},
		"a refusal ends it": {map[string][]outcome{"default": {fails(Auth)}, "second": {{text: "good"}}, "third": {{text: "good"}}}, "second",
			"in default:1, out default:1 0+0 auth, in second:1", errNoMoney},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, g := newWorld(t, test.scripts), &teller{refuse: test.refuse}
				_, err := w.set.Stream(t.Context(), "default", Request{Gate: g, Messages: []Message{{Role: User}}}, nil)
				if got := strings.Join(g.log, ", "); got != test.want || !errors.Is(err, test.err) {
					t.Errorf("gate saw %q, error %v; want %q", got, err, test.want)
				}
			})
		})
	}
}

// TestGateOfAnOpenBreaker wants what was let in and never sent to leave again, for nothing.
func TestGateOfAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, g := newWorld(t, map[string][]outcome{"default": {fails(Auth)}}), &teller{}
		for range breakAfter {
			_, _ = w.stream(t.Context())
		}
		_, err := w.set.Stream(t.Context(), "default", Request{Gate: g}, nil)
		if want := []string{"in default:1", "out default:1 0+0 auth"}; err == nil || !slices.Equal(g.log, want) {
			t.Errorf("gate saw %q, error %v", g.log, err)
		}
	})
}

func TestWorstIsTheDearest(t *testing.T) {
	one := tier{counts: &Counts{}, cfg: config.Model{Prices: config.Prices{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}, MaxOutputTokens: 1000}}
	one.cfg.Reasoning = "2000"
	req := one.fit(t.Context(), Request{System: strings.Repeat("word ", 1000)})
	a := one.attempt(req, Rough(req), 1)
	if a.Worst.Input < 1250 || a.Worst.Output != 3000 || a.Worst.CostUSD != (float64(a.Worst.Input)*3.75+3000*15)/1e6 {
		t.Errorf("the worst is %+v", a.Worst)
	}
}

// TestStatusFollowsTheBreaker goes through all states of a breaker, with a provider that says when to come back.
func TestStatusFollowsTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := slices.Repeat([]outcome{limited(time.Minute)}, breakAfter)
		w := newWorld(t, map[string][]outcome{"default": append(script, fails(Overloaded), fails(Overloaded), outcome{text: "back"})})
		status := func() Status { return w.set.Status()[0] }
		want := func(when string, s State, last Kind, until time.Duration) {
			t.Helper()
			got := status()
			if got.Tier != "default" || got.Provider != "fake" || got.State != s || got.Last != last || s == Open && time.Until(got.Until) != until {
				t.Errorf("%s: status is %+v", when, got)
			}
		}
		want("at first", Closed, "", 0)
		ask := func(who string) error { // who cannot wait
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := w.set.Stream(ctx, "default", Request{Source: who}, nil)
			return err
		}
		for i := range breakAfter {
			_ = ask(fmt.Sprint(i))
		}
		want("after five failures", Open, RateLimited, time.Minute)
		if err := ask("ann"); kindOf(err) != RateLimited || len(w.calls) != breakAfter {
			t.Errorf("an open breaker lets calls pass: %v", err)
		}
		time.Sleep(time.Minute)
		want("a minute later", HalfOpen, RateLimited, 0)
		_ = ask("ann")
		want("after a probe that failed", HalfOpen, Overloaded, 0)
		if err := ask("ann"); kindOf(err) != Overloaded || len(w.calls) != breakAfter+1 {
			t.Errorf("one person's messages are two probes in a row: %v", err)
		}
		_ = ask("bob")
		want("after the probe of another person", Open, Overloaded, 2*minOpen)
		if _, err := w.stream(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("after one that did not", Closed, "", 0)
	})
}

func TestCountsLearn(t *testing.T) {
	var c Counts
	if c.scale("m") != firstScale {
		t.Errorf("at first the scale is %v", c.scale("m"))
	}
	c.learn("m", 1000, Usage{Input: 500, CacheRead: 1000, CacheWrite: 500})
	if got := c.scale("m"); got != 2.1 {
		t.Errorf("after twice as many the scale is %v", got)
	}
	for _, u := range []Usage{{Input: 1 << 30, Estimated: true}, {Output: 5}} {
		c.learn("m", 1000, u)
	}
	c.learn("m", 10, Usage{Input: 1000})
	if c.scale("m") != 2.1 || c.scale("other") != firstScale {
		t.Errorf("figures that tell nothing change the scale to %v", c.scale("m"))
	}
	for range 100 {
		c.learn("m", 1000, Usage{Input: 1000})
	}
	if got := c.scale("m"); got < 1.05 || got > 1.06 {
		t.Errorf("in the long run the scale is %v", got)
	}
	c.learn("m", 1000, Usage{Input: 1 << 40})
	if got := c.scale("m"); got != maxScale {
		t.Errorf("a mad figure makes the scale %v", got)
	}
}

// TestRoughIsNotFarOff holds the guess against what common tokenisers make of such texts.
func TestRoughIsNotFarOff(t *testing.T) {
	for text, tokens := range map[string]int{
		"The quick brown fox jumps over the lazy dog. ": 10,
		"for i := range 10 { fmt.Println(i) }\n":        13,
		"Der schnelle braune Fuchs springt über Zäune.": 13,
		"敏捷的棕色狐狸跳过了懒狗。":                                 16,
		"1234567890 9876543210 ":                        8,
	} {
		got := quarters(strings.Repeat(text, 100)) / 4 / 100
		if got < tokens*2/3 || got > tokens*2 {
			t.Errorf("%q is guessed as %d tokens, really some %d", text, got, tokens)
		}
	}
}

// TestCountLeavesImagesOut wants images to count only where the model is shown them.
func TestCountLeavesImagesOut(t *testing.T) {
	set, err := NewSet(map[string]config.Model{"sees": {Provider: "fake", Model: "a", Images: true}, "blind": {Provider: "fake", Model: "a"}},
		Options{Providers: map[string]Constructor{"fake": nil}})
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Messages: []Message{{Role: User, Images: []Image{{Digest: "a"}}, Results: []ToolResult{{Images: []Image{{Digest: "b"}}}}}}}
	if sees, blind := set.Count("sees", req), set.Count("blind", req); sees-blind < 2*ImageTokens || len(req.Messages[0].Images) != 1 {
		t.Errorf("%d tokens with images, %d without", sees, blind)
	}
}

func TestImagesAreBounded(t *testing.T) {
	png := func(n int) []byte { return append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, n)...) }
	files := map[string][]byte{"png": png(10), "large": png(MaxImage), "text": []byte("hello"), "jpeg": []byte("\xff\xd8\xff\xe0"), "gif": []byte("GIF89a")}
	open := func(_ context.Context, digest string) ([]byte, error) {
		data, ok := files[digest]
		if !ok {
			return nil, errors.New("gone")
		}
		return data, nil
	}
	var images []Image
	for _, d := range []string{"png", "large", "text", "gone", "jpeg", "gif"} {
		images = append(images, Image{Digest: d, Type: "image/webp"}) // a claim that nobody believes
	}
	req := Request{OpenImage: open, Messages: []Message{{Role: User, Images: slices.Repeat(images, 10)}, {Role: User, Images: images}}}
	out := withImages(t.Context(), req, true).Messages
	var types []string
	for _, img := range out[1].Images {
		types = append(types, strings.TrimPrefix(img.Type, "image/"))
	}
	if strings.Join(types, " ") != "png jpeg gif" || len(out[0].Images) != maxImages-3 || len(req.Messages[1].Images) != 6 || req.Messages[1].Images[0].Data != nil {
		t.Errorf("the last message has %v, the first %d images; the request %d", types, len(out[0].Images), len(req.Messages[1].Images))
	}
	for _, blind := range []Request{{Messages: req.Messages}, req} {
		if out := withImages(t.Context(), blind, false).Messages; len(out[0].Images)+len(out[1].Images) != 0 {
			t.Error("a model that takes no images gets some")
		}
	}
}

func FuzzImageType(f *testing.F) {
	for _, seed := range []string{"\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "GIF87a", "RIFF1234WEBP", "RIFF", "", "<svg"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if kind := ImageType(data); kind != "" && !IsImageType(kind) {
			t.Errorf("type is %q", kind)
		}
	})
}
