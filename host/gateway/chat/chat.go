// Package chat is the plain terminal client of the gateway, behind `flynn chat`.
//
// Start with Run. It sends each line of its input to a conversation of the channel "terminal", and prints answers to Out
// as they stream, and tool calls, decisions and questions to Err. From a pipe it waits for the answer to a line before it
// reads the next, and ends with the input. It reconnects after a restart of the host, and nothing is answered twice.
package chat

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client/link"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// ErrTurnFailed is returned if some line was not answered: its turn failed or was stopped, or the host refused it.
var ErrTurnFailed = errors.New("not every line was answered")

// Ways to answer requests for approval.
const (
	Ask  = "ask"  // the next line of the input is the answer
	Wait = "wait" // somebody answers elsewhere, such as on the web page
	Deny = "deny"
)

// DefaultTimeout is how long a line may wait for its answer.
const DefaultTimeout = 15 * time.Minute

// Config says what to talk to and how.
type Config struct {
	URL          string // http://127.0.0.1:7351
	Token        string
	Conversation string // letters, digits, '.', '_', '-'; empty means "main"
	In           io.Reader
	Out, Err     io.Writer
	// Interactive prompts, and reads on while an answer is under way.
	Interactive bool
	// Approvals is Ask, Wait or Deny; empty means Ask when Interactive and Deny otherwise.
	Approvals string
	// JSON prints every event as one line instead of text.
	JSON bool
	// Color dims what is not an answer.
	Color bool
	// Timeout of one answer; zero means DefaultTimeout. Interactive has none.
	Timeout time.Duration
	// Patience is how long a lost host may stay away; zero means two minutes when Interactive, and else as long as a restart takes, so
	// that a script fails soon.
	Patience time.Duration
}

const (
	terminalPatience = 2 * time.Minute
	pipePatience     = 15 * time.Second
)

// Run returns when the input has ended and everything is answered, or when ctx ends. A goroutine that is blocked in
// reading In outlives it, until In is closed or the process ends.
func Run(ctx context.Context, cfg Config) error {
	approvals, patience := Deny, pipePatience
	if cfg.Interactive {
		approvals, patience = Ask, terminalPatience
	}
	cfg.Conversation, cfg.Timeout = cmp.Or(cfg.Conversation, "main"), cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Approvals = cmp.Or(cfg.Approvals, approvals)
	l, err := link.New(cfg.URL, cfg.Token, gateway.ChannelTerminal, cfg.Conversation)
	if err != nil {
		return err
	}
	l.Patience = cmp.Or(cfg.Patience, patience)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &talk{cfg: cfg, link: l, lines: readLines(ctx, cfg.In), print: newPrinter(cfg)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		return t.run(ctx)
	})
	return g.Wait()
}

// line is one line of the input, or the error that ended it.
type line struct {
	text string
	err  error
}

// readLines reads no more than one line ahead.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		defer close(lines)
		sc := bufio.NewScanner(in)
		sc.Buffer(nil, message.MaxText)
		for sc.Scan() {
			select {
			case lines <- line{text: sc.Text()}:
			case <-ctx.Done():
				return
			}
		}
		err := sc.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line is longer than %d bytes; put the text into a file and name the file", message.MaxText)
		}
		if err != nil {
			select {
			case lines <- line{err: err}:
			case <-ctx.Done():
			}
		}
	}()
	return lines
}

// talk connects the input and the link. All of it runs in one goroutine.
type talk struct {
	cfg   Config
	link  *link.Link
	lines <-chan line
	print *printer

	intro    *gateway.Intro
	ready    bool // the first history has come
	question *question
	running  bool               // a turn is under way
	asking   []gateway.Approval // the first one is on the screen
	shown    []string           // approvals that were handled
	failed   bool
}

// question is the line that waits for its answer.
type question struct {
	id   string
	turn string // that started after the line was sent
	any  bool   // the connection was lost since: any turn that ends may have answered it
	due  *time.Timer
}

func (t *talk) run(ctx context.Context) error {
	defer t.answered()
	for {
		if t.lines == nil && !t.busy() {
			t.print.end()
			if t.failed {
				return ErrTurnFailed
			}
			return nil
		}
		select {
		case l, ok := <-t.input():
			if !ok {
				t.lines = nil
				continue
			}
			if l.err != nil {
				return fmt.Errorf("read the input: %w", l.err)
			}
			t.line(ctx, l.text)
		case u, ok := <-t.link.Updates:
			if !ok {
				return nil // Link.Run returns the error
			}
			if err := t.update(ctx, u); err != nil {
				return err
			}
		case <-t.due():
			return fmt.Errorf("no answer came within %s", t.cfg.Timeout)
		case <-ctx.Done():
			t.print.end()
			return ctx.Err()
		}
	}
}

// busy reports whether a line is still unanswered.
func (t *talk) busy() bool { return !t.ready || t.question != nil || t.running || t.link.Pending() }

// input is the channel of lines, while a line can be used.
func (t *talk) input() <-chan line {
	switch {
	case !t.ready:
		return nil
	case len(t.asking) > 0 && t.cfg.Approvals == Ask, t.cfg.Interactive, !t.busy():
		return t.lines
	}
	return nil
}

func (t *talk) due() <-chan time.Time {
	if t.question == nil || t.cfg.Interactive {
		return nil
	}
	return t.question.due.C
}

func (t *talk) line(ctx context.Context, text string) {
	t.print.lineRead()
	if len(t.asking) > 0 && t.cfg.Approvals == Ask {
		t.answerApproval(ctx, text)
		return
	}
	command := strings.TrimSpace(text)
	switch {
	case command == "":
		t.prompt()
		return
	case command == "/stop" && t.busy(): // otherwise the host answers that there is nothing to stop
		if err := t.link.Stop(ctx); err != nil {
			t.print.note("cannot stop: " + err.Error())
		}
		return
	case command == "/quit" || command == "/exit":
		t.lines, t.question, t.running = nil, nil, false
		return
	}
	t.answered()
	t.question = &question{id: rand.Text(), due: time.NewTimer(t.cfg.Timeout)}
	t.link.Send(ctx, t.question.id, text)
}

// answered forgets the question.
func (t *talk) answered() {
	if t.question != nil {
		t.question.due.Stop()
		t.question = nil
	}
}

func (t *talk) prompt() {
	if t.cfg.Interactive && t.lines != nil && len(t.asking) == 0 {
		t.print.prompt()
	}
}

func (t *talk) update(ctx context.Context, u link.Update) error {
	if u.Lost != nil {
		t.print.note("connection lost; trying again")
		if t.question != nil {
			t.question.any = true
		}
		return nil
	}
	f := u.Frame
	switch f.Type {
	case gateway.TypeWelcome:
		t.intro = f.Intro
	case gateway.TypeHistory:
		t.history(f.Entries)
	case gateway.TypeEvent:
		if f.Event != nil {
			t.event(*f.Event)
		}
	case gateway.TypeApprovals:
		t.approvals(ctx, f.Approvals)
	case gateway.TypeError:
		t.print.note("flynn says: " + f.Message)
		if t.question != nil && f.ID == t.question.id {
			t.failed = true
			t.answered()
			t.prompt()
		}
	}
	return nil
}

// history prints what was missed while the connection was lost. The first history is the past and is not printed.
func (t *talk) history(entries []gateway.Entry) {
	last := len(entries) - 1
	t.running = last >= 0 && !entries[last].Final()
	if !t.ready {
		t.ready = true
		for _, e := range entries {
			t.print.seen(e.Key)
		}
		if t.cfg.Interactive && !t.cfg.JSON && t.intro != nil && len(entries) == 0 {
			t.print.note(t.intro.Text())
		}
		t.prompt()
		return
	}
	if t.question == nil {
		return
	}
	at := slices.IndexFunc(entries, func(e gateway.Entry) bool { return e.From == gateway.FromUser && e.Key == t.question.id })
	if at < 0 {
		return // the link sends it again
	}
	for _, e := range entries[at:] {
		if e.Final() {
			t.print.past(e)
			t.failed = t.failed || e.IsError
			t.answered()
			t.prompt()
			return
		}
	}
}

func (t *talk) event(e message.Event) {
	t.print.event(e)
	switch e.Kind {
	case message.TurnStarted:
		t.running = true
		if t.question != nil && t.question.turn == "" {
			t.question.turn = e.Turn
		}
	case message.TurnFailed:
		t.failed = true
	case message.TurnDone:
		t.running = false
		if t.question != nil && (t.question.any || t.question.turn == e.Turn) {
			t.answered()
		}
		t.prompt()
	}
}

// approvals handles the requests of this conversation; others belong to their own frontends.
func (t *talk) approvals(ctx context.Context, list []gateway.Approval) {
	var mine []gateway.Approval
	here := string(message.NewConversationKey(gateway.ChannelTerminal, t.cfg.Conversation))
	for _, a := range list {
		if a.Session.Parse().Scope == here {
			mine = append(mine, a)
		}
	}
	t.withdraw(mine)
	for _, a := range mine {
		if slices.Contains(t.shown, a.ID) {
			continue
		}
		t.shown = append(t.shown, a.ID)
		switch t.cfg.Approvals {
		case Ask:
			t.asking = append(t.asking, a)
			if len(t.asking) == 1 {
				t.print.ask(a)
			}
		case Wait:
			t.print.request(a)
			t.print.note("waiting for an answer on the web page")
		default:
			t.print.request(a)
			t.print.note("denied: the input is not a terminal; use --approvals ask or wait")
			t.decide(ctx, a.ID, false, "")
		}
	}
}

// withdraw removes questions that somebody has answered elsewhere.
func (t *talk) withdraw(open []gateway.Approval) {
	if len(t.asking) == 0 {
		return
	}
	first := t.asking[0].ID
	t.asking = slices.DeleteFunc(t.asking, func(a gateway.Approval) bool {
		return !slices.ContainsFunc(open, func(b gateway.Approval) bool { return b.ID == a.ID })
	})
	if len(t.asking) == 0 || t.asking[0].ID != first {
		t.print.note("answered elsewhere")
		t.askNext()
	}
}

func (t *talk) askNext() {
	if len(t.asking) > 0 {
		t.print.ask(t.asking[0])
	}
}

// answerApproval takes a line as the answer to the question on the screen. Only a clear yes grants.
func (t *talk) answerApproval(ctx context.Context, text string) {
	a := t.asking[0]
	switch word := strings.ToLower(strings.TrimSpace(text)); {
	case word == "y" || word == "yes":
		t.decide(ctx, a.ID, true, "")
	case a.MaySession && (word == "s" || word == "session"):
		t.decide(ctx, a.ID, true, string(consent.GrantSession))
	case a.MayStanding && (word == "a" || word == "always"):
		t.decide(ctx, a.ID, true, string(consent.GrantStanding))
	case word == "" || word == "n" || word == "no":
		t.decide(ctx, a.ID, false, "")
	default:
		t.print.again(a)
		return
	}
	t.asking = t.asking[1:]
	t.askNext()
}

func (t *talk) decide(ctx context.Context, id string, grant bool, scope string) {
	if err := t.link.Decide(ctx, id, grant, scope); err != nil {
		t.print.note("cannot answer: " + err.Error())
		// The next connection lists the request again.
		t.shown = slices.DeleteFunc(t.shown, func(s string) bool { return s == id })
	}
}
