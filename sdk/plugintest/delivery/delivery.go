// Package delivery checks that a channel delivers answers of any length completely, once and in order, whatever its platform's rate limit.
//
// Start with LongAnswers, which uses a Platform in memory and the clock of a testing/synctest bubble; Wire lets an HTTP client reach it.
// For other platforms, Deliver sends one answer like the host's outbox, and CheckLines checks what the platform shows.
package delivery

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// Answers returns sizes, in lines, of answers that a channel has to deliver completely, once, and in order, whatever its platform's rate
// limit.
func Answers() []int { return []int{1, 40, 200, 2000} }

// Lines returns n lines of an answer, each different and a paragraph of Markdown.
func Lines(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("This is line %d of the answer, long enough to be one.", i)
	}
	return lines
}

// Delivery configures how an answer is sent.
type Delivery struct {
	// Restart, if above zero, ends the plugin after that many calls and starts another.
	Restart int
	// Sleep replaces time.Sleep in a test without a bubble; nil means time.Sleep.
	Sleep func(time.Duration)
}

// Delivered is how an answer was delivered.
type Delivered struct {
	Calls  int // of Send
	Marked int // of these, marked as a possible duplicate
	Took   time.Duration
}

const maxTries = 300 // of one message, without progress

// Deliver sends one answer like a host's outbox: in parts that fit the plugin's longest text, each with its own key; repeated after the
// pause that the plugin requests; from where it stopped; marked if the outcome is unknown. It fails the test if it has to give up. start
// starts the plugin, and is called again after each restart.
//
// In a bubble of testing/synctest, with a platform in memory, it takes no time.
func Deliver(t testing.TB, start func() *plugintest.Host, can channel.Capabilities, s channel.Send, d Delivery) Delivered {
	t.Helper()
	if d.Sleep == nil {
		d.Sleep = time.Sleep
	}
	var out Delivered
	began := time.Now()
	h := start()
	parts := []string{s.Text}
	if limit := can.MaxTextRunes; limit > 0 && utf8.RuneCountInString(s.Text) > limit {
		parts = markdown.Split(s.Text, limit, utf8.RuneCountInString)
	}
	for i, text := range parts {
		part := channel.Send{Key: s.Key, Conversation: s.Conversation, ReplyTo: s.ReplyTo, Text: text, Markdown: can.Markdown}
		if i > 0 {
			part.Key, part.ReplyTo = fmt.Sprintf("%s/%d", s.Key, i+1), ""
		}
		if i == len(parts)-1 {
			part.Attachments, part.Buttons = s.Attachments, s.Buttons
		}
		for tries := 1; ; tries++ {
			if d.Restart > 0 && out.Calls > 0 && out.Calls%d.Restart == 0 {
				if err := h.Shutdown(); err != nil {
					t.Fatalf("end the plugin: %v", err)
				}
				h = start()
			}
			if out.Calls++; part.PossibleDuplicate {
				out.Marked++
			}
			sent, err := h.Send(part)
			if sent.Outcome == channel.OutcomeSent || sent.Outcome == channel.OutcomeDuplicate {
				break
			}
			pause := max(sent.RetryAfter, min(250*time.Millisecond<<min(tries, 20), 5*time.Minute))
			if sent.Resume != "" && sent.Resume != part.Resume {
				part.Resume, part.PossibleDuplicate, tries = sent.Resume, false, 0
				pause = sent.RetryAfter
			}
			switch {
			case sent.Outcome == channel.OutcomeRefused || tries >= maxTries:
				t.Fatalf("part %d of %d, try %d: %v: %v", i+1, len(parts), tries, sent.Outcome, err)
			case sent.Outcome != channel.OutcomeNotSent:
				part.PossibleDuplicate = true
			}
			d.Sleep(pause)
		}
	}
	if err := h.Shutdown(); err != nil {
		t.Fatalf("end the plugin: %v", err)
	}
	out.Took = time.Since(began)
	return out
}

// Still starts a plugin that is already connected to its platform: its Configure and Run are not called.
func Still(t testing.TB, p channel.Channel) *plugintest.Host {
	t.Helper()
	return plugintest.Start(t, still{p}, plugintest.Config{Timeout: 3 * time.Minute}) // the deadline of the host
}

// Platform is a chat platform in memory that shows Burst messages at once, then one per Every, and refuses what comes sooner.
type Platform struct {
	Burst int
	Every time.Duration

	mu    sync.Mutex
	full  time.Time
	texts []string
}

// Show shows a message, or returns how long it has to wait.
func (p *Platform) Show(text string) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if next := p.full.Add(-time.Duration(p.Burst-1) * p.Every); next.After(now) {
		return next.Sub(now)
	}
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(p.Every)
	p.texts = append(p.texts, text)
	return 0
}

// Wire makes HTTP calls to h without a network.
func Wire(h http.HandlerFunc) http.RoundTripper { return inMemory{h} }

type inMemory struct{ h http.HandlerFunc }

func (w inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	out := httptest.NewRecorder()
	w.h(out, r)
	return out.Result(), nil
}

// LongAnswers delivers answers of all sizes, with and without restarts of the plugin, to a platform with a rate limit, and checks that it
// shows each line once, in order, with nothing marked. connect returns a plugin that is connected to the platform.
func LongAnswers(t *testing.T, limit *Platform, to channel.Conversation, connect func(*testing.T, *Platform) channel.Channel) {
	t.Helper()
	for _, n := range Answers() {
		for _, restart := range []int{0, 3} {
			t.Run(fmt.Sprintf("%d lines, restart %d", n, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					platform := &Platform{Burst: limit.Burst, Every: limit.Every}
					start := func() *plugintest.Host { return Still(t, connect(t, platform)) }
					got := Deliver(t, start, connect(t, platform).Describe().Capabilities, channel.Send{
						Key: "k", Conversation: to, Text: strings.Join(Lines(n), "\n\n"),
					}, Delivery{Restart: restart})
					CheckLines(t, platform.texts, n)
					if least := time.Duration(len(platform.texts)-limit.Burst) * limit.Every; got.Marked > 0 || got.Took < least {
						t.Errorf("%d calls, %d of them marked, in %s; the platform allows %s", got.Calls, got.Marked, got.Took, least)
					}
				})
			})
		}
	}
}

// CheckLines reports lines of an answer that a platform shows twice, out of order, or not at all.
func CheckLines(t testing.TB, texts []string, n int) {
	t.Helper()
	next := 0
	for _, text := range texts {
		for _, found := range regexp.MustCompile(`line (\d+) of the answer`).FindAllStringSubmatch(text, -1) {
			if found[1] != strconv.Itoa(next) {
				t.Errorf("line %s is shown where line %d belongs", found[1], next)
				return
			}
			next++
		}
	}
	if next != n {
		t.Errorf("%d of %d lines are shown", next, n)
	}
}

// still is a channel that is connected already and receives nothing.
type still struct{ channel.Channel }

func (s still) Configure(context.Context, channel.Config) error { return nil }

func (s still) Run(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateReady, "")
	<-ctx.Done()
	return nil
}
