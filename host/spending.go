package host

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// budgetZone says when the day of the daily budgets begins.
func budgetZone(c *config.Config) *time.Location {
	zone, err := c.Budgets.Location()
	if err != nil { // the check has seen it
		zone = time.Local
	}
	return zone
}

// ReadHeld sums up what senders hold of a host that does not run, so that no background process does. Without an engine that answers, sandboxes are not counted, and
// the error says why; what else is known is returned with it.
func ReadHeld(ctx context.Context, c *config.Config) (held []gateway.Held, err error) {
	r, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	holders, err := r.Holders(ctx)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	running, err := sandboxes.Count(ctx, c)
	return report(quota.Holdings{
		Senders: sendersOf(holders), Measure: fleet.FoldersOf(c.Store.Dir).Size, Media: media.Owned(filepath.Join(c.Store.Dir, "media")), Sandboxes: running,
	}), err
}

// report puts what senders hold into the gateway's words.
func report(in quota.Holdings) []gateway.Held {
	list := []gateway.Held{}
	for _, h := range quota.Report(in) {
		list = append(list, gateway.Held(h))
	}
	return list
}

// sendersOf are the senders of sessions, by what the workspaces of these are called.
func sendersOf(holders []store.Holder) map[string]string {
	senders := map[string]string{}
	for _, h := range holders {
		senders[store.SessionHome(h.Session)] = h.Sender
	}
	return senders
}

// Held implements gateway.Holdings.
func (b backend) Held(ctx context.Context) ([]gateway.Held, error) {
	holders, err := b.h.store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	in := b.h.fleet.Holdings()
	in.Senders, in.Media = sendersOf(holders), b.h.files.Media().Owned()
	return report(in), nil
}

var _ gateway.Holdings = backend{}

// Usage implements gateway.Usages.
func (b backend) Usage(ctx context.Context, by store.UsageKey, since time.Time) ([]store.Spent, error) {
	return b.h.store.SumUsage(ctx, by, store.UsageFilter{Since: since})
}

var _ gateway.Usages = backend{}

// modelStatus is that of the models in force.
func (h *Host) modelStatus() []model.Status {
	g := h.current.Load()
	if g == nil {
		return nil
	}
	return g.models.Status()
}

func modelStatuses(list []model.Status) []gateway.ModelStatus {
	var out []gateway.ModelStatus
	for _, s := range list {
		out = append(out, gateway.ModelStatus{
			Tier: s.Tier, Provider: s.Provider, Model: s.Model, State: string(s.State), Until: s.Until, Failures: s.Failures, Last: string(s.Last),
		})
	}
	return out
}

// breakers shows Prometheus the breaker of each tier's model.
type breakers struct{ status func() []model.Status }

var _ prometheus.Collector = breakers{}

func (b breakers) desc() *prometheus.Desc {
	return prometheus.NewDesc("flynn_model_breaker", "State of the breaker of a tier's model: 0 closed, 1 half open, 2 open.",
		[]string{"tier", "provider", "model"}, nil)
}

// Describe implements prometheus.Collector.
func (b breakers) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc() }

// Collect implements prometheus.Collector.
func (b breakers) Collect(ch chan<- prometheus.Metric) {
	for _, s := range b.status() {
		value := map[model.State]float64{model.Closed: 0, model.HalfOpen: 1, model.Open: 2}[s.State]
		ch <- prometheus.MustNewConstMetric(b.desc(), prometheus.GaugeValue, value, s.Tier, s.Provider, s.Model)
	}
}
