package host

import (
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/observe/telemetry"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox/pool"
)

// watch subscribes those that watch turns: live views, and the exporter of spans, which follows the configuration in force.
func (h *Host) watch() {
	event.On(&h.events, h.broker.Publish)
	h.telemetry = telemetry.New(telemetry.Config{
		Endpoint: func() string { return h.current.Load().config.Telemetry.OTLPEndpoint },
		Trace:    explain.Reader{Store: h.store}.Explain,
		Events:   &h.events,
		Log:      h.log,
	})
	event.On(&h.events, func(e agent.TurnEnded) {
		if !e.WithParent && !e.Released {
			h.telemetry.Offer(e.Turn)
		}
	})
}

// state is what metrics are read from.
type state struct{ h *Host }

func (s state) Generation() uint64        { return s.h.current.Load().Number }
func (s state) Waiting() map[string]int   { return s.h.outbox.Waiting() }
func (s state) Pools() pool.Stats         { return s.h.fleet.PoolStats() }
func (s state) Policies() []policy.Status { return s.h.policies.Status() }
func (s state) Models() []model.Status    { return s.h.current.Load().models.Status() }
