package host

import (
	"context"

	"github.com/flynnhost/flynn/host/explain"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/telemetry"
)

// newTelemetry makes the exporter of spans, which follows the configuration in force.
func (h *Host) newTelemetry() *telemetry.Exporter {
	return telemetry.New(telemetry.Config{
		Endpoint: func() string { return h.current.Load().config.Telemetry.OTLPEndpoint },
		Trace:    func(ctx context.Context, turn string) (explain.Trace, error) { return backend{h}.Explain(ctx, turn) },
		Lost:     h.metrics.spanLoss.Inc,
		Log:      h.log,
	})
}

// publish shows an event to those who watch, and has the spans of a turn sent that it ends.
func (h *Host) publish(e message.Event) {
	h.broker.publish(e)
	if e.Kind == message.TurnDone {
		h.telemetry.Offer(e.Turn)
	}
}
