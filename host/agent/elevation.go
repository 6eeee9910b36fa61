package agent

import "github.com/flynnhost/flynn/host/tool"

// elevation looks at elevated mode each time that a call is decided: it may end while a person thinks about one.
func (t *turn) elevation() func() tool.Elevation {
	if t.cfg.Elevation == nil {
		return nil
	}
	return func() tool.Elevation { return t.cfg.Elevation(t.row, t.agent.Name) }
}
