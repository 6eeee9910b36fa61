package agent

import (
	"cmp"
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool"
)

// Usual is a tool of an agent, with what is decided about its calls as long as no policy restricts them and nothing is elevated.
type Usual struct {
	Spec tool.Spec
	// Channel is about calls in answer to messages over a channel, Local about those at a local frontend.
	Channel, Local tool.Outlook
}

// Usual returns the tools that an agent is offered, sorted by name. The tools of an agent of kind code are its programs', except for the
// one that runs a program.
func (r *Runner) Usual(ctx context.Context, gen *Generation, name string) ([]Usual, error) {
	a, ok := gen.Agents[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoAgent, name)
	}
	local := config.LocalFrontends()[0]
	var out []Usual
	for _, spec := range cmp.Or(a.Registry, gen.Registry).List() {
		if !a.Offered.Has(spec.Name) && (a.Programs == nil || a.Programs.Tool != spec.Name) {
			continue
		}
		out = append(out, Usual{
			Spec: spec, Channel: tool.OutlookOf(spec, r.usualSubject(ctx, gen, a, spec, route.FrontendChannel)), Local: tool.OutlookOf(spec, r.usualSubject(ctx, gen, a, spec, local)),
		})
	}
	return out, nil
}

func (r *Runner) usualSubject(ctx context.Context, gen *Generation, a *Agent, spec tool.Spec, channel string) tool.Subject {
	t := r.newTurn(gen, nil, a, message.Message{Channel: channel}, turnlog.Turn{Agent: a.Name, Channel: channel}, nil)
	t.session = &session{}
	if a.Programs != nil && a.Programs.Tool == spec.Name {
		return t.subject(ctx)
	}
	return t.rights(ctx)
}
