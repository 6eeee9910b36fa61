package rest

import (
	"context"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	keys "github.com/flynnhost/flynn/host/model/usage"
)

// usage shows what was spent, what is left, and what is held.
type usage struct{ gateway.Usages }

// seriesTimeout bounds the reading of a year.
const seriesTimeout = 25 * time.Second

func (u usage) register(r *registrar) {
	const subject = "Usage"
	type query struct {
		By    keys.Key  `query:"by" enum:"all,sender,agent,session,model,day,task" default:"all" doc:"A sum for each of what"`
		Since time.Time `query:"since" doc:"Leave out what is older, such as 2026-03-01T12:00:00Z"`
		Until time.Time `query:"until" doc:"The first moment that does not count"`
	}
	add(r, Operation{ID: "get-usage", Method: http.MethodGet, Path: "/usage", Subject: subject, Least: guest,
		Summary: "Tokens and money of model calls; for members and guests of their own"},
		func(ctx context.Context, by gateway.Caller, in *query) ([]gateway.UsageSum, error) {
			sums, err := u.Usage(ctx, in.By, keys.Filter{Sender: whose(by), Since: in.Since, Until: in.Until})
			return gateway.UsageSums(sums), err
		})
	type series struct {
		By    keys.Key          `query:"by" enum:"all,sender,agent,session,model,task" default:"all" doc:"A line for each of what"`
		Step  gateway.UsageStep `query:"step" enum:"hour,day,week,month" default:"day"`
		Zone  string            `query:"zone" maxLength:"64" doc:"The time zone in which a day begins, such as Europe/Berlin; UTC if it is absent"`
		Since time.Time         `query:"since" doc:"30 spans before until if it is absent"`
		Until time.Time         `query:"until" doc:"Now if it is absent"`
		Top   int               `query:"top" minimum:"1" maximum:"20" default:"8" doc:"How many lines there are besides that of the rest"`
	}
	add(r, Operation{ID: "get-usage-series", Method: http.MethodGet, Path: "/usage/series", Subject: subject, Least: guest, Timeout: seriesTimeout,
		Summary: "Tokens and money of model calls by time, for charts; for members and guests of their own"},
		func(ctx context.Context, by gateway.Caller, in *series) (gateway.UsageSeries, error) {
			zone, err := time.LoadLocation(in.Zone)
			if err != nil || in.Zone == "Local" {
				return gateway.UsageSeries{}, gateway.BadRequest("no such time zone: write a name of the IANA database, such as Europe/Berlin")
			}
			if in.Until.IsZero() {
				in.Until = time.Now()
			}
			if in.Since.IsZero() {
				in.Since = in.Until.Add(-29 * map[gateway.UsageStep]time.Duration{
					gateway.ByHour: time.Hour, gateway.ByDay: 24 * time.Hour, gateway.ByWeek: 7 * 24 * time.Hour, gateway.ByMonth: 30 * 24 * time.Hour,
				}[in.Step])
			}
			return u.UsageSeries(ctx, in.By, in.Step, zone, in.Top, keys.Filter{Sender: whose(by), Since: in.Since, Until: in.Until})
		})
	add(r, Operation{ID: "list-held", Method: http.MethodGet, Path: "/usage/held", Subject: subject, Least: guest,
		Summary: "Bytes, sandboxes and processes that each sender holds; for members and guests what they hold"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) ([]gateway.Held, error) {
			list, err := u.Held(ctx)
			if !by.Owner() {
				list = slices.DeleteFunc(list, func(h gateway.Held) bool { return h.Sender != by.Sender })
			}
			return orEmpty(list, err)
		})
	add(r, Operation{ID: "get-budgets", Method: http.MethodGet, Path: "/budgets", Subject: subject, Least: owner,
		Summary: "Today's budgets of the host and its agents, and what is left"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.Budgets, error) {
			return u.Budgets(ctx)
		})
	add(r, Operation{ID: "list-sender-budgets", Method: http.MethodGet, Path: "/budgets/senders", Subject: subject, Least: guest,
		Summary: "Today's budgets of senders who used something, by sender; for members and guests their own"},
		func(ctx context.Context, by gateway.Caller, in *Paging) (gateway.Page[gateway.Budget], error) {
			list, err := u.SenderBudgets(ctx, whose(by))
			from := sort.Search(len(list), func(i int) bool { return list[i].Name > in.Cursor })
			return gateway.PageOf(list[from:], in.Limit, func(b gateway.Budget) string { return b.Name }), err
		})
}
