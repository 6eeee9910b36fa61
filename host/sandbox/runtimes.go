package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Supports says why the engine cannot make what a specification asks for, as far as it is known beforehand.
func (c Capabilities) Supports(s Spec) error {
	if s.Runtime == "" || slices.Contains(c.Runtimes, s.Runtime) {
		return nil
	}
	return fmt.Errorf("%w: the engine at %s has no runtime %q, only %s: register it there, or change runtime in [sandbox]",
		machine.ErrUnavailable, c.Address, s.Runtime, strings.Join(slices.Sorted(slices.Values(c.Runtimes)), ", "))
}
