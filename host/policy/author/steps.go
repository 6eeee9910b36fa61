package author

import "github.com/flynnhost/flynn/host/policy"

// steps is the fuel that a policy spent on deciding. One in Rego is handed all facts at once and reads them before it decides; what
// that takes depends on every fact, and says nothing of those it looks at.
func steps(r policy.Record) int64 {
	fuel := r.Fuel
	for _, c := range r.Calls {
		if c.Name == policy.InputCall {
			fuel -= int64(c.Ret)
		}
	}
	return fuel
}
