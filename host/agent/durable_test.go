package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
)

// fate is what a drawn plan does to one write or one send.
type fate int

const (
	fine        fate = iota
	fails            // it does not happen, and that is known
	diesBefore       // the process ends before it
	diesAfter        // the process ends after it, and nobody is told
	lostUnknown      // sends only: it does not happen, and nobody knows
	sentUnknown      // sends only: it happens, and nobody knows
)

// plan is the trouble of one run, used up in the order in which writes and sends come.
type plan struct {
	mu     sync.Mutex
	writes []fate
	sends  []fate
}

func (p *plan) next(of *[]fate) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*of) == 0 {
		return fine
	}
	f := (*of)[0]
	*of = (*of)[1:]
	return f
}

// platform is the world outside: it survives everything and counts what arrives.
type platform struct {
	recognises bool

	mu       sync.Mutex
	copies   map[string][]bool // by key: was it marked as a possible duplicate
	texts    map[string]string // by key
	order    map[string][]string
	unknowns map[string]int // by key: how often the outcome of a send got lost
}

func (p *platform) arrive(r message.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.recognises && len(p.copies[r.Key]) > 0 {
		return
	}
	if len(p.copies[r.Key]) == 0 {
		p.order[r.Conversation.ID] = append(p.order[r.Conversation.ID], r.Text)
	}
	p.copies[r.Key] = append(p.copies[r.Key], r.PossibleDuplicate)
	p.texts[r.Key] = r.Text
}

func (p *platform) unknown(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unknowns[key]++
}

// process is a host between two crashes.
type process struct {
	*sqlite.Store
	plan     *plan
	platform *platform
	ctx      context.Context
	die      context.CancelFunc

	mu   sync.Mutex
	open map[string]bool
}

var errDead = errors.New("the process is dead")

// write does one write as the plan has it.
func (p *process) write(do func() error) error {
	if p.ctx.Err() != nil {
		return errDead
	}
	switch p.plan.next(&p.plan.writes) {
	case fails:
		return errors.New("database or disk is full")
	case diesBefore:
		p.die()
		return errDead
	case diesAfter:
		do()
		p.die()
		return errDead
	}
	return do()
}

func (p *process) AppendInbox(ctx context.Context, m message.Message, s mailbox.InboxState, note string) (row mailbox.InboxRow, fresh bool, err error) {
	err = p.write(func() (err error) { row, fresh, err = p.Store.AppendInbox(ctx, m, s, note); return err })
	return row, fresh, err
}

func (p *process) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	return p.write(func() error { return p.Store.CommitTurn(ctx, c) })
}

func (p *process) SetOutbox(ctx context.Context, r mailbox.OutboxRow) error {
	return p.write(func() error {
		err := p.Store.SetOutbox(ctx, r)
		p.note(r.Reply.Key, r.State == mailbox.OutboxSending && r.Note == "") // about to be sent
		return err
	})
}

// note keeps the keys of sends whose outcome is not committed; they get lost with the process.
func (p *process) note(key string, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[key] = open
}

// arrivals queues what the inbox has committed.
type arrivals struct{ queue *keyed.Group[Item] }

func (a arrivals) Deliver(r mailbox.InboxRow)               { a.queue.Push(Item{Row: r}.Key(), Item{Row: r}) }
func (arrivals) Again(mailbox.InboxRow)                     {}
func (arrivals) Note(mailbox.InboxRow)                      {}
func (arrivals) Refused(mailbox.InboxRow, channel.Decision) {}

// Admit lets everybody in.
func (p *process) Admit(message.Message) channel.Admission { return channel.Admission{Allowed: true} }

// Capabilities and Send make the process its own way to the platform.
func (p *process) Capabilities() message.Capabilities {
	return message.Capabilities{Idempotent: p.platform.recognises}
}

func (p *process) Send(_ context.Context, r message.Reply) (message.Delivery, error) {
	if p.ctx.Err() != nil {
		p.note(r.Key, true)
		return message.Delivery{}, errDead
	}
	f := p.plan.next(&p.plan.sends)
	switch f {
	case fails:
		return message.Delivery{Outcome: message.NotSent}, nil
	case diesBefore, diesAfter:
		p.die()
	}
	if f == fine || f == diesAfter || f == sentUnknown {
		p.platform.arrive(r)
	}
	p.note(r.Key, true)
	if f == lostUnknown || f == sentUnknown {
		p.platform.unknown(r.Key)
	}
	if f != fine {
		return message.Delivery{Outcome: message.Unknown}, nil
	}
	return message.Delivery{Outcome: message.Sent}, nil
}

// live runs a host over a store until it dies or has come to rest, and gives it the messages that are not acknowledged yet.
// It returns those that still are not.
func live(t *testing.T, dir string, pl *plan, world *platform, waiting []message.Message) (left []message.Message) {
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Error(err)
		return nil
	}
	ctx, die := context.WithCancel(t.Context())
	p := &process{Store: s, plan: pl, platform: world, ctx: ctx, die: die, open: map[string]bool{}}
	log := slog.New(slog.DiscardHandler)
	outbox := channel.NewOutbox(channel.OutboxConfig{Store: p, Log: log})
	gen := &Generation{
		Number: 1, Table: table(), Models: script(parrot), Registry: tool.NewRegistry(), Names: []string{"helper"},
		Limits: Limits{Steps: 5, ToolCalls: 3, Tokens: 1000, Time: time.Hour}, Agents: map[string]*Agent{"helper": {Name: "helper", Window: DefaultWindow}},
		Roles: route.NewRoles(config.Access{}, route.AllProved), Admission: refuses(nil),
	}
	on := &around{generation: func() (*Generation, Policies) { return gen, chain{} }}
	cfg := on.config()
	cfg.Store, cfg.Outbox, cfg.Log = p, outbox, log
	runner := NewRunner(cfg)
	queue := keyed.New(100, runner.Work)
	inbox := channel.NewInbox(channel.InboxConfig{
		Store: p, Admitter: p, Takers: arrivals{queue},
	})
	items, err := Recover(ctx, p)
	if err != nil {
		t.Error(err)
	}
	for _, it := range items {
		queue.Push(it.Key(), it)
	}
	outbox.Attach("irc", p)
	var done sync.WaitGroup
	done.Go(func() { outbox.Run(ctx) })
	done.Go(func() { queue.Run(ctx) })
	for i, m := range waiting {
		if err := inbox.Take(ctx, m); err != nil {
			left = waiting[i:]
			break
		}
	}
	select {
	case <-time.After(3 * time.Hour): // of the bubble's clock
	case <-ctx.Done():
	}
	die()
	done.Wait()
	for key, open := range p.open {
		if open {
			world.unknown(key)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return left
}

// TestNothingIsLostOrAnsweredTwice runs hosts over one store, each until it dies of what was drawn, and looks at what
// people have seen in the end.
func TestNothingIsLostOrAnsweredTwice(t *testing.T) {
	base, begin := t.TempDir(), time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		if time.Since(begin) > 20*time.Second { // the race detector makes the store slow; the rest is for machines with time
			return
		}
		fates := func(label string, kinds ...fate) []fate {
			return rapid.SliceOfN(rapid.SampledFrom(append(slices.Repeat([]fate{fine}, 6), kinds...)), 0, 15).Draw(rt, label)
		}
		pl := &plan{writes: fates("writes", fails, fails, diesBefore, diesAfter), sends: fates("sends", fails, lostUnknown, sentUnknown, diesBefore, diesAfter)}
		recognises := rapid.Bool().Draw(rt, "recognises")
		where := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 6).Draw(rt, "conversations")
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			var waiting []message.Message
			for i, c := range where {
				waiting = append(waiting, message.Message{
					Channel: "irc", EventID: fmt.Sprint("e", i), Text: fmt.Sprintf("m%d.", i), Sender: message.Sender{ID: "ann"},
					Conversation: message.Conversation{ID: fmt.Sprint("c", c), Kind: message.DM}, Addressed: true,
				})
			}
			world := &platform{
				recognises: recognises, copies: map[string][]bool{}, texts: map[string]string{}, order: map[string][]string{}, unknowns: map[string]int{},
			}
			for n := 0; n == 0 || len(waiting) > 0 || len(pl.writes)+len(pl.sends) > 0 && n < 100; n++ {
				waiting = live(t, dir, pl, world, waiting)
			}
			live(t, dir, &plan{}, world, nil)
			wrong = judge(t, dir, world, where)
		})
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// judge says what was promised and not kept.
func judge(t *testing.T, dir string, world *platform, where []int) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		return []string{err.Error()}
	}
	defer s.Close()
	if items, err := Recover(t.Context(), s); err != nil || len(items) > 0 {
		complain("left to do: %+v (%v)", items, err)
	}
	if rows, err := s.UnsentOutbox(t.Context()); err != nil || len(rows) > 0 {
		complain("left to send: %+v (%v)", rows, err)
	}
	for key, marks := range world.copies {
		bare := 0
		for _, marked := range marks {
			if !marked {
				bare++
			}
		}
		if bare > 1 {
			complain("%s arrived %d times without a mark", key, bare)
		}
		if more := len(marks) - 1; more > world.unknowns[key] {
			complain("%s arrived %d times more than once, with %d unknown outcomes", key, more, world.unknowns[key])
		}
	}
	for i, c := range where {
		text := fmt.Sprintf("m%d.", i)
		answers, given := 0, false
		for _, answer := range world.texts {
			if strings.Contains(answer, text) {
				answers++
			}
		}
		turns, err := s.History(t.Context(), "irc", fmt.Sprint("c", c), 1000)
		if err != nil {
			complain("%v", err)
		}
		for _, turn := range turns {
			replies, err := s.Replies(t.Context(), turn.ID)
			if err != nil || len(replies) != 1 {
				complain("turn %s has %d replies (%v)", turn.ID, len(replies), err)
				continue
			}
			r := replies[0]
			given = given || r.State == mailbox.OutboxDead && world.unknowns[r.Reply.Key] > 1 && strings.Contains(r.Reply.Text, text)
		}
		if answers > 1 || answers == 0 && !given {
			complain("%s was answered %d times", text, answers)
		}
	}
	for c, texts := range world.order {
		var all []int
		for _, m := range strings.Split(strings.ReplaceAll(strings.ReplaceAll(strings.Join(texts, "\n"), "echo: ", ""), ".", ""), "\n") {
			var i int
			fmt.Sscanf(m, "m%d", &i)
			all = append(all, i)
		}
		if !slices.IsSorted(all) {
			complain("conversation %s was answered in the order %v", c, all)
		}
	}
	return wrong
}
