package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// ErrNoAgent is returned for an agent that is not configured.
var ErrNoAgent = errors.New("no such agent")

// Judgement is the result of a dry run of a call.
type Judgement struct {
	Session  message.SessionKey
	Role     string
	Labels   []string
	Decision tool.Decision
	Lease    *consent.Grant // the lease that would be used
}

// Judge returns what would become of a call if an agent made it now in answer to a message, given what the session has touched and
// used; labels are assumed in addition. For an agent of kind code, the call is one of its programs', unless it is the call that runs a
// program.
func (r *Runner) Judge(
	ctx context.Context, gen *Generation, policies Policies, m message.Message, agent string, labels []string, c model.ToolCall, leases tool.Leases,
) (Judgement, error) {
	a, ok := gen.Agents[agent]
	if !ok {
		return Judgement{}, fmt.Errorf("%w: %q", ErrNoAgent, agent)
	}
	at, err := r.cfg.Store.Scope(ctx, r.cfg.Generations.Scope(m))
	if err != nil {
		return Judgement{}, fmt.Errorf("read the state of the conversation: %w", err)
	}
	t := r.newTurn(gen, policies, a.fitted(at.Tier), m, turnlog.Turn{
		Session: at.Session(a.Name), Agent: a.Name, Channel: m.Channel, Conversation: m.Conversation, Sender: m.SenderKey(),
	}, nil)
	if t.session, err = r.sessions.load(ctx, t.row.Session); err != nil { // a fresh copy: a turn may be writing to the cached one
		return Judgement{}, fmt.Errorf("read the session: %w", err)
	}
	t.session.label(roleLabel(gen.Roles.Of(m.Channel, m.SenderKey())))
	t.session.label(labels)
	s := t.subject(ctx)
	if a.Programs != nil && a.Programs.Tool != c.Name {
		s = t.rights(ctx)
	}
	j := Judgement{Session: s.Session, Role: s.Role, Labels: s.Labels}
	j.Decision, j.Lease, err = t.enforcer().DryRun(ctx, s, c, leases)
	return j, err
}
