package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/tool"
)

// elevation looks at elevated mode each time that a call is decided: it may end while a person thinks about one.
func (t *turn) elevation(a *Agent) func() tool.Elevation {
	if t.cfg.Elevations == nil {
		return nil
	}
	return func() tool.Elevation { return t.cfg.Elevations.Elevation(t.row, a.Name) }
}

// recordElevated returns what records that a call leaves the sandbox, or nil where none may.
func (t *turn) recordElevated() func(context.Context, tool.Subject, tool.Verdict) error {
	if t.cfg.Elevations == nil {
		return nil
	}
	return t.cfg.Elevations.Elevated
}
