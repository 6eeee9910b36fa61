package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Subject says on whose behalf a call is made, and where: all facts for the
// decision that are not part of the call.
type Subject struct {
	Message message.Message
	Role    string // owner, member, guest
	Door    string // channel, web or terminal; the fact "door" of policies
	Agent   string
	Session message.SessionKey
	Turn    string
	// Offered are the tools that the agent may call; see Registry.Offered. Nil is none.
	Offered Set
	Labels  []string // provenance labels of the session
	// CallsInTurn counts the earlier tool calls of this turn, denied ones included.
	CallsInTurn int
	Used        policy.Usage // by the session so far, this turn's part included
	Sandbox     SandboxState
	// Local is true for the web page and the terminal of this machine.
	Local bool
	// Approve is the agent's setting for local frontends: ApproveShell (also the zero value) or ApproveNone.
	Approve string
	// Elevation returns the current state of elevated mode; nil is off.
	Elevation func() Elevation
	// Dir is the working folder of machine tools, which approvals show.
	Dir string
	// Parent is the agent that delegated the work, or nil. Its restrictions apply, too.
	Parent *Subject
}

// Values of Subject.Approve.
const (
	ApproveShell = "shell"
	ApproveNone  = "none"
)

// SandboxState is the configuration and the state of a subject's sandbox.
type SandboxState struct {
	// Configured is true if this session's machine tools run in the sandbox called Name.
	Configured bool
	Name       string // "" is the default sandbox
	// Names are the further sandboxes that a policy may demand; "" stands for the default one.
	Names []string
	// Unavailable returns the reason why there is no sandbox now, or nil. It is called for calls that need one only, and may wait for an engine
	// that is starting. Without it, there is one.
	Unavailable func() error
	// Digest identifies the contents of a sandbox: an approval holds for no other.
	Digest func(name string) string
	// OnUnavailable is UnavailableDeny (also the zero value) or UnavailableHost.
	OnUnavailable string
	// NoContainer is Unavailable for calls that have a container of their own.
	NoContainer func() error
}

// why returns what a function of SandboxState returns.
func why(unavailable func() error) error {
	if unavailable == nil {
		return nil
	}
	return unavailable()
}

// Values of SandboxState.OnUnavailable.
const (
	UnavailableDeny = "deny"
	UnavailableHost = "host"
)

// Action says how a call is carried out.
type Action string

// The actions, from loose to strict.
const (
	Run  Action = "run"
	Ask  Action = "ask"
	Deny Action = "deny"
)

// Values of Where for calls outside of the session's sandboxes: on the host, or in a container of the call's own. The name of a
// sandbox has no blank.
const (
	Host         = "host"
	OwnContainer = "own container"
)

// Decision is the decision on one call. Runner refuses the zero value.
type Decision struct {
	Action Action
	// Sandbox is true when the call must run in the sandbox SandboxName, never elsewhere.
	Sandbox     bool
	SandboxName string
	Where       string // for people: "host" or the sandbox's name
	// Elevated is true when the call leaves the sandbox by elevated mode.
	Elevated bool
	// Args are the call's arguments as canonical JSON. They are shown, bound and run with.
	Args    json.RawMessage
	Reasons []string // of restrictions, in order
	Records []policy.Record
	// Policy is a digest of the policies that were asked, in order; an approval is bound to it.
	Policy string
	// Refusal is the text for the model if the call is denied.
	Refusal string

	tool Tool
	spec Spec
}

// Policies decide about every call that is valid. They add restrictions.
type Policies interface {
	Tool(ctx context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record)
}

// EnforcerConfig configures an Enforcer. Only Registry is required.
type EnforcerConfig struct {
	Registry *Registry
	Policies Policies
	// Stopped is the kill switch: it returns why no tool may run, or "". It is read at every call.
	Stopped func() string
	// Elevated records that a call leaves the sandbox by elevated mode; without it no call does.
	Elevated func(ctx context.Context, s Subject, v Decision) error
	Now      func() time.Time
	Seed     func() int64 // the only randomness that a policy sees; recorded with its frame
	Log      *slog.Logger
}

// Enforcer decides about tool calls. Admit is the only function whose Decision lets a call run, for every
// caller: chat, web, schedule, delegation, HTTP, MCP, plugin callback.
type Enforcer struct{ config EnforcerConfig }

// NewEnforcer returns an Enforcer over the registry.
func NewEnforcer(c EnforcerConfig) (*Enforcer, error) {
	if c.Registry == nil {
		return nil, fmt.Errorf("make enforcer: no registry given")
	}
	if c.Stopped == nil {
		c.Stopped = func() string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Seed == nil {
		c.Seed = rand.Int64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Enforcer{config: c}, nil
}

// With returns an Enforcer with another registry, as for a session with a clone of its own.
func (e *Enforcer) With(r *Registry) *Enforcer {
	c := e.config
	c.Registry = r
	return &Enforcer{config: c}
}

// enforce decides whether a call runs, runs in a sandbox, waits for a person, or is refused.
//
// It starts from "run as it is" and only adds restrictions, those of the host's rules and those
// of the policies, so that their order cannot loosen anything. Every error denies.
func (e *Enforcer) enforce(ctx context.Context, s Subject, call model.ToolCall) (v Decision) {
	defer func() {
		if p := recover(); p != nil {
			e.config.Log.Error("tool_enforce_panic", "tool", call.Name, "agent", s.Agent, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			v.deny("deciding about this call failed inside the host; the host's log has the details")
		}
	}()
	if why := e.config.Stopped(); why != "" {
		v.deny("all tools are stopped: " + why)
		return v
	}
	known, ok := e.admissible(s, call, &v)
	if !ok {
		return v
	}
	v.tool, v.spec = known.tool, known.spec
	elevated := v.elevates(s)
	restrictions := e.askPolicies(ctx, s, elevated, &v)
	if err := ctx.Err(); err != nil {
		v.deny("the turn ended before a decision: " + err.Error())
		return v
	}
	place(s, restrictions, elevated, &v)
	if s.Parent != nil {
		v.join(s, e.enforce(ctx, *s.Parent, call))
	}
	return v
}

// admissible checks that the tool is offered and that the arguments are valid and fit its schema.
func (e *Enforcer) admissible(s Subject, call model.ToolCall, v *Decision) (entry, bool) {
	known, ok := e.config.Registry.lookup(call.Name)
	if !ok || !s.Offered.Has(call.Name) {
		v.deny(notOffered(call.Name, s.Offered))
		return entry{}, false
	}
	if r, ok := known.tool.(Revocable); ok {
		if why := r.Revoked(); why != "" {
			v.deny(why)
			return entry{}, false
		}
	}
	args, value, err := jsonform.Canonical(call.Args)
	if err != nil {
		v.deny(err.Error())
		return entry{}, false
	}
	v.Args = args
	schema, err := known.schema()
	if err != nil {
		v.deny("the tool's schema does not compile: " + err.Error())
		return entry{}, false
	}
	if err := checkSchema(schema, value); err != nil {
		v.deny("the arguments do not fit the tool's schema:\n" + err.Error())
		return entry{}, false
	}
	return known, true
}

// notOffered does not reveal whether the tool exists for others.
func notOffered(name string, offered Set) string {
	names := offered.Names()
	if len(names) == 0 {
		return fmt.Sprintf("tool %.64q is not offered; no tools are", name)
	}
	return fmt.Sprintf("tool %.64q is not offered; these are: %s", name, cut.Head(strings.Join(names, ", "), maxComplaint))
}

func (e *Enforcer) askPolicies(ctx context.Context, s Subject, elevated string, v *Decision) policy.Restrictions {
	if e.config.Policies == nil {
		v.Policy = digest(nil)
		return policy.Restrictions{}
	}
	r, records := e.config.Policies.Tool(ctx, policy.ToolFacts{
		Facts: policy.Facts{
			Message: s.Message.Own(),
			Role:    s.Role,
			Door:    s.Door,
			Labels:  s.Labels,
			Now:     e.config.Now(),
			Seed:    e.config.Seed(),
			Used:    s.Used,
		},
		Agent:       s.Agent,
		Session:     string(s.Session),
		Tool:        v.spec.Name,
		Effect:      string(v.spec.Effect),
		Args:        v.Args,
		Sandboxed:   v.spec.Own || v.spec.Machine && s.Sandbox.Configured && elevated == "" && why(s.Sandbox.Unavailable) == nil,
		CallsInTurn: s.CallsInTurn,
	})
	v.Records = records
	v.Policy = digest(records)
	return r
}

// digest identifies the policies that were asked, in order.
func digest(records []policy.Record) string {
	h := sha256.New()
	for _, r := range records {
		fmt.Fprintf(h, "%q %q\n", r.Policy, r.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}
