// Package agent answers messages: it claims what waits in a conversation, routes
// it to a named agent, and runs the turn, step by committed step.
//
// Start with Runner.Work, which a keyed queue calls, and turn.go, the loop. The package decides nothing about
// tools (package tool does) and sends nothing (package channel does).
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent/children"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/host/tool/elevate"
)

// Agent is one named agent, ready to answer.
type Agent struct {
	Name    string
	Kind    string // KindChat is also the zero value
	System  string // system prompt
	Tier    string
	Tools   []model.Tool // that its model is told of
	Offered tool.Set     // tools that it may call
	Approve string       // see tool.Subject
	Window  int          // tokens that its model can be shown; see Window
	// Tiers are those that people may choose for it, with the window of each.
	Tiers map[string]int
	Queue string // its own Queue mode; empty is the channel's
	// Sandboxed is true when configuration puts the agent's machine tools into the sandbox called Sandbox.
	Sandboxed bool
	Sandbox   string
	Delegates []string  // agents that it may give work to
	Programs  *Programs // of kind code
	CLI       *CLI      // the program of an agent of kind cli
	// Registry has the tool of those two kinds; nil is the generation's.
	Registry *tool.Registry
	// Budget is what its model calls may use in a day.
	Budget budget.Amount
}

// Kinds of agents.
const (
	KindChat = "chat"
	KindCode = "code"
	KindCLI  = "cli"
)

// Generation is one state of the configuration, made ready for turns. A turn keeps the one that it began with.
type Generation struct {
	Number   uint64
	Agents   map[string]*Agent
	Names    []string // of Agents, sorted
	Table    *route.Table
	Models   Models
	Registry *tool.Registry
	Limits   Limits
	Roles    *route.Roles
	Tasks    Tasks
	Persons  Persons // nil knows of no links
	// Queue is the mode for messages that come while an answer is made, Queues the same by channel.
	Queue  string
	Queues map[string]string
	// Idle is how long nothing is said until a place begins anew; 0 is for ever.
	Idle time.Duration
	// Budgets are those of a day; the agent's are its own.
	Budgets   budget.Limits
	Admission Admission
	// LocalDoors puts local doors into the sandbox as well.
	LocalDoors bool
	// OnUnavailable is deny or host.
	OnUnavailable string
	// Sandboxes are the names that a policy may demand.
	Sandboxes  []string
	Delegation Delegation
	Strictness Strictness // nil knows of no sandbox that is stricter than another
	// Late are the providers, by agent, whose tools the agent or one of its delegates may be offered, and which have not come up since the
	// host started. Nothing begins and nothing resumes for the agent before a generation without them is in force; the maker of
	// generations sees to it that one is, however long a provider takes.
	Late map[string][]string
	// Offline are the sandboxes that reach no network, "" for the default one.
	Offline map[string]bool
}

// Persons knows which senders are one person; *route.Scope implements it.
type Persons interface {
	// Persons returns the sender keys of one person, the given one first.
	Persons(senderKey message.SenderKey) []message.SenderKey
}

// Admission decides who is answered; *channel.Gate implements it.
type Admission interface {
	// Refusal returns why a message is not to be answered, or "". It does not count the message.
	Refusal(m message.Message) (why string)
}

// Strictness compares sandboxes.
type Strictness interface {
	// Stricter reports whether one sandbox lets a command do nothing that another does not.
	Stricter(sandbox, other string) bool
}

// Limits bound one turn.
type Limits struct {
	Steps     int
	ToolCalls int
	Tokens    int
	Time      time.Duration
}

// counted are the limits that are checked between steps.
func (l Limits) counted() transcript.Limits {
	return transcript.Limits{Steps: l.Steps, ToolCalls: l.ToolCalls, Tokens: l.Tokens}
}

// Models streams a call of a tier; model.Set implements it.
type Models interface {
	Stream(ctx context.Context, tier string, req model.Request, emit func(model.Delta)) (model.Response, error)
}

// Policies is a chain of policies, pinned for one turn.
type Policies interface {
	Routes() bool // whether any policy routes
	Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record)
	Tool(ctx context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record)
	Release()
}

// Machines has the machines on which tools act.
type Machines interface {
	Host(session string) (machine.Machine, error)
	// Sandbox returns the session's sandbox, made at its first use.
	Sandbox(ctx context.Context, session, name string) (machine.Machine, error)
	// Dir is the session's workspace as people know it, on the host.
	Dir(session string) string
	// Digest names what a sandbox is made of now; "" where there is none of that name.
	Digest(name string) string
	// Available returns why the sandbox cannot be had now, or nil.
	Available(name string) error
}

// Approvals asks people. A request ends with its call, whichever way that ends, but not with the process; *approval.Service implements it.
type Approvals interface {
	tool.Approver
	// Withdraw ends a request whose call is over.
	Withdraw(ctx context.Context, id string) error
	// WithdrawAll withdraws the open requests of the turns that ended reports.
	WithdrawAll(ctx context.Context, ended func(turn string) bool) error
}

var _ Approvals = (*approval.Service)(nil)

// Tools runs calls that may run; tool.Runner implements it.
type Tools interface {
	Run(ctx context.Context, v tool.Verdict, call tool.Call) tool.Result
}

// Store is the part of the store that a Runner works with.
type Store interface {
	mailbox.Inbox
	turnlog.Turns
	turnlog.Children
	turnlog.Places
	journal.Decisions
	usage.Log
	turnlog.Summaries
	memory.Notes
	memory.Extractions
}

// Generations has what turns are decided by.
type Generations interface {
	// InForce returns the generation in force with its policies, which the turn releases.
	InForce() (*Generation, Policies)
	// Place returns the place that a message belongs to.
	Place(m message.Message) string
}

// Backlog is the work that waits, by place; *Queue implements it.
type Backlog interface {
	// Push queues a turn that was begun, to be worked on beside its conversation. It must not block.
	Push(it Item)
	// Waiting returns what has come into the queue of a place since Work was called for it.
	Waiting(place string) []Item
}

// Orders carries out what people tell the host itself; *command.Desk implements it.
type Orders interface {
	// Order carries out an order that stood in the queue of a place, and settles its row.
	Order(ctx context.Context, place string, row mailbox.InboxRow)
}

// Inbox takes messages of the host's own, each event once; *channel.Inbox implements it.
type Inbox interface {
	Accept(ctx context.Context, m message.Message) error
}

// Outbox delivers replies that were committed; *channel.Outbox implements it.
type Outbox interface {
	Push(turn string, r message.Reply)
}

// Notices tells people over channels what a turn waits for; *notice.Notices implements it.
type Notices interface {
	// Asked shows a request for approval. It may be called again for the same one after a restart.
	Asked(ctx context.Context, t turnlog.Turn, replyTo string, a consent.Approval)
	// Behind tells the sender of a message that it waits behind a call of a turn that needs an approval. It is called once for each request
	// and conversation, and may be again after a restart.
	Behind(t turnlog.Turn, m message.Message, a consent.Approval)
}

// Attachments has the files that people send; *attachments.Files implements it.
type Attachments interface {
	// Take puts what came with a message into the session's workspace, and returns for each file where it is or why not.
	Take(ctx context.Context, session string, m message.Message) []message.File
	// Image reads an image for a model, by its digest.
	Image(ctx context.Context, digest string) ([]byte, error)
}

// Elevations is elevated mode; *elevate.Mode implements it.
type Elevations interface {
	// Elevation returns what elevated mode allows an agent's call of a turn.
	Elevation(t turnlog.Turn, agent string) tool.Elevation
	// Elevated records that a call leaves the sandbox.
	Elevated(ctx context.Context, s tool.Subject, v tool.Verdict) error
}

var _ Elevations = (*elevate.Mode)(nil)

// Views shows turns while they run.
type Views interface {
	// Show shows a turn, by the reply that will end it, whose text is not known yet. It returns nil where nobody sees it.
	Show(r message.Reply) View
}

// Config is what a Runner needs. Orders, Queue, Inbox, Notices, Attachments, Views, Elevations, Ledger and Events may be nil: then there are
// none.
type Config struct {
	Store       Store
	Generations Generations
	Machines    Machines
	Approvals   Approvals
	Tools       Tools
	Outbox      Outbox
	Inbox       Inbox
	Queue       Backlog
	Orders      Orders
	Notices     Notices
	Attachments Attachments
	Views       Views
	Elevations  Elevations
	Ledger      *budget.Accounts // of the daily budgets
	Events      *event.Bus       // gets message.Event, TurnEnded and BudgetExceeded
	// Stopped returns why the kill switch lets nothing run, or "".
	Stopped  func() string
	Now      func() time.Time
	Log      *slog.Logger
	Parallel int // turns at work at a time; waiting for a person does not count
	// Patience is how long a sender over a channel waits for a sandbox before being told what the turn waits for. 10 s
	Patience time.Duration
	// Quiet is how long an agent's program may print nothing before watchers and the sender are told that it is still at work. 30 s
	Quiet time.Duration
}

// View shows one turn while it runs.
type View interface {
	// Event is called with each event of the turn. It must not block.
	Event(message.Event)
	// Over ends the view, however the turn ended.
	Over()
}

// Runner runs turns.
type Runner struct {
	cfg   Config
	slots chan struct{}

	*registry
	*notes
	children *children.Supervisor
	waking   sync.Mutex
	wake     chan struct{} // closed and replaced by Resume, under waking
	sessions *sessions
	ended    chan struct{} // a turn waits for extraction
}

// NewRunner returns a runner.
func NewRunner(cfg Config) *Runner {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Stopped == nil {
		cfg.Stopped = func() string { return "" }
	}
	if cfg.Queue == nil {
		cfg.Queue = nothing{}
	}
	if cfg.Notices == nil {
		cfg.Notices = nothing{}
	}
	if cfg.Views == nil {
		cfg.Views = nothing{}
	}
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	cfg.Quiet = cmp.Or(cfg.Quiet, 30*time.Second)
	if cfg.Parallel <= 0 {
		cfg.Parallel = 64
	}
	supervisor := children.New(children.Config{Queue: childQueue{cfg.Queue}, Inbox: cfg.Inbox, Log: cfg.Log})
	return &Runner{
		cfg:      cfg,
		slots:    make(chan struct{}, cfg.Parallel),
		registry: &registry{queue: cfg.Queue, notices: cfg.Notices, children: supervisor, running: map[string]*active{}},
		notes:    &notes{places: cfg.Generations, by: map[string]*noted{}},
		children: supervisor,
		wake:     make(chan struct{}),
		sessions: newSessions(cfg.Store),
		ended:    make(chan struct{}, 1),
	}
}

// childQueue queues children like other turns.
type childQueue struct{ Backlog }

// PushChild implements children.Queue.
func (q childQueue) PushChild(t turnlog.Turn) { q.Push(Item{Turn: &t}) }

// nothing is in the place of collaborators that a Runner does without.
type nothing struct{}

func (nothing) Push(Item)                                                     {}
func (nothing) Waiting(string) []Item                                         { return nil }
func (nothing) Asked(context.Context, turnlog.Turn, string, consent.Approval) {}
func (nothing) Behind(turnlog.Turn, message.Message, consent.Approval)        {}
func (nothing) Show(message.Reply) View                                       { return nil }
