package storetest

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func pendingApproval(id string) consent.Approval {
	return consent.Approval{
		ID: id, Session: "irc:#flynn:helper", Agent: "helper", Requester: "irc:bob", Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`),
		Where: "host", Sandbox: "host", Policy: "d", Reach: "shell", State: consent.ApprovalPending, Created: noon, Expires: noon.Add(time.Minute),
	}
}

func grant(id string) consent.Grant {
	return consent.Grant{
		ID: id, Scope: consent.GrantStanding, Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`), Pattern: "ls *", Programs: []string{"/bin/ls"},
		Agent: "helper", Session: "irc:#flynn:helper", Dir: "/w", Where: "host", Sandbox: "host", Policy: "d", Requester: "irc:bob", Granter: "irc:ann",
		Created: noon, Expires: noon.Add(time.Hour),
	}
}

func auditRow(kind, subject string, at time.Time) consent.AuditRow {
	return consent.AuditRow{
		At: at, Kind: kind, Subject: subject, Actor: "irc:ann", Session: "irc:#flynn:helper", Agent: "helper", Tool: "shell.exec", Turn: "t1", Detail: "é",
	}
}

func grantLife(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	at := noon.Add(time.Second)
	for _, id := range []string{"g1", "g2", "g3"} {
		check(t, s.AddApproval(ctx, pendingApproval(id)))
	}
	check(t, s.GrantApproval(ctx, grant("g1"), auditRow(consent.AuditGranted, "g1", at)))
	wantErr(t, s.GrantApproval(ctx, grant("g1"), auditRow(consent.AuditGranted, "g1", at)), store.ErrConflict)
	wantErr(t, s.GrantApproval(ctx, grant("none"), auditRow(consent.AuditGranted, "none", at)), store.ErrConflict)
	check(t, s.MoveApproval(ctx, "g3", consent.ApprovalPending, consent.ApprovalDenied, "irc:ann", at))
	wantErr(t, s.GrantApproval(ctx, grant("g3"), auditRow(consent.AuditGranted, "g3", at)), store.ErrConflict)
	other := grant("g2")
	other.Agent = "coder"
	check(t, s.GrantApproval(ctx, other, auditRow(consent.AuditGranted, "g2", at)))

	s = open()
	a := must[consent.Approval](t)(s.Approval(ctx, "g1"))
	if a.State != consent.ApprovalConsumed || a.Decider != "irc:ann" || a.Scope != consent.GrantStanding || !a.Decided.Equal(at) {
		t.Fatalf("the request is %+v", a)
	}
	equal(t, "open", must[[]consent.Grant](t)(s.OpenGrants(ctx, "helper", "shell.exec", at)), []consent.Grant{grant("g1")})
	equal(t, "all", must[[]consent.Grant](t)(s.ListGrants(ctx, 10)), []consent.Grant{grant("g1"), other})
	equal(t, "latest", must[[]consent.Grant](t)(s.ListGrants(ctx, 1)), []consent.Grant{other})
	check(t, s.UseGrant(ctx, "g1", auditRow(consent.AuditGrantUsed, "g1", at)))
	check(t, s.UseGrant(ctx, "g1", auditRow(consent.AuditGrantUsed, "g1", at.Add(time.Second))))
	wantErr(t, s.UseGrant(ctx, "g1", auditRow(consent.AuditGrantUsed, "g1", noon.Add(time.Hour))), store.ErrConflict)
	wantErr(t, s.UseGrant(ctx, "none", auditRow(consent.AuditGrantUsed, "none", at)), store.ErrConflict)
	g := must[consent.Grant](t)(s.Grant(ctx, "g1"))
	if g.Uses != 2 || !g.LastUsed.Equal(at.Add(time.Second)) {
		t.Fatalf("used: %+v", g)
	}
	check(t, s.EndGrant(ctx, "g1", auditRow(consent.AuditGrantEnded, "g1", at)))
	wantErr(t, s.EndGrant(ctx, "g1", auditRow(consent.AuditGrantEnded, "g1", at)), store.ErrConflict)
	wantErr(t, s.UseGrant(ctx, "g1", auditRow(consent.AuditGrantUsed, "g1", at)), store.ErrConflict)
	if open := must[[]consent.Grant](t)(s.OpenGrants(ctx, "helper", "shell.exec", at)); len(open) != 0 {
		t.Fatalf("open after the end: %+v", open)
	}
	if g = must[consent.Grant](t)(s.Grant(ctx, "g1")); g.EndedBy != "irc:ann" || g.Open(at) {
		t.Fatalf("ended: %+v", g)
	}
	_, err := s.Grant(ctx, "none")
	wantErr(t, err, store.ErrNotFound)

	// Every change has left its row, and what failed has left none.
	var kinds []string
	for _, r := range must[[]consent.AuditRow](t)(s.ListAudit(ctx, consent.AuditFilter{Subject: "g1"})) {
		kinds = append(kinds, r.Kind)
	}
	equal(t, "audit", kinds, []string{consent.AuditGranted, consent.AuditGrantUsed, consent.AuditGrantUsed, consent.AuditGrantEnded})
}

func grantsAreCounted(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	check(t, s.AddApproval(ctx, pendingApproval("g1")))
	check(t, s.GrantApproval(ctx, grant("g1"), auditRow(consent.AuditGranted, "g1", noon)))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.UseGrant(ctx, "g1", auditRow(consent.AuditGrantUsed, "g1", noon)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if g := must[consent.Grant](t)(s.Grant(ctx, "g1")); g.Uses != 8 {
		t.Errorf("%d uses, want 8", g.Uses)
	}
}

func elevationLife(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	e := consent.Elevation{Conversation: "irc:#flynn", State: "ask", Sender: "irc:ann", Began: noon, Until: noon.Add(time.Minute)}
	check(t, s.Elevate(ctx, e, auditRow(consent.AuditElevated, string(e.Conversation), noon)))
	later := e
	later.State, later.Began = "on", noon.Add(time.Second)
	check(t, s.Elevate(ctx, later, auditRow(consent.AuditElevated, string(e.Conversation), later.Began)))
	s = open()
	equal(t, "elevation", must[consent.Elevation](t)(s.Elevation(ctx, e.Conversation)), later)
	equal(t, "all", must[[]consent.Elevation](t)(s.Elevations(ctx)), []consent.Elevation{later})
	wantErr(t, s.EndElevation(ctx, e.Conversation, e.Began, auditRow(consent.AuditElevatedEnd, string(e.Conversation), noon)), store.ErrConflict)
	check(t, s.EndElevation(ctx, e.Conversation, later.Began, auditRow(consent.AuditElevatedEnd, string(e.Conversation), noon)))
	wantErr(t, s.EndElevation(ctx, e.Conversation, later.Began, auditRow(consent.AuditElevatedEnd, string(e.Conversation), noon)), store.ErrConflict)
	_, err := s.Elevation(ctx, e.Conversation)
	wantErr(t, err, store.ErrNotFound)
	if rows := must[[]consent.AuditRow](t)(s.ListAudit(ctx, consent.AuditFilter{Subject: string(e.Conversation)})); len(rows) != 3 {
		t.Errorf("%d audit rows, want 3", len(rows))
	}
}

func auditLog(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	rows := []consent.AuditRow{
		auditRow(consent.AuditGranted, "a", noon), auditRow(consent.AuditGrantUsed, "a", noon.Add(time.Second)), auditRow(consent.AuditGranted, "b", noon.Add(time.Minute)),
	}
	check(t, s.AddAudit(ctx, rows))
	s = open()
	for i := range rows {
		rows[i].ID = int64(i + 1)
	}
	for _, c := range []struct {
		name string
		f    consent.AuditFilter
		want []consent.AuditRow
	}{
		{"all", consent.AuditFilter{}, rows},
		{"a kind", consent.AuditFilter{Kind: consent.AuditGranted}, []consent.AuditRow{rows[0], rows[2]}},
		{"a subject", consent.AuditFilter{Subject: "a"}, rows[:2]},
		{"since", consent.AuditFilter{Since: noon.Add(time.Second)}, rows[1:]},
		{"the latest", consent.AuditFilter{Limit: 1}, rows[2:]},
	} {
		equal(t, c.name, must[[]consent.AuditRow](t)(s.ListAudit(ctx, c.f)), c.want)
	}
}
