// Package turnbench measures durable turns through the real program: a pretended platform, a channel plugin, `flynn
// serve` with its store, and the demo model, whose own time is nothing. It holds benchmarks only.
//
// BenchmarkTable prints every figure that is owed beside what was measured, and beside other hosts where there are any: start there.
//
// Run with: just bench turnbench
package turnbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// sessions talk at the same time in BenchmarkTurn/sessions.
const sessions = 16

// answerTimeout bounds the wait for one answer.
const answerTimeout = 30 * time.Second

// BenchmarkTurn measures from the moment at which the platform has a message to the moment at which it shows the answer.
func BenchmarkTurn(b *testing.B) {
	bin := build(b)
	for _, channel := range []struct {
		name                string
		forgetful, postgres bool
	}{{"keys_recognised", false, false}, {"keys_not_recognised", true, false}, {"postgres", false, true}} {
		b.Run(channel.name, func(b *testing.B) {
			cfg := hosttest.Config{Forgetful: channel.forgetful}
			if channel.postgres {
				server := postgrestest.StartWith(b, postgrestest.Options{Durable: true})
				cfg.Database = server.URL(server.Database(b))
			}
			f := newFloor(b, bin, cfg)
			b.Run("alone", func(b *testing.B) { f.turns(b, 1, text) })
			b.Run("tool", func(b *testing.B) { f.turns(b, 1, note) })
			b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { f.turns(b, sessions, text) })
		})
	}
}

// build builds the programs as `just build` does: what is measured is what people run.
func build(b *testing.B) string {
	return hosttest.Build(b)
}

func text(id int) string { return fmt.Sprintf("message %d", id) }

func note(id int) string {
	return fmt.Sprintf(`!tool memory.write {"key":"k%d","text":"note %d"}`, id%1000, id)
}

// floor is a running set-up where people talk.
type floor struct {
	platform *hosttest.Platform
	program  *hosttest.Program
	others   []*hosttest.Program // that share its store
	model    time.Duration       // of each turn, that is taken off
	expect   string              // what each answer holds; a refusal is quick

	mu      sync.Mutex
	heard   func(hosttest.Reply) // hears every reply, and must not block; it may be nil
	posted  int
	waiting map[string]chan hosttest.Reply // by the event that is to be answered; each has room for its answer
}

// newFloor starts a host, and others that share its store.
func newFloor(b *testing.B, bin string, cfg hosttest.Config, others ...hosttest.Config) *floor {
	f := &floor{waiting: map[string]chan hosttest.Reply{}}
	var err error
	if f.platform, err = hosttest.NewPlatform(hosttest.PlatformConfig{Forgetful: cfg.Forgetful, Spread: cfg.Shared, Shown: f.shown}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { f.platform.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	for _, cfg := range append([]hosttest.Config{cfg}, others...) {
		cfg.Bin, cfg.Platform = bin, f.platform.Address()
		p := hosttest.New(b, cfg)
		if err := errors.Join(p.Start(), p.Ready(b.Context())); err != nil {
			b.Fatal(err)
		}
		f.others = append(f.others, p)
	}
	f.program, f.others = f.others[0], f.others[1:]
	f.warm(b)
	return f
}

// warm lets every session have some turns.
func (f *floor) warm(b *testing.B) {
	for range 20 {
		for s := range sessions {
			if _, err := f.turn(s, text); err != nil {
				b.Fatalf("%v; the log ends with:\n%s", err, f.program.Tail())
			}
		}
	}
}

func (f *floor) shown(r hosttest.Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.heard != nil {
		f.heard(r)
	}
	if answer, ok := f.waiting[r.ReplyTo]; ok {
		delete(f.waiting, r.ReplyTo)
		answer <- r
	}
}

// turn says something and waits for the answer.
func (f *floor) turn(session int, say func(id int) string) (time.Duration, error) {
	return f.ask(session, say, f.expect)
}

// ask is turn with a text that the answer has to hold.
func (f *floor) ask(session int, say func(id int) string, expect string) (took time.Duration, err error) {
	answer := make(chan hosttest.Reply, 1)
	f.mu.Lock()
	f.posted++
	id := f.posted
	f.waiting[strconv.Itoa(id)] = answer
	f.mu.Unlock()
	began := time.Now()
	f.platform.Post(hosttest.Event{
		ID: strconv.Itoa(id), Conversation: fmt.Sprintf("c%d", session), Sender: fmt.Sprintf("s%d-%d", session, id), Text: say(id),
	})
	late := time.NewTimer(answerTimeout)
	defer late.Stop()
	select {
	case r := <-answer:
		if !strings.Contains(r.Text, expect) {
			return 0, fmt.Errorf("message %d is answered %q", id, r.Text)
		}
		return r.At.Sub(began), nil
	case <-late.C:
		return 0, fmt.Errorf("message %d has no answer after %s", id, answerTimeout)
	}
}

// turns measures b.N turns in so many sessions.
func (f *floor) turns(b *testing.B, sessions int, say func(id int) string) {
	before := cpuTime(f.program.PID())
	b.ResetTimer()
	all, err := f.talk(b.N, sessions, say)
	b.StopTimer()
	if err != nil {
		b.Fatalf("%v; the log ends with:\n%s", err, f.program.Tail())
	}
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(millis(cpuTime(f.program.PID())-before)/float64(len(all)), "host-cpu-ms/turn")
	b.ReportMetric(millis(quantile(all, 0.5)-f.model), "p50-ms")
	b.ReportMetric(millis(quantile(all, 0.99)-f.model), "p99-ms")
}

// talk has n turns in so many sessions, each of which speaks again when it is answered. The times come sorted.
func (f *floor) talk(n, sessions int, say func(id int) string) ([]time.Duration, error) {
	return together(n, sessions, func(session int) (time.Duration, error) { return f.turn(session, say) })
}

// together does something n times, in so many sessions side by side, and returns the times that it took, sorted.
func together(n, sessions int, do func(session int) (time.Duration, error)) ([]time.Duration, error) {
	took := make([][]time.Duration, sessions)
	errs := make([]error, sessions)
	var people sync.WaitGroup
	for s := range sessions {
		people.Go(func() {
			for range n/sessions + min(1, max(0, n%sessions-s)) {
				d, err := do(s)
				if err != nil {
					errs[s] = err
					return
				}
				took[s] = append(took[s], d)
			}
		})
	}
	people.Wait()
	return slices.Sorted(slices.Values(slices.Concat(took...))), errors.Join(errs...)
}

// quantile is one of sorted times.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
