package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// approvals answers the requests that wait for a person, and shows and ends grants.
type approvals struct{ gateway.Approvals }

// ByID is the path of a thing with an id.
type ByID struct {
	ID string `path:"id" minLength:"1" maxLength:"256"`
}

func (a approvals) register(r *registrar) {
	const subject = "Approvals"
	add(r, Operation{ID: "list-approvals", Method: http.MethodGet, Path: "/approvals", Subject: subject, Least: guest,
		Summary: "The requests that wait for a person, oldest first; an owner sees all, others their own"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) ([]gateway.Approval, error) {
			list, err := a.Approvals.Approvals(ctx)
			return by.ApprovalViews(a.Approvals, list), err
		})
	type decision struct {
		ByID
		Body gateway.Answer
	}
	act(r, Operation{ID: "decide-approval", Method: http.MethodPost, Path: "/approvals/{id}/decision", Subject: subject, Least: owner,
		Summary: "Answer a request, once or for longer"},
		func(ctx context.Context, by gateway.Caller, in *decision) error {
			return gateway.Decide(ctx, a.Approvals, in.ID, in.Body, string(by.Sender))
		})
	add(r, Operation{ID: "list-grants", Method: http.MethodGet, Path: "/grants", Subject: subject, Least: owner, Summary: "The latest grants, oldest first"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.Grant, error) {
			return orEmpty(a.Grants(ctx))
		})
	act(r, Operation{ID: "revoke-grant", Method: http.MethodDelete, Path: "/grants/{id}", Subject: subject, Least: owner, Summary: "End a grant"},
		func(ctx context.Context, by gateway.Caller, in *ByID) error {
			return a.Revoke(ctx, in.ID, string(by.Sender))
		})
	type filter struct {
		Kind    string    `query:"kind" maxLength:"256" doc:"What happened, such as grant or use"`
		Subject string    `query:"subject" maxLength:"256" doc:"The id of a grant or of a request"`
		Since   time.Time `query:"since" doc:"Leave out what is older, such as 2026-11-21T12:00:00Z"`
		Paging
	}
	add(r, Operation{ID: "list-audit", Method: http.MethodGet, Path: "/audit", Subject: subject, Least: owner,
		Summary: "When grants were made, used and ended, oldest first; the next page has those before"},
		func(ctx context.Context, _ gateway.Caller, in *filter) (page gateway.Page[consent.AuditRow], err error) {
			f := consent.AuditFilter{Kind: in.Kind, Subject: in.Subject, Since: in.Since, Limit: in.Limit + 1}
			if f.Below, err = gateway.NumberCursor(in.Cursor); err != nil {
				return page, err
			}
			page.Items, err = a.Audit(ctx, f)
			if more := len(page.Items) - in.Limit; more > 0 {
				page.Items = page.Items[more:]
				page.Next = strconv.FormatInt(page.Items[0].ID, 10)
			}
			return whole(page), err
		})
}
