package rest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	keys "github.com/flynnhost/flynn/host/model/usage"
)

// usage shows what was spent, and what is held.
type usage struct{ gateway.Usages }

func (u usage) register(r *registrar) {
	const subject = "Usage"
	type query struct {
		By    keys.Key  `query:"by" enum:"all,sender,agent,session,model,day,task" default:"all" doc:"A sum for each of what"`
		Since time.Time `query:"since" doc:"Leave out what is older, such as 2026-03-01T12:00:00Z"`
	}
	add(r, Operation{ID: "get-usage", Method: http.MethodGet, Path: "/usage", Subject: subject, Least: guest, Summary: "Tokens and money of model calls; for members and guests of their own"},
		func(ctx context.Context, by gateway.Caller, in *query) ([]gateway.UsageSum, error) {
			sums, err := u.Usage(ctx, in.By, whose(by), in.Since)
			return gateway.UsageSums(sums), err
		})
	add(r, Operation{ID: "list-held", Method: http.MethodGet, Path: "/usage/held", Subject: subject, Least: guest, Summary: "Bytes, sandboxes and processes that each sender holds; for members and guests what they hold"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) ([]gateway.Held, error) {
			list, err := u.Held(ctx)
			if !by.Owner() {
				list = slices.DeleteFunc(list, func(h gateway.Held) bool { return h.Sender != by.Sender })
			}
			return orEmpty(list, err)
		})
}
