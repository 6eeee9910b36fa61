package rest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// policies shows policies and rolls them back, and tries calls.
type policies struct {
	gateway.Policies
	dryRuns gateway.DryRuns
}

// askingTimeout bounds what may have to compile a module or to ask policies.
const askingTimeout = 25 * time.Second

func (p policies) register(r *registrar) {
	type rollback struct {
		ByName
		Body gateway.Rollback
	}
	if p.Policies != nil {
		p.shown(r)
		add(r, Operation{ID: "roll-back-policy", Method: http.MethodPost, Path: "/policies/{name}/rollback", Subject: "Policies", Least: owner,
			Timeout: askingTimeout, Summary: "Put an older module of a policy in force, or the policy file again"},
			func(ctx context.Context, _ gateway.Caller, in *rollback) (gateway.PolicyStatus, error) {
				if in.Body.Clear && in.Body.To != "" {
					return gateway.PolicyStatus{}, gateway.BadRequest(`send {"to":"DIGEST"}, {} or {"clear":true}`)
				}
				return p.RollbackPolicy(ctx, in.Name, in.Body)
			})
	}
	if p.Policies != nil {
		type shadowing struct {
			ByName
			Body struct {
				Shadow bool `json:"shadow" doc:"true has it decide without effect, false with effect again"`
			}
		}
		add(r, Operation{ID: "change-policy", Method: http.MethodPatch, Path: "/policies/{name}", Subject: "Policies", Least: owner, Timeout: editTimeout,
			Summary: "Make a policy a shadow in flynn.toml, or have it decide again, and put that in force"},
			func(ctx context.Context, by gateway.Caller, in *shadowing) (gateway.PolicyStatus, error) {
				return p.ShadowPolicy(ctx, in.Name, in.Body.Shadow, string(by.Sender))
			})
	}
	if p.dryRuns != nil {
		type call struct{ Body gateway.DryRunCall }
		add(r, Operation{ID: "dry-run", Method: http.MethodPost, Path: "/tools/dry-run", Subject: "Policies", Least: owner, Timeout: askingTimeout,
			Summary: "What would happen to a tool call; nothing runs and nobody is asked"},
			func(ctx context.Context, _ gateway.Caller, in *call) (gateway.DryRunResult, error) {
				return p.dryRuns.DryRun(ctx, in.Body)
			})
	}
}

// shown adds what shows policies.
func (p policies) shown(r *registrar) {
	const subject = "Policies"
	add(r, Operation{ID: "list-policies", Method: http.MethodGet, Path: "/policies", Subject: subject, Least: owner,
		Summary: "The policies in the order in which they are asked"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.PolicyStatus, error) {
			return orEmpty(p.Policies.Policies(ctx))
		})
	add(r, Operation{ID: "get-policy", Method: http.MethodGet, Path: "/policies/{name}", Subject: subject, Least: owner,
		Summary: "One policy with its latest changes, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (gateway.PolicyDetail, error) {
			return p.Policy(ctx, in.Name)
		})
	type changes struct {
		Policy string `query:"policy" maxLength:"256" doc:"The name of a policy; all of them if it is absent"`
		Paging
	}
	add(r, Operation{ID: "list-policy-changes", Method: http.MethodGet, Path: "/policy-changes", Subject: subject, Least: owner,
		Summary: "Modules that were loaded, refused and rolled back, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *changes) (page gateway.Page[journal.Change], err error) {
			before, err := gateway.NumberCursor(in.Cursor)
			if err != nil {
				return page, err
			}
			list, err := p.PolicyChanges(ctx, in.Policy)
			list = slices.DeleteFunc(list, func(c journal.Change) bool { return before > 0 && c.ID >= before })
			return gateway.PageOf(list, in.Limit, func(c journal.Change) string { return strconv.FormatInt(c.ID, 10) }), err
		})
	add(r, Operation{ID: "get-policy-source", Method: http.MethodGet, Path: "/policies/{name}/source", Subject: subject, Least: owner,
		Summary: "The text files of a policy's folder, where it lies beside the module"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) ([]author.SourceFile, error) {
			return orEmpty(p.PolicySource(ctx, in.Name))
		})
}
