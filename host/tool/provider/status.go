package provider

import (
	"time"

	"github.com/flynnhost/flynn/host/tool"
)

// Status is a tool for people: the host's rules beside the provider's own words.
type Status struct {
	Name     string      `json:"name"`
	Own      string      `json:"own"`    // the provider's name for it
	Effect   tool.Effect `json:"effect"` // the host's
	Claims   string      `json:"claims"` // the effect that the provider names
	Approve  string      `json:"approve"`
	Profiles []string    `json:"profiles"`
	Says     string      `json:"says"` // the provider's description
	Digest   string      `json:"digest"`
	// Was and Changed are the previous digest and the time of the last change.
	Was     string    `json:"was,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// Describe lists the tools under some rules for people.
func (p *Provider) Describe(r Rules) (list []Status, problems []string) {
	tools, problems := p.Tools(r)
	for _, one := range tools {
		t := one.(*remote)
		s := Status{
			Name: t.spec.Name, Own: t.offer.spec.Name, Effect: t.spec.Effect, Claims: t.offer.spec.Effect, Approve: string(t.spec.Approve),
			Profiles: t.spec.Profiles, Says: t.offer.spec.Description, Digest: t.offer.digest,
		}
		if p.cfg.Journal != nil {
			e := p.cfg.Journal.Entry(p.cfg.Name, s.Own)
			s.Was, s.Changed = e.Was, e.Changed
		}
		list = append(list, s)
	}
	return list, problems
}
