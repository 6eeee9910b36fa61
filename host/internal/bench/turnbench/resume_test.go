package turnbench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// openSessions have a turn at work each when the host is killed.
const openSessions = 1000

// takeResume kills the host while a thousand turns have run a tool and wait for the model's next step, and measures from the start of the
// next process to its first and its last answer.
func takeResume(b *testing.B, t *table) {
	x := newOpenTurns(b, t.bin)
	x.begin(b)
	if err := x.floor.program.Kill(); err != nil {
		b.Fatal(err)
	}
	close(x.gate)
	before, began := len(x.answers), time.Now()
	x.floor.must(b, x.floor.program.Start())
	x.settle(b)
	first, last, twice, interrupted := x.resumed(began)
	log, err := os.ReadFile(x.floor.program.Log)
	if err != nil {
		b.Fatal(err)
	}
	t.add(fmt.Sprintf("kill -9 with %d open turns: first resumed and answered", openSessions), fmt.Sprintf("%.2f s after the start", first.Seconds()),
		"<= 1s", first <= time.Second)
	t.add("... the last one", fmt.Sprintf("%.2f s after the start", last.Seconds()), "", true)
	t.add("... lost, answered twice", fmt.Sprintf("0, %d; %d turns resumed, %d answered before the kill, %d say that their tool call was interrupted", twice,
		strings.Count(string(log), `msg="turn resumes"`), before, interrupted), "0, 0", twice == 0)
}

// openTurns are turns in as many sessions.
type openTurns struct {
	floor   *floor
	model   *fakeModel
	gate    chan struct{}
	answers chan hosttest.Reply
	seen    []hosttest.Reply
}

func newOpenTurns(b *testing.B, bin string) *openTurns {
	x := &openTurns{gate: make(chan struct{}), answers: make(chan hosttest.Reply, 2*openSessions)}
	x.model = newFakeModel(b, x.gate)
	x.floor = newFloor(b, bin, hosttest.Config{
		More: fmt.Sprintf(overHTTP, x.model.url) + fmt.Sprintf("[budgets]\nparallel_turns = %d\n", openSessions+sessions),
	})
	return x
}

func openTurn(n int) string { return fmt.Sprintf("open-%d", n) }

// begin says something in every session and waits until all turns are at work.
func (x *openTurns) begin(b *testing.B) {
	f := x.floor
	f.mu.Lock()
	f.heard = func(r hosttest.Reply) {
		if strings.HasPrefix(r.ReplyTo, "open-") {
			x.answers <- r
		}
	}
	f.mu.Unlock()
	for n := range openSessions {
		f.platform.Post(hosttest.Event{
			ID: openTurn(n), Conversation: fmt.Sprintf("open%d", n), Sender: fmt.Sprintf("s%d", n), Text: "WRITE " + openTurn(n),
		})
	}
	for late := time.Now().Add(beginTimeout); x.model.held.Load() < openSessions; <-time.After(10 * time.Millisecond) {
		if time.Now().After(late) {
			b.Fatalf("%d turns are at work after %s; the log ends with:\n%s", x.model.held.Load(), beginTimeout, f.program.Tail())
		}
	}
}

// beginTimeout bounds the wait for a thousand turns; it is for a busy machine.
const beginTimeout = 2 * time.Minute

// settle waits for all answers, and for a second one to any of them.
func (x *openTurns) settle(b *testing.B) {
	late := time.NewTimer(beginTimeout)
	defer late.Stop()
	open := map[string]bool{}
	for n := range openSessions {
		open[openTurn(n)] = true
	}
	for len(open) > 0 {
		select {
		case r := <-x.answers:
			if !strings.Contains(r.Text, r.ReplyTo) && !strings.Contains(r.Text, interruption) {
				b.Fatalf("%s is answered %q", r.ReplyTo, r.Text)
			}
			x.seen = append(x.seen, r)
			delete(open, r.ReplyTo)
		case <-late.C:
			b.Fatalf("%d turns are lost; the log ends with:\n%s", len(open), x.floor.program.Tail())
		}
	}
	for quiet := time.After(idleAfter); ; {
		select {
		case r := <-x.answers:
			x.seen = append(x.seen, r)
		case <-quiet:
			return
		}
	}
}

// interruption is in the result of a call that the kill cut off before its result was committed. Such an answer is as right as any.
const interruption = "was restarted while this call ran"

// resumed is the time to the first and to the last answer, how many came more than once, and how many tell of an interrupted call.
func (x *openTurns) resumed(began time.Time) (first, last time.Duration, twice, interrupted int) {
	answers := map[string]int{}
	for i, r := range x.seen {
		took := r.At.Sub(began)
		if i == 0 {
			first = took
		}
		last = max(last, took)
		if strings.Contains(r.Text, interruption) {
			interrupted++
		}
		if answers[r.ReplyTo]++; answers[r.ReplyTo] > 1 {
			twice++
		}
	}
	return first, last, twice, interrupted
}
