package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// noticePeriod is the shortest time between two lines about a machine that is being prepared.
const noticePeriod = time.Second

// waiting says what a call waits for.
type waiting struct {
	mu   sync.Mutex
	line string
}

func (w *waiting) set(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = line
}

func (w *waiting) get() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line
}

// noticed returns a context through which the watchers of the turn learn what delays a call.
func (p *performer) noticed(ctx context.Context, c model.ToolCall, w *waiting) (_ context.Context, stop func()) {
	show, stop := machine.Throttle(noticePeriod, func(line string) {
		p.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: line + "\n", Waiting: true})
	})
	return machine.WithNotice(ctx, func(line string) {
		w.set(line)
		show(line)
	}), stop
}

// awaitMachine gets the machine for a call. A sender over a channel sees no progress, and is told once what the call waits for if that
// takes longer than Config.Patience.
func (p *performer) awaitMachine(ctx context.Context, v tool.Decision, w *waiting) (machine.Machine, error) {
	var m machine.Machine
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		m, err = p.machine(ctx, v)
	}()
	patience := time.NewTimer(p.patience)
	defer patience.Stop()
	select {
	case <-done:
		return m, err
	case <-patience.C:
	}
	if line := w.get(); line != "" && !p.silent && route.Frontend(p.row.Channel) == route.FrontendChannel {
		p.onTurn(ctx, func() { p.tell(ctx, "This takes a while: "+line) })
	}
	<-done
	return m, err
}

// accompany runs a call. While an agent CLI prints nothing, perhaps because it is retrying its API, watchers are told every cfg.Quiet
// that it is still running, and a sender over a channel is told once.
func (p *performer) accompany(ctx context.Context, c model.ToolCall, call tool.Call, run func(tool.Call) tool.Result) tool.Result {
	if c.Name != cli.ToolName {
		return run(call)
	}
	heard := make(chan struct{}, 1)
	hear := func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
	progress, say := call.Progress, call.Say
	call.Progress = func(b []byte) { hear(); progress(b) }
	call.Say = func(text string) { hear(); say(text) }
	done := make(chan tool.Result, 1)
	go func() {
		r := tool.Result{Text: "the call was not run: " + errBroken.Error(), IsError: true}
		defer func() { done <- r }()
		defer recovered(p.log, "turn", p.row.ID, func() {})
		r = run(call)
	}()
	since, told := time.Now(), false
	quiet := time.NewTicker(p.quiet)
	defer quiet.Stop()
	for {
		select {
		case r := <-done:
			return r
		case <-heard:
			since = time.Now()
			quiet.Reset(p.quiet)
		case <-quiet.C:
			line := fmt.Sprintf("%s is still at work; it has printed nothing for %s.", p.agent.CLI.Name, time.Since(since).Round(time.Second))
			p.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: line + "\n", Waiting: true})
			if !told && !p.silent && route.Frontend(p.row.Channel) == route.FrontendChannel {
				p.onTurn(ctx, func() { p.tell(ctx, line) })
				told = true
			}
		}
	}
}

// tell sends a notice before the answer. It is committed like a reply, so that it is neither lost nor repeated.
func (p *performer) tell(ctx context.Context, text string) {
	r := message.Reply{
		Key: p.row.ID + "/" + store.NewID(p.clock()), Channel: p.row.Channel, Conversation: p.row.Conversation, ReplyTo: answers(p.origin),
		Text: text,
	}
	p.pending.Replies = append(p.pending.Replies, r)
	if err := p.commit(ctx); err != nil {
		p.log.Error("cannot keep a notice sent before the answer", "turn", p.row.ID, "error", err)
		return
	}
	p.outbox.Push(p.row.ID, r)
}

// onTurn runs a function on the turn's goroutine, to which all that is recorded belongs.
func (p *performer) onTurn(ctx context.Context, do func()) {
	if p.callbacks == nil {
		do()
		return
	}
	select {
	case p.callbacks <- do:
	case <-ctx.Done():
	}
}
