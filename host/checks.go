package host

import (
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/tool/elevate"
)

// Checks are what a configuration has to pass besides its own rules, in `flynn serve` and `flynn config check` alike.
func Checks() []config.Check {
	return []config.Check{route.Check, assemble.CheckTools, assemble.CheckPrograms, specs.Check, configured.Check, elevate.Check}
}
