package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// trials tries modules of policies on what is recorded.
type trials struct{ gateway.PolicyTrials }

// SinceTime selects what is not older.
type SinceTime struct {
	Since time.Time `query:"since" doc:"Leave out what is older, such as 2026-11-21T12:00:00Z"`
}

func (t trials) register(r *registrar) {
	const subject = "Policies"
	type replay struct {
		ByName
		Streamed
		SinceTime
	}
	add(r, Operation{ID: "replay-policy", Method: http.MethodPost, Path: "/policies/{name}/replays", Subject: subject, Least: owner, Timeout: askingTimeout,
		Body: gateway.MaxModule, Takes: "application/wasm",
		Summary: "Ask a module the recorded decisions of a policy, and show what it would change; nothing else happens to it"},
		func(ctx context.Context, _ gateway.Caller, in *replay) (gateway.PolicyReplay, error) {
			return t.ReplayPolicy(ctx, in.Name, in.Since, in.body)
		})
	type module struct {
		ByName
		Streamed
	}
	add(r, Operation{ID: "put-policy", Method: http.MethodPut, Path: "/policies/{name}/module", Subject: subject, Least: owner, Timeout: askingTimeout,
		Body: gateway.MaxModule, Takes: "application/wasm", Summary: "Put a module in force in place of a policy's file, if its cases and the gate of its policy let it"},
		func(ctx context.Context, by gateway.Caller, in *module) (gateway.PolicyStatus, error) {
			return t.PutPolicy(ctx, in.Name, in.body, string(by.Sender))
		})
	add(r, Operation{ID: "run-policy-cases", Method: http.MethodPost, Path: "/policies/{name}/cases", Subject: subject, Least: owner, Timeout: askingTimeout,
		Summary: "Run the test cases in a policy's folder"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (author.Report, error) {
			return t.RunPolicyCases(ctx, in.Name)
		})
	type shadow struct {
		SinceTime
		Policy   string `query:"policy" maxLength:"256" doc:"The name of a shadow policy; all of them if it is absent"`
		Examples int    `query:"examples" minimum:"0" maximum:"100" default:"3" doc:"How many decisions of each group are shown"`
	}
	add(r, Operation{ID: "list-shadow-reports", Method: http.MethodGet, Path: "/shadow-reports", Subject: subject, Least: owner,
		Summary: "What shadow policies would have changed, for each of their modules, the latest first"},
		func(ctx context.Context, _ gateway.Caller, in *shadow) ([]shadowlog.Report, error) {
			return orEmpty(t.ShadowReports(ctx, journal.ShadowFilter{Policy: in.Policy, Since: in.Since}, in.Examples))
		})
}
