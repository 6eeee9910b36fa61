package fleet

import (
	"fmt"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Supports returns why an engine cannot make such containers, or nil. Its abilities decide, not its name.
func Supports(e driver.Driver, has driver.Capabilities, s spec.Spec) error {
	s = s.WithDefaults()
	if err := has.Supports(s.DriverNetwork(), s.Runtime, s.BestEffort, s.Requires...); err != nil {
		return err
	}
	_, volumes := e.(driver.Volumes)
	_, services := e.(driver.Services)
	_, builds := e.(image.Engine)
	_, inspects := e.(driver.Inspector)
	_, fills := e.(driver.Filler)
	for _, need := range []struct {
		asked, can bool
		what       string
	}{
		{len(s.Volumes) > 0, volumes, "volumes"},
		{s.Compose != nil, services, "compose"},
		{s.Dockerfile != "", builds, "dockerfile"},
		{len(s.Packages)+len(s.Binaries) > 0, builds, "packages and binaries"},
		{s.Start != nil, inspects, "start_command"},
		{len(s.Mounts) > 0, e.Binds(), "mounts"},
		{true, e.Binds() || driver.Copies(e) || volumes && fills, "workspaces: it can mount neither folders of this machine nor volumes, and makes no copies"},
	} {
		if need.asked && !need.can {
			return fmt.Errorf("%w: %s cannot make sandboxes with %s: start Docker or another container engine for them, or remove that from [sandbox]",
				driver.ErrUnable, has.Address, need.what)
		}
	}
	return nil
}
