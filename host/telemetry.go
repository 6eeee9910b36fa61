package host

import (
	"context"

	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/observe/telemetry"
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
