package plugintest

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// Answers are sizes, in lines, of answers that a channel has to deliver whole, once, and in order, whatever its platform's rate limit is.
func Answers() []int { return []int{1, 40, 200, 2000} }

// Lines are that many lines of an answer, no two the same and each a paragraph of Markdown.
func Lines(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("This is line %d of the answer, long enough to be one.", i)
	}
	return lines
}

// Delivery says how an answer is sent.
type Delivery struct {
	// Restart, when above zero, ends the plugin after so many calls and starts another.
	Restart int
	// Deadline of one call; 3 min when zero, as in the host.
	Deadline time.Duration
}

// Delivered is what became of an answer.
type Delivered struct {
	Calls  int // of Send
	Marked int // of them, as a possible duplicate
	Took   time.Duration
}

const maxTries = 300 // of one message, without progress

// Deliver sends one answer as a host's outbox does: in parts that fit the plugin's longest text, each with a key of its own; again after
// the pause that the plugin asks for; from where it stopped; marked where the outcome is unknown. It fails the test when the answer is
// given up. make makes a plugin that is connected to its platform already; Configure and Run of it are not called.
//
// Called in a bubble of testing/synctest, with a platform that is in memory, it takes no time.
func Deliver(t testing.TB, make func() channel.Channel, s channel.Send, d Delivery) Delivered {
	t.Helper()
	if d.Deadline == 0 {
		d.Deadline = 3 * time.Minute
	}
	var out Delivered
	began := time.Now()
	p := make()
	h := Start(t, still{p}, Config{Timeout: d.Deadline})
	parts := []string{s.Text}
	if limit := p.Describe().Capabilities.MaxTextRunes; limit > 0 && utf8.RuneCountInString(s.Text) > limit {
		parts = markdown.Split(s.Text, limit, utf8.RuneCountInString)
	}
	for i, text := range parts {
		part := channel.Send{Key: s.Key, Conversation: s.Conversation, ReplyTo: s.ReplyTo, Text: text, Markdown: p.Describe().Capabilities.Markdown}
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
				h = Start(t, still{make()}, Config{Timeout: d.Deadline})
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
			time.Sleep(pause)
		}
	}
	if err := h.Shutdown(); err != nil {
		t.Fatalf("end the plugin: %v", err)
	}
	out.Took = time.Since(began)
	return out
}

// still is a channel that is connected already and hears nothing.
type still struct{ channel.Channel }

func (s still) Configure(context.Context, channel.Config) error { return nil }

func (s still) Run(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateReady, "")
	<-ctx.Done()
	return nil
}
