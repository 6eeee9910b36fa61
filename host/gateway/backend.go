package gateway

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Backend is what the gateway needs of the host, by subject. Conversations, Approvals and Status are required; the paths of a subject
// that is nil are not served. All methods are safe for concurrent use. Unless they say otherwise, their errors are store.ErrNotFound and
// store.ErrConflict.
type Backend struct {
	Conversations Conversations
	Approvals     Approvals
	Status        Reporter
	Access        Access
	Events        Events
	Agents        Agents
	Explains      Explains
	Halter        Halter
	Keys          store.KeyedWrites
	Logs          Logs
	DryRuns       DryRuns
	Files         Files
	Memory        Memory
	Models        Models
	People        People
	Plugins       Plugins
	Policies      Policies
	Trials        PolicyTrials
	Decisions     Decisions
	Turns         Turns
	Sandboxes     Sandboxes
	Previews      Previews
	Reloads       Reloader
	Routing       Routing
	Schedules     Schedules
	Sessions      Sessions
	SignIns       SignIns
	Usages        Usages

	Configurations Configurations
	Secrets        Secrets
	Channels       Channels
	Cluster        Cluster
	Doctor         Doctor
	Installed      InstalledPlugins
}

// Conversations accepts messages, and shows and deletes conversations.
type Conversations interface {
	// Submit accepts a message: when it returns nil the message is durable and will be answered. The same
	// channel and event id twice is accepted once, and nil both times.
	Submit(ctx context.Context, m message.Message) error
	// Watch watches a conversation until stop is called. live are the past events of the running turns, which History does not have; see
	// watch.Hub. The buffer is bounded: the channel of a watcher that is too slow is closed, and the watcher reads History after
	// watching again.
	Watch(channel, conversation string) (live []message.Event, events <-chan message.Event, stop func())
	// History returns the last entries of a conversation, oldest first, those of a running turn included.
	History(ctx context.Context, channel, conversation string, limit int) ([]Entry, error)
	// Entries is a page of History, with all entries that came before as the next pages.
	Entries(ctx context.Context, channel, conversation, cursor string, limit int) (Page[Entry], error)
	// Search finds what was said, latest first; in turns of one sender only, unless of is empty.
	Search(ctx context.Context, words string, of message.SenderKey, cursor string, limit int) (Page[Hit], error)
	// Rename gives a conversation a title.
	Rename(ctx context.Context, channel, conversation, title string) error
	// Fork makes a conversation of a caller's own, with what was said in another one up to an entry, and with its files if they fit.
	Fork(ctx context.Context, channel, conversation string, f Fork, by Caller) (Forked, error)
	// PlanUndo returns what an undo of changed files in a conversation would change, and Undo does it: store.ErrConflict while something
	// runs there, or if the plan is not the confirmed one any more.
	PlanUndo(ctx context.Context, channel, conversation string, back int) (snapshot.Plan, error)
	Undo(ctx context.Context, channel, conversation string, u Undo, by Caller) (snapshot.Plan, error)
	// Export writes a conversation, as Markdown or as the files of flynn session export one after the other.
	Export(ctx context.Context, channel, conversation string, markdown bool, w io.Writer) error
	// Conversations lists a part of the known conversations, latest first.
	Conversations(ctx context.Context, f ConversationFilter) (Page[ConversationInfo], error)
	// Conversation is one of those that Conversations lists; store.ErrNotFound if there is none.
	Conversation(ctx context.Context, channel, conversation string) (ConversationInfo, error)
	// BelongsTo reports whether a conversation is one of a sender's, and nobody else was ever answered in it.
	BelongsTo(ctx context.Context, sender message.SenderKey, channel, conversation string) (bool, error)
	// Stop ends the running turn of a conversation; without one it does nothing.
	Stop(ctx context.Context, channel, conversation string) error
	// DeleteConversation deletes all sessions of a conversation that Conversations lists: store.ErrNotFound if it has none,
	// store.ErrConflict while a turn runs there, unless stop is true, which ends the turn first.
	DeleteConversation(ctx context.Context, channel, conversation, by string, stop bool) error
}

// Approvals answers the requests that wait for a person.
type Approvals interface {
	// Approvals returns the requests that wait for a person, oldest first.
	Approvals(ctx context.Context) ([]consent.Approval, error)
	// Decide answers a request: store.ErrNotFound if there is none, store.ErrConflict if it is answered already.
	Decide(ctx context.Context, approval string, grant bool, by string) error
	// Grant answers a request with yes, for longer than this call: scope is session or standing, span zero for the usual time.
	// ErrBadGrant if it cannot be allowed like that.
	Grant(ctx context.Context, approval string, scope string, span time.Duration, pattern, by string) error
	// Offer returns how a request may be answered.
	Offer(a consent.Approval) Offer
	// Grants lists the latest grants, oldest first.
	Grants(ctx context.Context) ([]Grant, error)
	// Revoke ends a grant: store.ErrNotFound if there is none.
	Revoke(ctx context.Context, id, by string) error
	// Audit lists when grants were made, used and ended.
	Audit(ctx context.Context, f consent.AuditFilter) ([]consent.AuditRow, error)
}

// Reporter reports the state of the host.
type Reporter interface {
	Status(ctx context.Context) Status
	// Intro returns what an empty conversation of a frontend shows its owner.
	Intro(channel string, owner message.SenderKey) Intro
	// Ready returns nil when messages are accepted and answered.
	Ready(ctx context.Context) error
}

// From names the author of an entry.
type From string

// The kinds of entries.
const (
	FromUser  From = "user"
	FromAgent From = "agent"
	FromTool  From = "tool"
)

// Entry is one piece of a conversation as people see it. Every turn that has ended closes with a final
// entry of the agent: one with a Key, or with IsError when the turn failed or was stopped.
type Entry struct {
	From  From      `json:"from"`
	Agent string    `json:"agent,omitempty"`
	Text  string    `json:"text,omitempty"` // Markdown of an agent, output of a tool
	Time  time.Time `json:"time,omitzero"`
	// Turn is empty for a message that waits for one. Those come last.
	Turn string `json:"turn,omitempty"`
	// Key is the event id of a user's entry and the idempotency key of a reply; empty for text
	// that an agent wrote between tool calls.
	Key     string    `json:"key,omitempty"`
	IsError bool      `json:"is_error,omitempty"`
	Files   []string  `json:"files,omitempty"` // names of the files of a message
	Call    *ToolCall `json:"call,omitempty"`  // set for FromTool
}

// Final reports whether the entry ends a turn.
func (e Entry) Final() bool { return e.From == FromAgent && (e.Key != "" || e.IsError) }

// ToolCall is a tool call and what enforcement decided about it.
type ToolCall struct {
	ID       string          `json:"id"` // as in message.Event.Call
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args,omitempty"`
	Decision string          `json:"verdict,omitempty"` // as in message.Event.Decision
	Where    string          `json:"where,omitempty"`
	Reasons  []string        `json:"reasons,omitempty"`
	Approval string          `json:"approval,omitempty"` // id, while or after a person is asked
	// Done is true when the entry's Text is the whole result.
	Done bool `json:"done,omitempty"`
}

// ConversationFilter chooses conversations. The zero value chooses all on this machine.
type ConversationFilter struct {
	Of     message.SenderKey // only private ones of a sender, at the console and on channels
	From   ConversationFrom
	Cursor string
	Limit  int // 0 for all
}

// ConversationFrom says whose conversations are listed.
type ConversationFrom string

// Whose conversations are listed; the empty one is all.
const (
	FromPeople   ConversationFrom = "people"
	FromPrograms ConversationFrom = "programs" // API clients and schedules
)

// Has reports whether a conversation is among those.
func (f ConversationFrom) Has(program bool) bool {
	return f != FromPeople && f != FromPrograms || program == (f == FromPrograms)
}

// ConversationInfo is a line of the list of conversations.
type ConversationInfo struct {
	Channel string    `json:"channel"`
	ID      string    `json:"id"`
	Title   string    `json:"title,omitempty"` // the first words, or what a person called it
	Agent   string    `json:"agent,omitempty"`
	Last    time.Time `json:"last,omitzero"`
	Running bool      `json:"running,omitempty"` // a turn is under way
	Turns   int       `json:"turns,omitempty"`   // of all its sessions
	Program bool      `json:"program,omitempty"` // it is one of an API client or a schedule
}

// Status is the state of the host for people.
type Status struct {
	Version    string          `json:"version,omitempty"`
	Generation uint64          `json:"generation"`
	Started    time.Time       `json:"started,omitzero"`
	Agents     []AgentStatus   `json:"agents"`
	Channels   []ChannelStatus `json:"channels"`
	Tools      []ToolsStatus   `json:"tools,omitempty"`
	Policies   []PolicyStatus  `json:"policies"`
	Models     []ModelStatus   `json:"models,omitempty"`
	Sandbox    SandboxStatus   `json:"sandbox"`
	Queue      QueueStatus     `json:"queue"`
	Budgets    []BudgetStatus  `json:"budgets"`
	// Errors are the last warnings and errors of the log, oldest first.
	Errors []hostlog.Record `json:"errors"`
	// Halt is set while the kill switch is on.
	Halt *HaltStatus `json:"halt,omitempty"`
	// Idle says why this host gets no work of those that share its store: drained or differs; empty if it gets some.
	Idle string `json:"idle,omitempty"`
	// Elevated are the conversations whose tools may leave the sandbox now.
	Elevated []ElevationStatus `json:"elevated"`
	// Warnings are sentences for the owner ("Docker is not available: tools run on the host with approval"), including one
	// for each policy that is not OK.
	Warnings []string `json:"warnings"`
}

// QueueStatus counts the work at hand.
type QueueStatus struct {
	Running int `json:"running"` // turns
	Waiting int `json:"waiting"` // messages that wait for a turn
	// Replies counts replies that are not delivered yet, by channel.
	Replies map[string]int `json:"replies"`
}

// BudgetStatus is the usage of today, of the host or of an agent that has a daily budget. A limit of 0 is none.
type BudgetStatus struct {
	Agent       string  `json:"agent,omitempty"` // "" for the host
	Tokens      int64   `json:"tokens"`
	TokensLimit int64   `json:"tokens_limit,omitempty"`
	USD         float64 `json:"usd"`
	USDLimit    float64 `json:"usd_limit,omitempty"`
}

// ElevationStatus is one conversation in elevated mode.
type ElevationStatus struct {
	Conversation message.ConversationKey `json:"conversation"`
	State        string                  `json:"state"` // ask or on
	Sender       message.SenderKey       `json:"sender"`
	Until        time.Time               `json:"until"`
}

// AgentStatus is one agent.
type AgentStatus struct {
	Name    string `json:"name"`
	Kind    string `json:"kind,omitempty"`
	Model   string `json:"model,omitempty"`
	Tools   string `json:"tools,omitempty"`   // profile
	Sandbox string `json:"sandbox,omitempty"` // name, or "" for the host
}

// ChannelStatus is one channel instance. State is a word ("connected", "starting", "quarantined").
type ChannelStatus struct {
	Name   string `json:"name"`
	Plugin string `json:"plugin,omitempty"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
	OK     bool   `json:"ok"`
	// Login is true while the operator has to scan a code.
	Login bool `json:"login,omitempty"`
}

// ToolsStatus is one provider of tools. Effect and Approve come from the configuration; Claims and Says from the provider.
type ToolsStatus struct {
	Name     string       `json:"name"`
	Plugin   string       `json:"plugin,omitempty"`
	State    string       `json:"state"`
	Detail   string       `json:"detail,omitempty"`
	OK       bool         `json:"ok"`
	Tools    []ToolStatus `json:"tools"`
	Problems []string     `json:"problems,omitempty"`
}

// ToolStatus is one tool of a provider.
type ToolStatus struct {
	Name     string   `json:"name"`
	Own      string   `json:"own"` // the provider's name for it
	Effect   string   `json:"effect"`
	Approve  string   `json:"approve"`
	Profiles []string `json:"profiles"`
	Agents   []string `json:"agents"` // who may call it
	Claims   string   `json:"claims"`
	Says     string   `json:"says"`
	Digest   string   `json:"digest"` // of everything that the provider says about the tool
	// Was is the digest before the last change, Changed the time of that change.
	Was     string    `json:"was,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// PolicyStatus is one policy of the chain.
type PolicyStatus struct {
	Name   string   `json:"name"`
	Kinds  []string `json:"kinds,omitempty"`
	Digest string   `json:"digest,omitempty"` // of the module in force with its data and limits
	State  string   `json:"state"`
	Detail string   `json:"detail,omitempty"`
	OK     bool     `json:"ok"`
	Path   string   `json:"path,omitempty"`
	// Version comes from the policy.toml beside the module, File is the module's SHA-256, Pinned that of a module that a person rolled
	// back to.
	Version   string    `json:"version,omitempty"`
	File      string    `json:"file,omitempty"`
	Pinned    string    `json:"pinned,omitempty"`
	Since     time.Time `json:"since,omitzero"` // it is in force
	Decisions int64     `json:"decisions"`
	Failures  int64     `json:"failures"`
	// Shadow policies decide without effect; ShadowOf names the policy of the chain that this one is compared with.
	Shadow   bool   `json:"shadow,omitempty"`
	ShadowOf string `json:"shadow_of,omitempty"`
	// Stateful counts the sampled decisions that a module in its first state would make differently.
	Stateful int64 `json:"stateful,omitempty"`
	// FuelTotal is that of all Decisions, FuelMax the most that one has cost, FuelLimit what one may cost.
	FuelTotal int64 `json:"fuel_total,omitempty"`
	FuelMax   int64 `json:"fuel_max,omitempty"`
	FuelLimit int64 `json:"fuel_limit,omitempty"`
	// Isolation is pure or warm. The policy is asked about Agents and Channels; empty is all.
	Isolation string   `json:"isolation,omitempty"`
	Agents    []string `json:"agents,omitempty"`
	Channels  []string `json:"channels,omitempty"`
	// AllowOnError lets calls pass when the policy fails.
	AllowOnError bool `json:"dangerously_allow_on_error,omitempty"`
}

// SandboxStatus reports whether tools can run in a sandbox.
type SandboxStatus struct {
	Enabled   bool   `json:"enabled"`
	Available bool   `json:"available"`
	Detail    string `json:"detail,omitempty"`
	// Engine makes the sandboxes, such as "Docker 28.0.1" or "native". Lacks are the limits that it cannot hold, each with the reason.
	Engine string   `json:"engine,omitempty"`
	Lacks  []string `json:"lacks,omitempty"`
}
