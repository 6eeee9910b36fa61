// Package agent answers messages: it claims the messages that wait in a conversation, routes them to a named agent, and runs the turn,
// committing each step.
//
// Start with Runner.Work, which a keyed queue calls, and turn.go, the loop. The package decides nothing about tools (package tool does)
// and sends nothing (package channel does).
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
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/host/tool/elevate"
)

// Agent is one named agent, ready to answer.
type Agent struct {
	Name    string
	Kind    string // KindChat, KindCode or KindCLI; empty means KindChat
	System  string // system prompt
	Tier    string
	Tools   []model.Tool // shown to its model
	Offered tool.Set     // tools that it may call
	Approve string       // as in tool.Subject
	Window  int          // of its model, in tokens
	// Tiers holds the context window of each tier that people may choose for the agent.
	Tiers map[string]int
	Queue string // mode for messages that come during a turn; empty means the channel's
	// Sandboxed is true when the configuration puts the agent's machine tools into the sandbox called Sandbox.
	Sandboxed bool
	Sandbox   string
	Delegates []string  // agents that it may delegate to
	Programs  *Programs // set for KindCode
	CLI       *CLI      // set for KindCLI
	// Registry has the single tool of a code or cli agent; nil means the generation's registry.
	Registry *tool.Registry
	// Budget limits what its model calls may use in a day.
	Budget budget.Amount
}

// Kinds of agents.
const (
	KindChat = "chat"
	KindCode = "code"
	KindCLI  = "cli"
)

// Generation is one state of the configuration, prepared for turns. A turn keeps the generation that it began with.
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
	Persons  Persons // nil means that no senders are linked
	// Queue is the default mode for messages that come during a turn, and Queues overrides it by channel.
	Queue  string
	Queues map[string]string
	// Idle is the silence after which a conversation begins anew; 0 means never.
	Idle time.Duration
	// Budgets are the daily budgets. Those of the agents are in Agent.Budget.
	Budgets   budget.Limits
	Admission Admission
	// LocalFrontends puts the calls of the local frontends into the sandbox as well.
	LocalFrontends bool
	// OnUnavailable is deny or host.
	OnUnavailable string
	// Sandboxes are the names of the sandboxes that a policy may require.
	Sandboxes  []string
	Delegation Delegation
	Strictness Strictness // nil means that no sandbox is stricter than another
	// Late lists, by agent, the tool providers that have not come up since the host started and whose tools the agent or one of its
	// delegates may be offered. The agent begins and resumes no turn until a generation without them is in force. The maker of
	// generations guarantees that there will be one, however long a provider takes.
	Late map[string][]string
	// Offline are the sandboxes without a network; "" is the default sandbox.
	Offline map[string]bool
}

// Persons knows which senders are the same person; *route.Scopes implements it.
type Persons interface {
	// Persons returns the sender keys of one person, the given one first.
	Persons(senderKey message.SenderKey) []message.SenderKey
}

// Admission decides whose messages are answered; *channel.Gate implements it.
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

// counted returns the limits that are checked between steps.
func (l Limits) counted() transcript.Limits {
	return transcript.Limits{Steps: l.Steps, ToolCalls: l.ToolCalls, Tokens: l.Tokens}
}

// Models streams model calls by tier; model.Set implements it.
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

// Machines provides the machines on which tools act.
type Machines interface {
	Host(session message.WorkspaceKey) (machine.Machine, error)
	// Sandbox returns the session's sandbox and creates it on first use.
	Sandbox(ctx context.Context, session message.WorkspaceKey, name string) (machine.Machine, error)
	// Dir returns the host path of the session's workspace.
	Dir(session message.WorkspaceKey) string
	// Digest identifies the present contents of a sandbox; "" means that there is no sandbox of that name.
	Digest(name string) string
	// Available returns why the session's sandbox of that name is unavailable, or nil. It may wait for the engine's first answer.
	Available(ctx context.Context, session message.WorkspaceKey, name string) error
	// Moved is called before each call that acts on a machine of the session. It returns one line about files and commands that have stayed on
	// another host, once; otherwise it is empty.
	Moved(ctx context.Context, session message.WorkspaceKey) string
}

// Snapshots keeps the files of workspaces, so that people can undo what a turn changed; *fleet.Fleet implements it.
type Snapshots interface {
	// Snapshot keeps the files as they are before a turn changes them, once for each turn. Settle is called at the end of such a turn.
	Snapshot(ctx context.Context, session message.WorkspaceKey, turn string)
	Settle(ctx context.Context, session message.WorkspaceKey, turn string)
	// FileNotes returns what the next turn has to know about its files, and ToldFiles forgets the first of them.
	FileNotes(session message.WorkspaceKey) []snapshot.Note
	ToldFiles(session message.WorkspaceKey, notes int)
}

// Approvals asks people for approval. A request survives the process but not its call; *approval.Service implements it.
type Approvals interface {
	tool.Approver
	// Withdraw ends a request whose call is over.
	Withdraw(ctx context.Context, id string) error
	// WithdrawAll withdraws the open requests of the turns for which ended returns true.
	WithdrawAll(ctx context.Context, ended func(turn string) bool) error
}

var _ Approvals = (*approval.Service)(nil)

// Tools runs admitted calls; tool.Runner implements it.
type Tools interface {
	Run(ctx context.Context, v tool.Decision, call tool.Call) tool.Result
}

// Store is the part of the store that a Runner uses.
type Store interface {
	mailbox.Inbox
	turnlog.Turns
	turnlog.Children
	turnlog.Scopes
	journal.Decisions
	usage.Log
	turnlog.Summaries
	memory.Notes
	memory.Extractions
}

// Generations provides the configuration and the policies in force.
type Generations interface {
	// InForce returns the generation in force and its policies. The caller releases the policies.
	InForce() (*Generation, Policies)
	// Scope returns the key of the conversation scope of a message.
	Scope(m message.Message) string
}

// Backlog is the queued work by conversation scope; *Queue implements it.
type Backlog interface {
	// Push queues a turn that has begun and runs beside its conversation. It must not block.
	Push(it Item)
	// Waiting returns the items that were queued in a scope since Work was called for it.
	Waiting(scope string) []Item
}

// Orders carries out chat commands; *command.Service implements it.
type Orders interface {
	// Order carries out a command that was queued in a scope, and settles its row.
	Order(ctx context.Context, scope string, row mailbox.InboxRow)
}

// Inbox takes messages that the host itself writes, each event once; *channel.Inbox implements it.
type Inbox interface {
	Accept(ctx context.Context, m message.Message) error
}

// Outbox delivers committed replies; *channel.Outbox implements it.
type Outbox interface {
	Push(turn string, r message.Reply)
	// TakeUp queues the replies over a channel that another host has written, if this one sends them.
	TakeUp(ctx context.Context, channel string) error
}

// Notices tells people over channels what a turn is waiting for; *notice.Notices implements it.
type Notices interface {
	// Asked shows a request for approval. After a restart it may be called again for the same request.
	Asked(ctx context.Context, t turnlog.Turn, replyTo string, a consent.Approval)
	// Behind tells the sender of a message that an earlier turn is waiting for an approval. It is called once for each request and
	// conversation, and possibly again after a restart.
	Behind(t turnlog.Turn, m message.Message, a consent.Approval)
}

// Attachments provides the files that people send; *attachments.Files implements it.
type Attachments interface {
	// Take copies the files of a message into the session's workspace. For each file it returns the path, or why there is none.
	Take(ctx context.Context, session message.WorkspaceKey, m message.Message) []message.File
	// Image returns the image with the given digest, prepared for a model.
	Image(ctx context.Context, digest string) ([]byte, error)
}

// Elevations is elevated mode; *elevate.Mode implements it.
type Elevations interface {
	// Elevation returns what elevated mode permits a call of the agent in the turn.
	Elevation(t turnlog.Turn, agent string) tool.Elevation
	// Elevated records a call that leaves the sandbox.
	Elevated(ctx context.Context, s tool.Subject, v tool.Decision) error
}

var _ Elevations = (*elevate.Mode)(nil)

// Views shows running turns to people.
type Views interface {
	// Show opens a view of a turn. r is the reply that will end the turn, still without text. Show returns nil if nobody sees the turn.
	Show(r message.Reply) View
}

// Config configures a Runner. Snapshots, Orders, Queue, Inbox, Notices, Attachments, Views, Elevations, Budgets, Events and Ownership may be nil;
// without Ownership the host owns everything.
type Config struct {
	Store       Store
	Generations Generations
	Machines    Machines
	Snapshots   Snapshots
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
	Budgets     *budget.Accounts // the daily budgets
	Events      *event.Bus       // receives message.Event, TurnEnded and BudgetExceeded
	Ownership   Ownership
	// Stopped returns the reason if the kill switch is on, and "" otherwise.
	Stopped  func() string
	Now      func() time.Time
	Log      *slog.Logger
	Parallel int // turns that may run at a time, not counting those that wait for a person
	// Patience is how long the sender of a message waits for a sandbox before being told what the turn waits for; 0 means 10 s.
	Patience time.Duration
	// Quiet is how long an agent CLI may print nothing before watchers and the sender are told that it is still running; 0 means 30 s.
	Quiet time.Duration
}

// View shows one running turn.
type View interface {
	// Event is called with every event of the turn. It must not block.
	Event(message.Event)
	// Over closes the view.
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
	holdings *holdings
	arriving Arriving
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
		cfg.Queue = noop{}
	}
	if cfg.Notices == nil {
		cfg.Notices = noop{}
	}
	if cfg.Views == nil {
		cfg.Views = noop{}
	}
	if cfg.Ownership == nil {
		cfg.Ownership = alone{}
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
		notes:    &notes{scopes: cfg.Generations, by: map[string]*noted{}},
		children: supervisor,
		wake:     make(chan struct{}),
		sessions: newSessions(cfg.Store),
		holdings: &holdings{by: map[store.OwnerKey]*holding{}},
		ended:    make(chan struct{}, 1),
	}
}

// childQueue queues child turns like other turns.
type childQueue struct{ Backlog }

// PushChild implements children.Queue.
func (q childQueue) PushChild(t turnlog.Turn) { q.Push(Item{Turn: &t}) }

// noop stands in for the collaborators that are not configured.
type noop struct{}

func (noop) Push(Item)                                                     {}
func (noop) Waiting(string) []Item                                         { return nil }
func (noop) Asked(context.Context, turnlog.Turn, string, consent.Approval) {}
func (noop) Behind(turnlog.Turn, message.Message, consent.Approval)        {}
func (noop) Show(message.Reply) View                                       { return nil }
