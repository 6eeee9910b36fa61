// Package fanin lets many channels talk to one host at a time: real plugin processes, each with its own pretended platform, over connections
// that break and events that come again. It holds tests and benchmarks only.
//
// TestFanIn is the short form. The figures come from: just bench fanin
package fanin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// crowd is a number of platforms with people on them, and one host.
type crowd struct {
	t         testing.TB
	platforms []*hosttest.Platform
	program   *hosttest.Program
	ready     []time.Duration // from the start of the host to the plugin's first connection
	again     int             // messages that storms have delivered once more

	mu       sync.Mutex
	said     map[int]*saying
	last     map[string]int // the latest that was answered, by conversation
	next     int
	open     int           // not answered
	done     int           // answered
	changed  chan struct{} // closed and replaced when open falls to where somebody waits for it
	problems []string
}

// saying is one message of a person.
type saying struct {
	platform     int
	conversation string
	at           time.Time
	acked        time.Time
	answered     time.Time
	answers      int
	passed       int // answers to others between it and its own
}

func newCrowd(t testing.TB, bin string, channels int) *crowd {
	c := &crowd{t: t, said: map[int]*saying{}, last: map[string]int{}, changed: make(chan struct{})}
	addresses := map[string]string{}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	for i := range channels {
		p, err := hosttest.NewPlatform(hosttest.PlatformConfig{Shown: c.shown, Acked: c.acked})
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() { p.Run(ctx) })
		c.platforms = append(c.platforms, p)
		addresses[fmt.Sprintf("line%02d", i)] = p.Address()
	}
	c.program = hosttest.New(t, hosttest.Config{Bin: bin, Channels: addresses, Env: []string{heapTrace}})
	c.start()
	return c
}

// start starts the host and waits until every plugin has connected.
func (c *crowd) start() {
	c.t.Helper()
	began := time.Now()
	if err := c.program.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.ready = make([]time.Duration, len(c.platforms))
	for left := len(c.platforms); left > 0; {
		for i, p := range c.platforms {
			if c.ready[i] == 0 && p.PluginPID() != 0 {
				c.ready[i] = time.Since(began)
				left--
			}
		}
		if time.Since(began) > patience {
			c.t.Fatalf("%d plugins are not connected; the log ends with:\n%s", left, c.program.Tail())
		}
		time.Sleep(time.Millisecond) // a poll, not a synchronisation
	}
}

// patience bounds every wait; it is for a busy machine.
const patience = 2 * time.Minute

// say lets somebody say something.
func (c *crowd) say(platform int, conversation string) int {
	c.mu.Lock()
	c.next++
	id := c.next
	c.said[id] = &saying{platform: platform, conversation: conversation, at: time.Now(), passed: -c.done}
	c.open++
	c.mu.Unlock()
	c.platforms[platform].Post(hosttest.Event{
		ID: strconv.Itoa(id), Conversation: conversation, Sender: "p" + conversation, Text: fmt.Sprintf("message [%d]", id),
	})
	return id
}

func (c *crowd) acked(id string) {
	n, _ := strconv.Atoi(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.said[n]; s != nil && s.acked.IsZero() {
		s.acked = time.Now()
	}
}

var tags = regexp.MustCompile(`\[(\d+)\]`)

// shown judges an answer: one may answer several messages of a conversation, each of them once and in order.
func (c *crowd) shown(r hosttest.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := tags.FindAllStringSubmatch(r.Text, -1)
	if len(found) == 0 {
		c.problem("%s is shown %q", r.Conversation, r.Text)
	}
	for _, tag := range found {
		id, _ := strconv.Atoi(tag[1])
		s := c.said[id]
		switch {
		case s == nil || s.conversation != r.Conversation:
			c.problem("%s is shown an answer to %d, which was not said there", r.Conversation, id)
			continue
		case id < c.last[r.Conversation]:
			c.problem("%s: %d is answered after %d", r.Conversation, id, c.last[r.Conversation])
		}
		c.last[r.Conversation] = id
		if s.answers++; s.answers > 1 {
			c.problem("%s: %d is answered %d times", r.Conversation, id, s.answers)
			continue
		}
		s.answered = r.At
		s.passed += c.done
		c.done++
		c.open--
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// problem notes what must not be. c.mu is held.
func (c *crowd) problem(format string, args ...any) {
	if len(c.problems) < 20 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// settle waits until at most so many messages are not answered.
func (c *crowd) settle(most int) {
	c.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		c.mu.Lock()
		open, changed := c.open, c.changed
		c.mu.Unlock()
		if open <= most {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			c.t.Fatalf("%d messages are not answered; the log ends with:\n%s", open, c.program.Tail())
		}
	}
}

// answer waits for the answer to one message.
func (c *crowd) answer(id int) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		c.mu.Lock()
		done, changed := c.said[id].answers > 0, c.changed
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			c.t.Errorf("message %d is not answered", id)
			return
		}
	}
}

func (c *crowd) judge() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) > 0 {
		c.t.Errorf("what must not be:\n%s", strings.Join(c.problems, "\n"))
	}
}

// conversation names one, unlike those of other platforms.
func conversation(platform, number int) string { return fmt.Sprintf("c%02d-%03d", platform, number) }

// round lets everybody in every conversation say something.
func (c *crowd) round(conversations int) {
	per := conversations / len(c.platforms)
	for n := range per {
		for p := range c.platforms {
			c.say(p, conversation(p, n))
		}
	}
}

// storm breaks every connection so many times while answers are under way, and delivers again what was delivered.
func (c *crowd) storm(times, again int) {
	for range times {
		c.mu.Lock()
		before := c.open
		c.mu.Unlock()
		c.settle(before * 9 / 10) // some answers further
		for _, p := range c.platforms {
			p.Redeliver(again)
			p.Disconnect()
			c.again += again
		}
	}
}

func TestFanIn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	bin := hosttest.Build(t)
	t.Run("storms", func(t *testing.T) { storms(t, bin) })
	t.Run("a flood", func(t *testing.T) { floods(t, bin) })
}

func storms(t *testing.T, bin string) {
	c := newCrowd(t, bin, 20)
	c.round(1000)
	c.storm(3, 20)
	c.settle(0)
	for _, p := range c.platforms { // late ones: all of it is answered by now
		p.Redeliver(50)
	}
	c.round(1000)
	c.settle(0)
	c.judge()
	t.Logf("20 channels, 1000 conversations, 2000 messages, 3 reconnect storms; %s", c.figures())
}

// floods floods one channel with far more than the host can answer at once. Somebody on another one is answered
// meanwhile, and not behind it. The test counts the part of the flood that is answered first, as times depend on the machine.
func floods(t *testing.T, bin string) {
	const flood, quiet = 3000, 40
	c := newCrowd(t, bin, 2)
	before := c.chat(1, quiet)
	plugin := memoryOf(c.platforms[0].PluginPID())
	for i := range flood {
		c.say(0, conversation(0, i%100))
	}
	during := c.chat(1, quiet)
	c.mu.Lock()
	left := c.open
	c.mu.Unlock()
	if left == 0 {
		t.Skip("the flood was over before the quiet channel had its answers: nothing was tried")
	}
	t.Logf("quiet channel: answers after p50 %v, max %v alone; p50 %v, max %v while %d of %d messages of the other wait; %s",
		at(before, 50), at(before, 100), at(during, 50), at(during, 100), left, flood, c.figures())
	c.settle(0)
	c.judge()
	c.mu.Lock()
	defer c.mu.Unlock()
	worst := 0
	for _, s := range c.said {
		if s.platform == 1 {
			worst = max(worst, s.passed)
		}
	}
	if now := memoryOf(c.platforms[0].PluginPID()); now.private > plugin.private+mostGrowth {
		t.Errorf("the flooded plugin grew from %d to %d MiB: what waits has to wait on the platform", plugin.private>>20, now.private>>20)
	}
	t.Logf("at most %d of %d messages of the flood were answered before one on the quiet channel", worst, flood)
	if worst > flood/4 {
		t.Errorf("an answer on the quiet channel came after %d others, out of %d", worst, flood)
	}
}

// mostGrowth is how much a plugin may take for what is under way, in bytes: a window of events.
const mostGrowth = 32 << 20

// chat lets one person say n things, each after the answer to the one before, and returns how long the answers took.
func (c *crowd) chat(platform, n int) []time.Duration {
	var took []time.Duration
	for range n {
		id := c.say(platform, conversation(platform, rand.IntN(10)))
		c.answer(id)
		c.mu.Lock()
		s := c.said[id]
		took = append(took, s.answered.Sub(s.at))
		c.mu.Unlock()
	}
	return took
}
