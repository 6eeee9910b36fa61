package doctor

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/admin/preflight"
)

// checkPolicies loads the policies and runs their cases, as a start does.
func checkPolicies(ctx context.Context, x *exam) {
	wrong := preflight.Policies(ctx, x.Config, x.Sources)
	if ctx.Err() != nil {
		x.unexamined("policies, because their cases take too long: flynn config check waits for them")
		return
	}
	for _, e := range wrong {
		f := ofError(PolicyFails, e)
		if e.Hint == "" {
			f.Mend, f.Command = "build it again, or correct its path", "flynn policy lint"
		}
		x.add(f)
	}
	if x.Running == nil {
		return
	}
	for i, p := range x.Running.Status.Policies {
		switch {
		case !p.OK && len(wrong) == 0:
			x.add(Finding{Code: PolicyFails, What: "policy " + p.Name + " is " + p.State + ": " + p.Detail, Command: "flynn policy list"})
		case p.Stateful > 0:
			x.at(Finding{
				Code: ConfigWarning, What: fmt.Sprintf("policy %s keeps state between decisions: without it %d of the sampled ones would be different", p.Name, p.Stateful),
				Mend: `write isolation = "pure" for it`,
			}, "policies", fmt.Sprintf("[%d]", i))
		}
	}
}
