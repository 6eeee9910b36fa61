// Package agent answers messages: it claims what waits in a conversation, routes
// it to a named agent, and runs the turn, step by committed step.
//
// Start with Runner.Work, which a lane calls, and turn.go, the loop. The package decides nothing about
// tools (package tool does) and sends nothing (package channel does).
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// Agent is one named agent, ready to answer.
type Agent struct {
	Name    string
	Kind    string // KindChat is also the zero value
	System  string // system prompt
	Tier    string
	Tools   []model.Tool // what its model is told
	Offered tool.Set     // what it may call
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

// Generation is everything that a turn is decided by, taken at its begin and kept to its end.
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
	// Persons are the sender keys of one person, the given one first; nil knows of no links.
	Persons func(senderKey string) []string
	// Queue is the mode for messages that come while an answer is made, Queues the same by channel.
	Queue  string
	Queues map[string]string
	// Idle is how long nothing is said until a place begins anew; 0 is for ever.
	Idle time.Duration
	// Budgets are those of a day; the agent's are its own.
	Budgets budget.Limits
	// Admits tells why a message is not to be answered, or "". It does not count the message.
	Admits func(message.Message) (why string)
	// LocalDoors puts local doors into the sandbox as well.
	LocalDoors bool
	// OnUnavailable is deny or host.
	OnUnavailable string
	// Sandboxes are the names that a policy may demand.
	Sandboxes  []string
	Delegation Delegation
	// Stricter reports whether one sandbox lets a command do nothing that another does not; nil knows of none.
	Stricter func(sandbox, other string) bool
	// Late are the providers, by agent, whose tools the agent or one of its delegates may be offered, and which have not come up since the
	// host started. Nothing begins and nothing resumes for the agent before a generation without them is in force; whoever makes
	// generations sees to it that one is, however long a provider takes.
	Late map[string][]string
	// Offline are the sandboxes that reach no network, "" for the default one.
	Offline map[string]bool
}

// Limits bound one turn.
type Limits struct {
	Steps     int
	ToolCalls int
	Tokens    int
	Time      time.Duration
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

// Machines hands out the places where tools act.
type Machines interface {
	Host(session string) (machine.Machine, error)
	// Sandbox returns the session's sandbox, made at its first use.
	Sandbox(ctx context.Context, session, name string) (machine.Machine, error)
	// Dir is the session's workspace as people know it, on the host.
	Dir(session string) string
	// Digest names what a sandbox is made of now; "" where there is none of that name.
	Digest(name string) string
	// Available tells why the sandbox cannot be had now, or nil.
	Available(name string) error
}

// Approvals asks people. A request ends with its call, whichever way that ends, but not with the process; *approval.Desk implements it.
type Approvals interface {
	tool.Approver
	// Withdraw ends a request whose call is over.
	Withdraw(ctx context.Context, id string) error
	// WithdrawAll withdraws the open requests of the turns that ended reports.
	WithdrawAll(ctx context.Context, ended func(turn string) bool) error
}

var _ Approvals = (*approval.Desk)(nil)

// Tools runs calls that may run; tool.Runner implements it.
type Tools interface {
	Run(ctx context.Context, v tool.Verdict, call tool.Call) tool.Result
}

// Store is the part of the store that a Runner works with.
type Store interface {
	store.Inbox
	store.Turns
	store.Children
	store.Places
	store.Decisions
	store.Usages
	store.Summaries
	store.Memory
	store.Extractions
}

// Config is what a Runner needs.
type Config struct {
	Store     Store
	Machines  Machines
	Approvals Approvals
	Tools     Tools
	// Generation returns the one in force and the policies in force, pinned.
	Generation func() (*Generation, Policies)
	// Place is the place that a message belongs to; its conversation where it is nil.
	Place func(message.Message) string
	// Order carries out an order to the host that stands in the queue, and settles its row.
	Order func(ctx context.Context, place string, row store.InboxRow)
	// Waiting shows what has come into the queue of a place since Work was called for it. It may be nil.
	Waiting func(place string) []Item
	// Ledger has the daily budgets; nil has none.
	Ledger *budget.Ledger
	// Full is called for each model call that a budget refused, for metrics; it may be nil.
	Full func(budget.Level)
	// Replied hands on a reply that was committed.
	Replied func(turn string, r message.Reply)
	// Asked tells people over channels of a request for approval; it may be told of one again after a restart. It may be nil.
	Asked func(ctx context.Context, t store.Turn, replyTo string, a store.Approval)
	// Behind tells the sender of a message that it waits behind a call of a turn for whose approval somebody is asked. It is called once for
	// each request and conversation, and may be again after a restart. It may be nil.
	Behind func(t store.Turn, m message.Message, a store.Approval)
	// Queue hands on a turn that was begun, to be worked on beside its conversation. It must not block.
	Queue func(Item)
	// Submit puts a message of the host's own into the inbox, which keeps each event once.
	Submit func(context.Context, message.Message) error
	// Publish shows an event to its watchers. It must not block.
	Publish func(message.Event)
	// Files puts what came with a message into the session's workspace and says what became of each; nil puts nothing there.
	Files func(ctx context.Context, session string, m message.Message) []message.File
	// Image reads an image of the media store for a model, by its digest; nil shows none.
	Image func(ctx context.Context, digest string) ([]byte, error)
	// Show is called for each turn that runs, by the reply that will end it, whose text is not known yet. It may be nil, and so may
	// what it returns.
	Show func(r message.Reply) View
	// Elevation says what holds of elevated mode for an agent's call of a turn, and Elevated writes down that a call leaves the
	// sandbox by it. Nil: it never holds.
	Elevation func(t store.Turn, agent string) tool.Elevation
	Elevated  func(ctx context.Context, s tool.Subject, v tool.Verdict) error
	// Stopped is the kill switch: why nothing may run, or "".
	Stopped  func() string
	Now      func() time.Time
	Log      *slog.Logger
	Parallel int // turns at work at a time; waiting for a person does not count
	// Patience is how long who writes over a channel waits for a sandbox without a word. 10 s
	Patience time.Duration
	// Quiet is how long an agent's program may print nothing before those who wait are told that it is still at work. 30 s
	Quiet time.Duration
	// Ended is called for a turn that is over, of a child's only where it ran in the background: others are over with their parent's
	// call. It may be nil.
	Ended func(turn string)
	// Observe is told how a turn ended and how long it took, for metrics; it may be nil.
	Observe func(agent string, state store.TurnState, took time.Duration)
}

// View shows one turn while it runs.
type View interface {
	// Event is what Publish is told. It must not block.
	Event(message.Event)
	// Over ends the view, whatever became of the turn.
	Over()
}

// Runner runs turns.
type Runner struct {
	cfg   Config
	slots chan struct{}

	notes     notes
	offspring offspring
	mu        sync.Mutex
	running   map[string]*active // by place
	wake      chan struct{}      // closed and replaced by Resume
	sessions  *sessions
	ended     chan struct{} // a turn waits for extraction
}

// NewRunner returns a runner.
func NewRunner(cfg Config) *Runner {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Stopped == nil {
		cfg.Stopped = func() string { return "" }
	}
	if cfg.Place == nil {
		cfg.Place = message.Message.ConversationKey
	}
	if cfg.Waiting == nil {
		cfg.Waiting = func(string) []Item { return nil }
	}
	if cfg.Asked == nil {
		cfg.Asked = func(context.Context, store.Turn, string, store.Approval) {}
	}
	if cfg.Behind == nil {
		cfg.Behind = func(store.Turn, message.Message, store.Approval) {}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, store.TurnState, time.Duration) {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(string) {}
	}
	if cfg.Full == nil {
		cfg.Full = func(budget.Level) {}
	}
	if cfg.Show == nil {
		cfg.Show = func(message.Reply) View { return nil }
	}
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	cfg.Quiet = cmp.Or(cfg.Quiet, 30*time.Second)
	if cfg.Parallel <= 0 {
		cfg.Parallel = 64
	}
	return &Runner{
		cfg:      cfg,
		slots:    make(chan struct{}, cfg.Parallel),
		running:  map[string]*active{},
		wake:     make(chan struct{}),
		sessions: newSessions(cfg.Store),
		ended:    make(chan struct{}, 1),
	}
}
