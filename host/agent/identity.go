package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool"
)

// identity is the agent and the sender of a turn: all facts by which its calls are decided.
type identity struct {
	machines   Machines
	elevations Elevations // nil without elevated mode
	gen        *Generation
	policies   Policies
	agent      *Agent
	origin     message.Message // the first message: sender, conversation, frontend
	session    *session
	delegated  *delegated // nil for a turn of a conversation
	record     *recorder
	bounds     *bounds
}

// subjectOf returns the subject of calls that the agent of the chain makes. Deciding a call that needs the sandbox waits for it until ctx ends.
func (i *identity) subjectOf(ctx context.Context, a *Agent, session message.SessionKey, turn string) tool.Subject {
	row, local := &i.record.row, i.local(a)
	sandbox := tool.SandboxState{
		Configured:    a.Sandboxed && (!local || i.gen.LocalFrontends || a.Kind == KindCLI),
		Name:          i.sandbox(a),
		Names:         i.gen.Sandboxes,
		Unavailable:   sync.OnceValue(func() error { return i.machines.Available(ctx, i.workspaceKey(), i.sandbox(a)) }),
		Digest:        i.machines.Digest,
		OnUnavailable: i.gen.OnUnavailable,
	}
	if i.origin.Call != nil || a.Kind == KindCLI {
		sandbox.OnUnavailable = tool.UnavailableDeny // a call that asks for the sandbox never runs on the host instead
	}
	return tool.Subject{
		Message: i.origin, Role: i.role(), Door: route.Door(row.Channel), Agent: a.Name,
		Session: session, Turn: turn, Offered: a.Offered, Labels: i.session.labels,
		CallsInTurn: i.bounds.spent(&i.record.state).ToolCalls, Used: i.usage(), Sandbox: sandbox, Local: local, Approve: a.Approve,
		Dir: i.machines.Dir(i.workspaceKey()), Elevation: i.elevation(a),
	}
}

// rights returns the rights of the turn, limited by all agents above it in its chain. subject is the same for the calls of its model.
func (i *identity) rights(ctx context.Context) tool.Subject {
	var parent *tool.Subject
	if i.delegated != nil {
		for _, w := range i.delegated.above {
			s := i.subjectOf(ctx, w.agent, w.Session, w.Turn)
			s.Parent, parent = parent, &s
		}
	}
	s := i.subjectOf(ctx, i.agent, i.record.row.Session, i.record.row.ID)
	s.Parent = parent
	return s
}

// subject returns the rights of the model's calls. The model of an agent of kind code may only call the tool that runs a program; the
// turn's other rights are those of its programs.
func (i *identity) subject(ctx context.Context) tool.Subject {
	s := i.rights(ctx)
	if p := i.agent.Programs; p != nil {
		s.Offered, s.Sandbox.NoContainer = tool.NewSet(p.Tool), sync.OnceValue(func() error { return p.Available(ctx) })
		for up := s.Parent; up != nil; up = up.Parent {
			if up.Offered.Has(shellTool) { // an agent that may run any command may run a program
				up.Offered, up.Sandbox.NoContainer = s.Offered, s.Sandbox.NoContainer
			}
		}
	}
	return s
}

// enforcer returns the enforcer of the turn.
func (i *identity) enforcer() *tool.Enforcer {
	var elevated func(context.Context, tool.Subject, tool.Decision) error
	if i.elevations != nil {
		elevated = i.elevations.Elevated
	}
	enforcer, err := tool.NewEnforcer(tool.EnforcerConfig{
		Registry: cmp.Or(i.agent.Registry, i.gen.Registry), Policies: i.policies, Stopped: i.bounds.stopped, Elevated: elevated, Now: i.record.clock, Log: i.record.log,
	})
	if err != nil { // only without a registry, which every generation has
		panic(err)
	}
	return enforcer
}

// elevation reads elevated mode each time a call is decided, because it may end while a person decides.
func (i *identity) elevation(a *Agent) func() tool.Elevation {
	if i.elevations == nil {
		return nil
	}
	return func() tool.Elevation { return i.elevations.Elevation(i.record.row, a.Name) }
}

// chain returns the delegation chain up to and including the turn.
func (i *identity) chain() []transcript.Link {
	own := transcript.Link{Agent: i.agent.Name, Session: i.record.row.Session, Turn: i.record.row.ID}
	if i.delegated == nil {
		return []transcript.Link{own}
	}
	return append(slices.Clone(i.delegated.record.Chain), own)
}

// usage returns what the session has used so far, including this turn.
func (i *identity) usage() policy.Usage {
	u := i.session.used
	u.Join(i.record.state.Used())
	return policyUsage(u, i.session.count, i.record.clock())
}

// role returns the sender's role.
func (i *identity) role() string { return i.gen.Roles.Of(i.record.row.Channel, i.record.row.Sender) }

// local reports whether a call of an agent comes from a person at the machine or from a frontend that counts as one.
func (i *identity) local(a *Agent) bool {
	return route.Local(i.record.row.Channel) || a.CLI != nil && a.CLI.Programs && i.record.row.Channel == message.MCPFrontend
}

// sandbox returns the name of an agent's sandbox in this turn. For an agent of kind cli it includes the conversation's folder.
func (i *identity) sandbox(a *Agent) string {
	if folder := i.record.state.User.Folder; a == i.agent && a.Kind == KindCLI && folder != "" {
		return a.Sandbox + ":" + folder
	}
	return a.Sandbox
}

// workspaceKey returns the name of the session's workspace and sandboxes. It stays the same when the session begins anew.
func (i *identity) workspaceKey() message.WorkspaceKey {
	if i.delegated != nil {
		return message.WorkspaceKey(i.delegated.record.Scope)
	}
	return i.record.row.Session.Parse().Workspace()
}

// private reports whether only the turn's sender reads its conversation.
func (i *identity) private() bool { return i.origin.Conversation.Kind == message.DM }

// account returns the account that pays for the turn's model calls.
func (i *identity) account() Account {
	row := &i.record.row
	return Account{Session: row.Session, Turn: row.ID, Sender: row.Sender, Agent: row.Agent}
}
