package storetest

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

func pendingApproval(id string) store.Approval {
	return store.Approval{
		ID: id, Session: "irc:#flynn:helper", Agent: "helper", Requester: "irc:bob", Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`),
		Where: "host", Sandbox: "host", Policy: "d", Reach: "shell", State: store.ApprovalPending, Created: noon, Expires: noon.Add(time.Minute),
	}
}

func grant(id string) store.Grant {
	return store.Grant{
		ID: id, Scope: store.GrantStanding, Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`), Pattern: "ls *", Programs: []string{"/bin/ls"},
		Agent: "helper", Session: "irc:#flynn:helper", Dir: "/w", Where: "host", Sandbox: "host", Policy: "d", Requester: "irc:bob", Granter: "irc:ann",
		Created: noon, Expires: noon.Add(time.Hour),
	}
}

func auditRow(kind, subject string, at time.Time) store.AuditRow {
	return store.AuditRow{
		At: at, Kind: kind, Subject: subject, Actor: "irc:ann", Session: "irc:#flynn:helper", Agent: "helper", Tool: "shell.exec", Turn: "t1", Detail: "é",
	}
}

func grantLife(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	at := noon.Add(time.Second)
	for _, id := range []string{"g1", "g2", "g3"} {
		check(t, s.AddApproval(ctx, pendingApproval(id)))
	}
	check(t, s.GrantApproval(ctx, grant("g1"), auditRow(store.AuditGranted, "g1", at)))
	wantErr(t, s.GrantApproval(ctx, grant("g1"), auditRow(store.AuditGranted, "g1", at)), store.ErrConflict)
	wantErr(t, s.GrantApproval(ctx, grant("none"), auditRow(store.AuditGranted, "none", at)), store.ErrConflict)
	check(t, s.MoveApproval(ctx, "g3", store.ApprovalPending, store.ApprovalDenied, "irc:ann", at))
	wantErr(t, s.GrantApproval(ctx, grant("g3"), auditRow(store.AuditGranted, "g3", at)), store.ErrConflict)
	other := grant("g2")
	other.Agent = "coder"
	check(t, s.GrantApproval(ctx, other, auditRow(store.AuditGranted, "g2", at)))

	s = open()
	a := must[store.Approval](t)(s.Approval(ctx, "g1"))
	if a.State != store.ApprovalConsumed || a.Decider != "irc:ann" || a.Scope != store.GrantStanding || !a.Decided.Equal(at) {
		t.Fatalf("the request is %+v", a)
	}
	equal(t, "open", must[[]store.Grant](t)(s.OpenGrants(ctx, "helper", "shell.exec", at)), []store.Grant{grant("g1")})
	equal(t, "all", must[[]store.Grant](t)(s.ListGrants(ctx, 10)), []store.Grant{grant("g1"), other})
	equal(t, "latest", must[[]store.Grant](t)(s.ListGrants(ctx, 1)), []store.Grant{other})
	check(t, s.UseGrant(ctx, "g1", auditRow(store.AuditGrantUsed, "g1", at)))
	check(t, s.UseGrant(ctx, "g1", auditRow(store.AuditGrantUsed, "g1", at.Add(time.Second))))
	wantErr(t, s.UseGrant(ctx, "g1", auditRow(store.AuditGrantUsed, "g1", noon.Add(time.Hour))), store.ErrConflict)
	wantErr(t, s.UseGrant(ctx, "none", auditRow(store.AuditGrantUsed, "none", at)), store.ErrConflict)
	g := must[store.Grant](t)(s.Grant(ctx, "g1"))
	if g.Uses != 2 || !g.LastUsed.Equal(at.Add(time.Second)) {
		t.Fatalf("used: %+v", g)
	}
	check(t, s.EndGrant(ctx, "g1", auditRow(store.AuditGrantEnded, "g1", at)))
	wantErr(t, s.EndGrant(ctx, "g1", auditRow(store.AuditGrantEnded, "g1", at)), store.ErrConflict)
	wantErr(t, s.UseGrant(ctx, "g1", auditRow(store.AuditGrantUsed, "g1", at)), store.ErrConflict)
	if open := must[[]store.Grant](t)(s.OpenGrants(ctx, "helper", "shell.exec", at)); len(open) != 0 {
		t.Fatalf("open after the end: %+v", open)
	}
	if g = must[store.Grant](t)(s.Grant(ctx, "g1")); g.EndedBy != "irc:ann" || g.Open(at) {
		t.Fatalf("ended: %+v", g)
	}
	_, err := s.Grant(ctx, "none")
	wantErr(t, err, store.ErrNotFound)

	// Every change has left its row, and what failed has left none.
	var kinds []string
	for _, r := range must[[]store.AuditRow](t)(s.ListAudit(ctx, store.AuditFilter{Subject: "g1"})) {
		kinds = append(kinds, r.Kind)
	}
	equal(t, "audit", kinds, []string{store.AuditGranted, store.AuditGrantUsed, store.AuditGrantUsed, store.AuditGrantEnded})
}

func grantsAreCounted(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	check(t, s.AddApproval(ctx, pendingApproval("g1")))
	check(t, s.GrantApproval(ctx, grant("g1"), auditRow(store.AuditGranted, "g1", noon)))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.UseGrant(ctx, "g1", auditRow(store.AuditGrantUsed, "g1", noon)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if g := must[store.Grant](t)(s.Grant(ctx, "g1")); g.Uses != 8 {
		t.Errorf("%d uses, want 8", g.Uses)
	}
}

func elevationLife(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	e := store.Elevation{Conversation: "irc:#flynn", State: "ask", Sender: "irc:ann", Began: noon, Until: noon.Add(time.Minute)}
	check(t, s.Elevate(ctx, e, auditRow(store.AuditElevated, e.Conversation, noon)))
	later := e
	later.State, later.Began = "on", noon.Add(time.Second)
	check(t, s.Elevate(ctx, later, auditRow(store.AuditElevated, e.Conversation, later.Began)))
	s = open()
	equal(t, "elevation", must[store.Elevation](t)(s.Elevation(ctx, e.Conversation)), later)
	equal(t, "all", must[[]store.Elevation](t)(s.Elevations(ctx)), []store.Elevation{later})
	wantErr(t, s.EndElevation(ctx, e.Conversation, e.Began, auditRow(store.AuditElevatedEnd, e.Conversation, noon)), store.ErrConflict)
	check(t, s.EndElevation(ctx, e.Conversation, later.Began, auditRow(store.AuditElevatedEnd, e.Conversation, noon)))
	wantErr(t, s.EndElevation(ctx, e.Conversation, later.Began, auditRow(store.AuditElevatedEnd, e.Conversation, noon)), store.ErrConflict)
	_, err := s.Elevation(ctx, e.Conversation)
	wantErr(t, err, store.ErrNotFound)
	if rows := must[[]store.AuditRow](t)(s.ListAudit(ctx, store.AuditFilter{Subject: e.Conversation})); len(rows) != 3 {
		t.Errorf("%d audit rows, want 3", len(rows))
	}
}

func auditLog(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	rows := []store.AuditRow{
		auditRow(store.AuditGranted, "a", noon), auditRow(store.AuditGrantUsed, "a", noon.Add(time.Second)), auditRow(store.AuditGranted, "b", noon.Add(time.Minute)),
	}
	check(t, s.AddAudit(ctx, rows))
	s = open()
	for i := range rows {
		rows[i].ID = int64(i + 1)
	}
	for _, c := range []struct {
		name string
		f    store.AuditFilter
		want []store.AuditRow
	}{
		{"all", store.AuditFilter{}, rows},
		{"a kind", store.AuditFilter{Kind: store.AuditGranted}, []store.AuditRow{rows[0], rows[2]}},
		{"a subject", store.AuditFilter{Subject: "a"}, rows[:2]},
		{"since", store.AuditFilter{Since: noon.Add(time.Second)}, rows[1:]},
		{"the latest", store.AuditFilter{Limit: 1}, rows[2:]},
	} {
		equal(t, c.name, must[[]store.AuditRow](t)(s.ListAudit(ctx, c.f)), c.want)
	}
}
