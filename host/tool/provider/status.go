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
	// Was and Changed tell of the last change of what the provider says.
	Was     string    `json:"was,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// Describe tells people about the tools under some rules.
func (p *Provider) Describe(r Rules) (list []Status, problems []string) {
	tools, problems := p.Tools(r)
	for _, one := range tools {
		t := one.(*remote)
		s := Status{
			Name: t.spec.Name, Own: t.offer.spec.Name, Effect: t.spec.Effect, Claims: t.offer.spec.Effect, Approve: string(t.spec.Approve),
			Profiles: t.spec.Profiles, Says: t.offer.spec.Description, Digest: t.offer.digest,
		}
		if p.cfg.Ledger != nil {
			e := p.cfg.Ledger.Entry(p.cfg.Name, s.Own)
			s.Was, s.Changed = e.Was, e.Changed
		}
		list = append(list, s)
	}
	return list, problems
}
