package config

import (
	"fmt"
	"slices"
)

// policyShadow checks the policy that a shadow is compared with.
func (c *checker) policyShadow(i int, p Policy) {
	at := policyPath(i, "shadow_of")
	if p.ShadowOf == "" {
		return
	}
	if !p.Shadow {
		c.report(at, "only a shadow is compared with another policy", "write shadow = true, too")
		return
	}
	n := slices.IndexFunc(c.cfg.Policies, func(o Policy) bool { return o.Name == p.ShadowOf })
	switch {
	case n < 0:
		c.report(at, fmt.Sprintf("no policy is named %q", p.ShadowOf), "name a policy of this file")
		return
	case c.cfg.Policies[n].Shadow:
		c.report(at, fmt.Sprintf("%q is a shadow itself", p.ShadowOf), "name a policy that is in force")
		return
	}
	for _, kind := range p.Kinds {
		if !slices.Contains(c.cfg.Policies[n].Kinds, kind) {
			c.report(at, fmt.Sprintf("%q does not decide about a %s, which this policy does", p.ShadowOf, kind), "compare policies of the same kinds")
		}
	}
}
