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

// noticePeriod is the shortest time between two lines about a machine that is being made.
const noticePeriod = time.Second

// waiting is what a call waits for.
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

// noticed returns a context whose audience is those who watch the turn: they learn what keeps a call waiting.
func (t *turn) noticed(ctx context.Context, c model.ToolCall, w *waiting) (_ context.Context, stop func()) {
	show, stop := machine.Throttle(noticePeriod, func(line string) {
		t.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: line + "\n", Waiting: true})
	})
	return machine.WithNotice(ctx, func(line string) {
		w.set(line)
		show(line)
	}), stop
}

// awaitMachine gets the machine for a call. Who writes over a channel sees no progress, so when getting it takes longer than
// their patience they are told once what it waits for.
func (t *turn) awaitMachine(ctx context.Context, v tool.Verdict, w *waiting) (machine.Machine, error) {
	var m machine.Machine
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		m, err = t.machine(ctx, v)
	}()
	patience := time.NewTimer(t.cfg.Patience)
	defer patience.Stop()
	select {
	case <-done:
		return m, err
	case <-patience.C:
	}
	if line := w.get(); line != "" && !t.silent && route.Door(t.row.Channel) == route.DoorChannel {
		t.onTurn(ctx, func() { t.tell(ctx, "This takes a while: "+line) })
	}
	<-done
	return m, err
}

// accompany runs a call. While an agent's program prints nothing, perhaps because its API does not answer and it tries again by itself,
// watchers hear every cfg.Quiet that it is still at work, and a sender over a channel hears it once.
func (t *turn) accompany(ctx context.Context, c model.ToolCall, call tool.Call, run func(tool.Call) tool.Result) tool.Result {
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
	call.Progress = func(p []byte) { hear(); progress(p) }
	call.Say = func(text string) { hear(); say(text) }
	done := make(chan tool.Result, 1)
	go func() {
		r := tool.Result{Text: "the call was not run: " + errBroken.Error(), IsError: true}
		defer func() { done <- r }()
		defer t.recovered("turn", t.row.ID, func() {})
		r = run(call)
	}()
	since, told := time.Now(), false
	quiet := time.NewTicker(t.cfg.Quiet)
	defer quiet.Stop()
	for {
		select {
		case r := <-done:
			return r
		case <-heard:
			since = time.Now()
			quiet.Reset(t.cfg.Quiet)
		case <-quiet.C:
			line := fmt.Sprintf("%s is still at work; it has printed nothing for %s.", t.agent.CLI.Name, time.Since(since).Round(time.Second))
			t.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: line + "\n", Waiting: true})
			if !told && !t.silent && route.Door(t.row.Channel) == route.DoorChannel {
				t.onTurn(ctx, func() { t.tell(ctx, line) })
				told = true
			}
		}
	}
}

// tell sends a word before the answer. It is committed like a reply, so that it is neither lost nor shown twice.
func (t *turn) tell(ctx context.Context, text string) {
	r := message.Reply{
		Key: t.row.ID + "/" + store.NewID(t.cfg.Now()), Channel: t.row.Channel, Conversation: t.row.Conversation, ReplyTo: answers(t.origin),
		Text: text,
	}
	t.pending.Replies = append(t.pending.Replies, r)
	if err := t.commit(ctx); err != nil {
		t.cfg.Log.Error("cannot keep a notice sent before the answer", "turn", t.row.ID, "error", err)
		return
	}
	t.cfg.Outbox.Push(t.row.ID, r)
}
